package main

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// A host shows its side of each distributed switch that it is a member of; the simulator leaves that list empty.

const proxySwitches = "config.network.proxySwitch"

// showProxies brings what the hosts show of one switch up to date. Whoever changes the switch calls it: another switch,
// which somebody else may be changing, is not looked at.
func showProxies(ctx *simulator.Context, dvs *mo.DistributedVirtualSwitch, goes bool) {
	if dvs.Config == nil {
		return
	}
	for _, object := range ctx.Map.All("HostSystem") {
		host := object.(*simulator.HostSystem)
		ctx.WithLock(host, func() {
			list := slices.Clone(host.Config.Network.ProxySwitch)
			index := slices.IndexFunc(list, func(one types.HostProxySwitch) bool { return one.DvsUuid == dvs.Uuid })
			isMember := !goes && slices.Contains(dvs.Summary.HostMember, host.Self)
			switch {
			case isMember && index >= 0:
				list[index] = proxyOf(dvs, host.Self)
			case isMember:
				list = append(list, proxyOf(dvs, host.Self))
			case index >= 0:
				list = slices.Delete(list, index, index+1)
			default:
				return
			}
			ctx.Update(host, []types.PropertyChange{{Name: proxySwitches, Val: list}})
		})
	}
}

// proxyOf is what a member has of a switch: frames as long as the switch's, over the NICs that it brought along.
func proxyOf(dvs *mo.DistributedVirtualSwitch, host types.ManagedObjectReference) types.HostProxySwitch {
	proxy := types.HostProxySwitch{
		Key:               "DvsPortset-" + dvs.Self.Value,
		DvsUuid:           dvs.Uuid,
		DvsName:           dvs.Name,
		ConfigNumPorts:    maxProxyPorts,
		NumPorts:          maxProxyPorts,
		NumPortsAvailable: maxProxyPorts,
	}
	if own, ok := dvs.Config.(*types.VMwareDVSConfigInfo); ok {
		proxy.Mtu = own.MaxMtu
	}
	setIfEmpty(&proxy.Mtu, defaultMtuBytes)
	for _, member := range dvs.Config.GetDVSConfigInfo().Host {
		if *member.Config.Host != host {
			continue
		}
		proxy.Spec.Backing = member.Config.Backing
		for _, nic := range nicsOf(member.Config.Backing) {
			proxy.Pnic = append(proxy.Pnic, nicKey+nic)
		}
	}
	return proxy
}

// member tells whether a host belongs to a distributed switch.
func member(host *mo.HostSystem, uuid string) bool {
	return slices.ContainsFunc(host.Config.Network.ProxySwitch, func(one types.HostProxySwitch) bool {
		return one.DvsUuid == uuid
	})
}
