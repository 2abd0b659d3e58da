package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/cli/esx"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

const (
	rdmaList       = "vim.EsxCLI.rdma.device.list"
	rdmaStatistics = "vim.EsxCLI.rdma.device.stats.get"
	rdmaDevice     = "vmrdma"
	framesWait     = 5 * time.Second
)

// esxcli answers the commands of a host that the simulator does not know, or knows of another host.
type esxcli struct {
	substitute
	executer *simulator.ManagedMethodExecuter
}

// ExecuteSoap runs a command. The library keeps the types of request and answer to itself, hence their fields by name.
func (e *esxcli) ExecuteSoap(ctx *simulator.Context, asked any) soap.HasFault {
	given := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(asked)}
	answer := reflect.ValueOf(e.executer).MethodByName("ExecuteSoap").Call(given)[0].Interface().(soap.HasFault)
	text, known, err := e.answer(ctx, reflect.ValueOf(asked).Elem())
	if !known {
		return answer
	}
	result := reflect.ValueOf(answer).Elem().FieldByName("Res").Elem().FieldByName("Returnval").Elem()
	if err != nil {
		fault := result.FieldByName("Fault").Elem()
		fault.FieldByName("FaultMsg").SetString(err.Error())
		fault.FieldByName("FaultDetail").SetString("")
		return answer
	}
	result.FieldByName("Response").SetString(text)
	result.FieldByName("Fault").SetZero()
	return answer
}

// answer is what a host says to a command of ours; without an error where the library knows the command too.
func (e *esxcli) answer(ctx *simulator.Context, request reflect.Value) (text string, known bool, err error) {
	switch request.FieldByName("Method").String() {
	case rdmaStatistics:
		sent, received, err := e.counted(ctx, argument(request, "device"))
		row := esx.Values{
			"BytesReceived": {strconv.FormatInt(received, 10)},
			"BytesSent":     {strconv.FormatInt(sent, 10)},
		}
		return listed("RdmaStats", row), true, err
	case rdmaList:
		text, err := e.devices(ctx)
		return text, true, err
	case pingCommand:
		text, err := e.ping(ctx, request)
		return text, true, err
	case nicDetails:
		text, err := e.nicAnswer(ctx, request)
		return text, true, err
	case packageList:
		return listed("VibSummaryExt", packageRows()...), true, nil
	}
	return "", false, nil
}

// rdmaDevices is one over each port of the fast card.
func rdmaDevices(host *simulator.HostSystem) []types.HostRdmaDevice {
	var found []types.HostRdmaDevice
	for _, nic := range host.Config.Network.Pnic {
		if nic.Driver != fastDriver {
			continue
		}
		device := fmt.Sprintf("%s%d", rdmaDevice, len(found))
		found = append(found, types.HostRdmaDevice{
			Key:         "key-vim.host.RdmaDevice-" + device,
			Device:      device,
			Driver:      "nmlx5_rdma",
			Description: "ConnectX-5, simulated",
			Backing:     &types.HostRdmaDevicePnicBacking{PairedUplink: nic.Key},
			ConnectionInfo: types.HostRdmaDeviceConnectionInfo{
				State: "active", Mtu: 4096, SpeedInMbps: fastMbit,
			},
			Capability: types.HostRdmaDeviceCapability{RoceV1Capable: true, RoceV2Capable: true},
		})
	}
	return found
}

// showRdma writes the devices into the host's description, where ESXi tells them from 7.0 on and no older one.
func showRdma(host *simulator.HostSystem) {
	host.Config.Network.RdmaDevice = nil
	if !strings.HasPrefix(host.Config.Product.Version, "6.") {
		host.Config.Network.RdmaDevice = rdmaDevices(host)
	}
}

