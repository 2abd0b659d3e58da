package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	pingCommand      = "vim.EsxCLI.network.diag.ping"
	pingHeadersBytes = 28
)

// ping answers a host's ping from one vmkernel adapter to another by what this vCenter knows of the way between them.
func (e *esxcli) ping(ctx *simulator.Context, request reflect.Value) (string, error) {
	host, err := e.host(ctx)
	if err != nil {
		return "", err
	}
	from := adapter(host, func(nic types.HostVirtualNic) bool { return nic.Device == argument(request, "interface") })
	if from == nil {
		return "", fmt.Errorf("Unknown interface %q", argument(request, "interface"))
	}
	size, err := strconv.Atoi(argument(request, "size"))
	if err != nil {
		return "", fmt.Errorf("Invalid size %q", argument(request, "size"))
	}
	count, err := strconv.Atoi(argument(request, "count"))
	if err != nil {
		return "", fmt.Errorf("Invalid count %q", argument(request, "count"))
	}
	bytes := int32(0) // what is fragmented fits everywhere
	if argument(request, "df") == "true" {
		bytes = int32(size + pingHeadersBytes)
	}
	if bytes > from.Spec.Mtu {
		return "", fmt.Errorf("sendto() failed (Message too long)")
	}
	address, received := argument(request, "host"), 0
	for _, object := range ctx.Map.All("HostSystem") {
		other := object.(*simulator.HostSystem)
		to := adapter(other, func(nic types.HostVirtualNic) bool {
			return nic.Spec.Ip != nil && nic.Spec.Ip.IpAddress == address
		})
		if to != nil && bytes <= to.Spec.Mtu && carries(ctx, host, from, bytes) && carries(ctx, other, to, bytes) &&
			segment(ctx, from) == segment(ctx, to) {
			received = count
		}
	}
	lost := 100 * (count - received) / max(count, 1)
	return fmt.Sprintf(`<obj xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Ping">`+
		`<Summary xsi:type="Summary"><Duplicated>0</Duplicated><PacketLost>%d</PacketLost><Recieved>%d</Recieved>`+
		`<Transmitted>%d</Transmitted></Summary></obj>`, lost, received, count), nil
}

func adapter(host *simulator.HostSystem, fits func(types.HostVirtualNic) bool) *types.HostVirtualNic {
	nics := host.Config.Network.Vnic
	if index := slices.IndexFunc(nics, fits); index >= 0 {
		return &nics[index]
	}
	return nil
}

// carries tells whether the switch below an adapter lets frames of that size through to an uplink with a link.
func carries(ctx *simulator.Context, host *simulator.HostSystem, nic *types.HostVirtualNic, bytes int32) bool {
	port := nic.Spec.DistributedVirtualPort
	if port == nil {
		return true // an adapter on a host's own switch, whose way nobody here knows
	}
	for _, object := range ctx.Map.All("DistributedVirtualSwitch") {
		dvs := object.(*simulator.DistributedVirtualSwitch)
		config, ok := dvs.Config.(*types.VMwareDVSConfigInfo)
		if !ok || dvs.Uuid != port.SwitchUuid {
			continue
		}
		return bytes <= config.MaxMtu && slices.ContainsFunc(config.Host, func(one types.DistributedVirtualSwitchHostMember) bool {
			return one.Config.Host != nil && *one.Config.Host == host.Self && linked(host, one.Config.Backing)
		})
	}
	return false
}

// linked tells whether one of a member's uplinks has a link.
func linked(host *simulator.HostSystem, backing types.BaseDistributedVirtualSwitchHostMemberBacking) bool {
	uplinks, ok := backing.(*types.DistributedVirtualSwitchHostMemberPnicBacking)
	return ok && slices.ContainsFunc(uplinks.PnicSpec, func(spec types.DistributedVirtualSwitchHostMemberPnicSpec) bool {
		return slices.ContainsFunc(host.Config.Network.Pnic, func(nic types.PhysicalNic) bool {
			return nic.Device == spec.PnicDevice && nic.LinkSpeed != nil
		})
	})
}

// segment is what two adapters have to share: the VLAN, since uplinks of all switches lead to the same physical one.
func segment(ctx *simulator.Context, nic *types.HostVirtualNic) string {
	port := nic.Spec.DistributedVirtualPort
	if port == nil {
		return "port group " + nic.Portgroup
	}
	for _, object := range ctx.Map.All("DistributedVirtualPortgroup") {
		group := object.(*simulator.DistributedVirtualPortgroup)
		if group.Key != port.PortgroupKey {
			continue
		}
		if setting, ok := group.Config.DefaultPortConfig.(*types.VMwareDVSPortSetting); ok {
			if vlan, ok := setting.Vlan.(*types.VmwareDistributedVirtualSwitchVlanIdSpec); ok {
				return fmt.Sprintf("VLAN %d", vlan.VlanId)
			}
		}
	}
	return "VLAN 0"
}
