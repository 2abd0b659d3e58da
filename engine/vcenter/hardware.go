package main

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/cli/esx"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

const (
	nicDetails   = "vim.EsxCLI.network.nic.get"
	packageList  = "vim.EsxCLI.software.vib.list"
	nicDriver    = "4.23.0.36"
	nicFirmware  = "16.35.3006"
	nicSlot      = "0000:3b:00"
	networkClass = 0x0200
	displayClass = 0x0302
	bridgeClass  = 0x0604
	nvidia       = 0x10de
	mellanox     = 0x15b3
	intel        = -0x7f7a // 0x8086, which the API's number is too short for
	volta        = 0x1db6
	connectX5    = 0x1017
	rootPort     = 0x2030
)

// slots is where cards can be plugged in: each below a root port of its own, half of them at either processor.
var slots = []struct {
	slot, root string
	node       byte
}{
	{nicSlot, "0000:3a:00.0", 0},
	{"0000:5e:00", "0000:5d:00.0", 0},
	{"0000:5e:01", "0000:5d:00.0", 0},
	{"0000:af:00", "0000:ae:00.0", 1},
}

// loaded is the driver version of NICs that an administrator has changed, by host and NIC.
type loaded struct {
	mu       sync.Mutex
	versions map[[2]string]string
}

var drivers = &loaded{versions: map[[2]string]string{}}

func (l *loaded) of(host, nic string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version := l.versions[[2]string{host, nic}]; version != "" {
		return version
	}
	return nicDriver
}

func (l *loaded) change(host, nic, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.versions[[2]string{host, nic}] = version
}

// refitting is what is done to a host with a screwdriver or an image; what is empty stays.
type refitting struct {
	Version       string `json:"version,omitempty"`        // of ESXi
	DriverVersion string `json:"driver_version,omitempty"` // of the NIC that is named
	Pci           string `json:"pci,omitempty"`            // where that NIC is plugged in then
}

func refit(host *simulator.HostSystem, device string, asked refitting) {
	if asked.Version != "" {
		host.Config.Product.Version = asked.Version
	}
	if asked.DriverVersion != "" {
		drivers.change(host.Name, device, asked.DriverVersion)
	}
	for i := range host.Config.Network.Pnic {
		if nic := &host.Config.Network.Pnic[i]; nic.Device == device && asked.Pci != "" {
			nic.Pci = asked.Pci
		}
	}
	showDrivers(host)
	showRdma(host)
}

// showDrivers writes into the fast NICs' descriptions what ESXi tells there from 8.0 on, and no older one.
func showDrivers(host *simulator.HostSystem) {
	old := strings.HasPrefix(host.Config.Product.Version, "6.") || strings.HasPrefix(host.Config.Product.Version, "7.")
	for i := range host.Config.Network.Pnic {
		nic := &host.Config.Network.Pnic[i]
		nic.DriverVersion, nic.FirmwareVersion = "", ""
		if nic.Driver == fastDriver && !old {
			nic.DriverVersion, nic.FirmwareVersion = drivers.of(host.Name, nic.Device), nicFirmware
		}
	}
}

// plugIn shows the cards in the host's lists of PCI devices and NUMA nodes. A slot stays listed when its card is moved.
func plugIn(host *simulator.HostSystem) {
	devices := slices.Clone(host.Hardware.PciDevice)
	nodes := []types.HostNumaNode{{TypeId: 0}, {TypeId: 1}}
	seen := map[string]bool{}
	for _, one := range slots {
		if !seen[one.root] {
			seen[one.root] = true
			devices = append(devices, pciDevice(one.root, "", bridgeClass, intel, rootPort, "PCI Express Root Port"))
			nodes[one.node].PciId = append(nodes[one.node].PciId, one.root)
		}
		class, vendor, device, name := int16(displayClass), int16(nvidia), int16(volta), "Tesla V100, simulated"
		functions := 1
		if one.slot[:7] != "0000:5e" {
			class, vendor, device, name = networkClass, mellanox, connectX5, "ConnectX-5, simulated"
			functions = fastNics
		}
		for function := range functions {
			address := fmt.Sprintf("%s.%d", one.slot, function)
			devices = append(devices, pciDevice(address, one.root, class, vendor, device, name))
			nodes[one.node].PciId = append(nodes[one.node].PciId, address)
		}
	}
	host.Hardware.PciDevice = devices
	host.Hardware.NumaInfo = &types.HostNumaInfo{Type: "NUMA", NumNodes: int32(len(nodes)), NumaNode: nodes}
}

func pciDevice(address, bridge string, class, vendor, device int16, name string) types.HostPciDevice {
	one := types.HostPciDevice{
		Id: address, ParentBridge: bridge, ClassId: class, VendorId: vendor, DeviceId: device, DeviceName: name,
	}
	var segment int
	if _, err := fmt.Sscanf(address, "%x:%x:%x.%d", &segment, &one.Bus, &one.Slot, &one.Function); err != nil {
		panic(err) // the addresses stand above
	}
	return one
}

// nicAnswer is what a host says of one NIC, in an object within the answer, as the library cannot write it.
func (e *esxcli) nicAnswer(ctx *simulator.Context, request reflect.Value) (string, error) {
	device := argument(request, "nicname")
	host, err := e.host(ctx)
	if err != nil {
		return "", err
	}
	for _, nic := range host.Config.Network.Pnic {
		if nic.Device != device {
			continue
		}
		var text bytes.Buffer
		fmt.Fprint(&text, `<obj xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Nic">`)
		fmt.Fprint(&text, `<AdvertisedLinkModes><string>Auto</string></AdvertisedLinkModes><DriverInfo xsi:type="DriverInfo">`)
		for _, field := range [][2]string{
			{"BusInfo", nic.Pci}, {"Driver", nic.Driver}, {"FirmwareVersion", nicFirmware}, {"Version", drivers.of(host.Name, device)},
		} {
			fmt.Fprintf(&text, "<%s>", field[0])
			if err := xml.EscapeText(&text, []byte(field[1])); err != nil {
				return "", err
			}
			fmt.Fprintf(&text, "</%s>", field[0])
		}
		fmt.Fprintf(&text, `</DriverInfo><Name>%s</Name></obj>`, nic.Device)
		return text.String(), nil
	}
	return "", fmt.Errorf("no NIC %q", device)
}

func (e *esxcli) host(ctx *simulator.Context) (*simulator.HostSystem, error) {
	reference := types.ManagedObjectReference{Type: "HostSystem", Value: e.executer.Value}
	if host, ok := ctx.Map.Get(reference).(*simulator.HostSystem); ok {
		return host, nil
	}
	return nil, fmt.Errorf("no host %s", e.executer.Value)
}

// packageRows is the list that the host's image manager tells too.
func packageRows() []esx.Values {
	var rows []esx.Values
	for _, one := range installed {
		rows = append(rows, esx.Values{"Name": {one.Name}, "Version": {one.Version}, "Vendor": {one.Vendor}})
	}
	return rows
}