// devices is what esxcli lists, of every release: the same devices, in the words of that command.
func (e *esxcli) devices(ctx *simulator.Context) (string, error) {
	host, err := e.host(ctx)
	if err != nil {
		return "", err
	}
	uplinks := map[string]types.PhysicalNic{}
	for _, nic := range host.Config.Network.Pnic {
		uplinks[nic.Key] = nic
	}
	var rows []esx.Values
	for _, one := range rdmaDevices(host) {
		nic := uplinks[one.Backing.(*types.HostRdmaDevicePnicBacking).PairedUplink]
		state, speed := "Down", ""
		if nic.LinkSpeed != nil {
			state, speed = "Active", fmt.Sprintf("%d Gbps", nic.LinkSpeed.SpeedMb/1000)
		}
		rows = append(rows, esx.Values{
			"Name": {one.Device}, "Driver": {one.Driver}, "State": {state}, "MTU": {strconv.Itoa(int(one.ConnectionInfo.Mtu))},
			"Speed": {speed}, "PairedUplink": {nic.Device}, "Description": {one.Description},
		})
	}
	return listed("RdmaDevice", rows...), nil
}

// listed writes rows as a host does.
func listed(kind string, rows ...esx.Values) string {
	var text bytes.Buffer
	if err := xml.NewEncoder(&text).Encode(&esx.Response{Kind: kind, Values: rows}); err != nil {
		panic(err) // texts can always be written
	}
	return text.String()
}

// argument is a command's argument without its element.
func argument(request reflect.Value, name string) string {
	all := request.FieldByName("Argument")
	for i := range all.Len() {
		one := all.Index(i)
		if one.FieldByName("Name").String() == name {
			var value struct {
				Text string `xml:",chardata"`
			}
			if xml.Unmarshal([]byte(one.FieldByName("Val").String()), &value) == nil {
				return value.Text
			}
		}
	}
	return ""
}

// counted is what a host's RDMA device has sent and received. Guests' frames reach the simulated switch by a cable of
// their own, and what its ports count of them is what the device below them would have: that of the first device for
// the first rail NIC of each guest, of the second for the second.
func (e *esxcli) counted(ctx *simulator.Context, device string) (sent, received int64, err error) {
	var number int
	if read, err := fmt.Sscanf(device, rdmaDevice+"%d", &number); read != 1 || err != nil || number >= fastNics {
		return 0, 0, fmt.Errorf("no RDMA device %q", device)
	}
	ports, err := switchPorts()
	if err != nil {
		return 0, 0, fmt.Errorf("nothing counts here: %w", err)
	}
	reference := types.ManagedObjectReference{Type: "HostSystem", Value: e.executer.Value}
	for _, object := range ctx.Map.All("VirtualMachine") {
		vm := object.(*simulator.VirtualMachine)
		on, name := types.ManagedObjectReference{}, ""
		ctx.Map.WithLock(ctx, vm.Self, func() {
			if name = vm.Name; vm.Runtime.Host != nil {
				on = *vm.Runtime.Host
			}
		})
		if nics := ports[name]; on == reference && number < len(nics) {
			sent += nics[number].In
			received += nics[number].Out
		}
	}
	return sent, received, nil
}

// traffic is what a switch port has counted; in is from the node.
type traffic struct {
	In  int64 `json:"in_bytes"`
	Out int64 `json:"out_bytes"`
}

// switchPorts asks the frame switch, which lies beside this vCenter in the simulator's folder, for the ports of each node.
func switchPorts() (map[string][]traffic, error) {
	control := flag.Lookup("control").Value.String()
	if control == "" {
		return nil, fmt.Errorf("this vCenter belongs to no simulator")
	}
	socket := filepath.Join(filepath.Dir(filepath.Dir(control)), "switch", "control.sock")
	connection, err := net.DialTimeout("unix", socket, framesWait)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(framesWait)); err != nil {
		return nil, err
	}
	if _, err := connection.Write([]byte("{\"verb\": \"show\"}\n")); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(connection).ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var answer struct {
		Ports []struct {
			Node     string  `json:"node"`
			Counters traffic `json:"counters"`
		} `json:"ports"`
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return nil, err
	}
	found := map[string][]traffic{}
	for _, port := range answer.Ports {
		found[port.Node] = append(found[port.Node], port.Counters)
	}
	return found, nil
}
