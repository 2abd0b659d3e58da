package main

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const vnicKey = "key-vim.host.VirtualNic-"

// vmkernel keeps a host's vmkernel adapters.
type vmkernel struct {
	substitute
	network *simulator.HostNetworkSystem
}

func (v *vmkernel) config() *types.HostNetworkInfo { return v.network.Host.Config.Network }

func (v *vmkernel) index(device string) int {
	return slices.IndexFunc(v.config().Vnic, func(nic types.HostVirtualNic) bool { return nic.Device == device })
}

// taken tells whether an adapter of the host has the address. A host answers for an address by one adapter alone.
func (v *vmkernel) taken(ip *types.HostIpConfig) bool {
	return ip != nil && ip.IpAddress != "" && slices.ContainsFunc(v.config().Vnic, func(nic types.HostVirtualNic) bool {
		return nic.Spec.Ip != nil && nic.Spec.Ip.IpAddress == ip.IpAddress
	})
}

// AddVirtualNic adds an adapter under the first free name, on a distributed switch only where the host is its member.
func (v *vmkernel) AddVirtualNic(_ *simulator.Context, req *types.AddVirtualNic) soap.HasFault {
	if port := req.Nic.DistributedVirtualPort; port != nil && !member(v.network.Host, port.SwitchUuid) {
		fault := simulator.Fault("The host is no member of the distributed switch.", new(types.HostConfigFault))
		return &methods.AddVirtualNicBody{Fault_: fault}
	}
	if v.taken(req.Nic.Ip) {
		fault := simulator.Fault("The address is in use on another adapter of the host.", new(types.HostConfigFault))
		return &methods.AddVirtualNicBody{Fault_: fault}
	}
	number := 0
	for v.index(fmt.Sprintf("vmk%d", number)) >= 0 {
		number++
	}
	device := fmt.Sprintf("vmk%d", number)
	setIfEmpty(&req.Nic.Mac, fmt.Sprintf("00:50:56:6a:00:%02x", number))
	setIfEmpty(&req.Nic.Mtu, defaultMtuBytes)
	v.config().Vnic = append(v.config().Vnic, types.HostVirtualNic{
		Device:    device,
		Key:       vnicKey + device,
		Portgroup: req.Portgroup,
		Spec:      req.Nic,
	})
	return &methods.AddVirtualNicBody{Res: &types.AddVirtualNicResponse{Returnval: device}}
}

// UpdateVirtualNic changes what the specification names, and leaves what it leaves out.
func (v *vmkernel) UpdateVirtualNic(_ *simulator.Context, req *types.UpdateVirtualNic) soap.HasFault {
	index := v.index(req.Device)
	if index < 0 {
		return &methods.UpdateVirtualNicBody{Fault_: simulator.Fault("", new(types.NotFound))}
	}
	before, now := v.config().Vnic[index].Spec, req.Nic
	if now.Ip == nil {
		now.Ip = before.Ip
	}
	if now.DistributedVirtualPort == nil {
		now.DistributedVirtualPort = before.DistributedVirtualPort
	}
	setIfEmpty(&now.Mac, before.Mac)
	setIfEmpty(&now.Mtu, before.Mtu)
	setIfEmpty(&now.Portgroup, before.Portgroup)
	setIfEmpty(&now.NetStackInstanceKey, before.NetStackInstanceKey)
	v.config().Vnic[index].Spec = now
	return &methods.UpdateVirtualNicBody{Res: new(types.UpdateVirtualNicResponse)}
}

// RemoveVirtualNic takes an adapter away.
func (v *vmkernel) RemoveVirtualNic(_ *simulator.Context, req *types.RemoveVirtualNic) soap.HasFault {
	index := v.index(req.Device)
	if index < 0 {
		return &methods.RemoveVirtualNicBody{Fault_: simulator.Fault("", new(types.NotFound))}
	}
	v.config().Vnic = slices.Delete(v.config().Vnic, index, index+1)
	return &methods.RemoveVirtualNicBody{Res: new(types.RemoveVirtualNicResponse)}
}

// nicSelection keeps which adapter serves which kind of traffic.
type nicSelection struct {
	substitute
	manager *simulator.HostVirtualNicManager
}

// SelectVnicForNicType selects an adapter for a kind of traffic.
func (n *nicSelection) SelectVnicForNicType(
	_ *simulator.Context, req *types.SelectVnicForNicType,
) soap.HasFault {
	for i := range n.manager.Info.NetConfig {
		if config := &n.manager.Info.NetConfig[i]; config.NicType == req.NicType {
			config.SelectedVnic = append(config.SelectedVnic, req.NicType+"."+vnicKey+req.Device)
			return &methods.SelectVnicForNicTypeBody{Res: new(types.SelectVnicForNicTypeResponse)}
		}
	}
	fault := simulator.Fault("", &types.InvalidArgument{InvalidProperty: "nicType"})
	return &methods.SelectVnicForNicTypeBody{Fault_: fault}
}
