package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	pvrdmaOption = "Net.PVRDMAVmknic"
	fastNics     = 2
	fastMbit     = 100_000
	fastDriver   = "nmlx5_core"
	// A lab that asks for a newer field than the API's version gets it dropped without a word.
	apiVersion = "8.0.2.0"
	// The guest of every template; the simulator's own is a system that nobody knows.
	guestID = "debian12_64Guest"
)

// vgpuProfiles is what each host's GPU manager offers: the compute profiles of a 32 GB V100, smallest first.
var vgpuProfiles = []string{"grid_v100d-4c", "grid_v100d-8c", "grid_v100d-16c", "grid_v100d-32c"}

// equip gives each ESXi host what an RDMA lab has and the simulator's template lacks.
func equip(registry *simulator.Registry) {
	hosts := registry.AllReference("HostSystem")
	slices.SortFunc(hosts, func(a, b mo.Reference) int {
		return strings.Compare(a.(*simulator.HostSystem).Name, b.(*simulator.HostSystem).Name)
	})
	for number, object := range hosts {
		host := object.(*simulator.HostSystem)
		addFastNics(host, number)
		ownFirewall(registry, host)
		addPvrdmaOption(registry, host)
		describe(registry, host)
		addGpus(host)
		plugIn(host)
		showDrivers(host)
		showRdma(host)
	}
	for _, object := range registry.All("VirtualMachine") {
		object.(*simulator.VirtualMachine).Config.GuestId = guestID
	}
}

// addGpus shows the vGPU profiles in both places where a host tells of them.
func addGpus(host *simulator.HostSystem) {
	host.Config.SharedPassthruGpuTypes = vgpuProfiles
	for _, profile := range vgpuProfiles {
		one := types.HostSharedGpuCapabilities{Vgpu: profile}
		host.Config.SharedGpuCapabilities = append(host.Config.SharedGpuCapabilities, one)
	}
}

// addFastNics adds the two ports of a 100 Gbit/s card, and makes all addresses the host's own.
func addFastNics(host *simulator.HostSystem, number int) {
	network := host.Config.Network
	network.Pnic = slices.Clone(network.Pnic)
	for i := range network.Pnic {
		network.Pnic[i].Mac = fmt.Sprintf("00:50:56:10:%02x:%02x", number, i)
	}
	for port := range fastNics {
		device := fmt.Sprintf("vmnic%d", 4+port)
		nic := types.PhysicalNic{
			Key:       "key-vim.host.PhysicalNic-" + device,
			Device:    device,
			Pci:       fmt.Sprintf("%s.%d", nicSlot, port),
			Driver:    fastDriver,
			Mac:       fmt.Sprintf("ec:0d:9a:00:%02x:%02x", number, port),
			LinkSpeed: &types.PhysicalNicLinkInfo{SpeedMb: fastMbit, Duplex: true},
		}
		network.Pnic = append(network.Pnic, nic)
	}
}

// ownFirewall ends the sharing of one list of rulesets by all hosts, and shows changes in the host's configuration too.
func ownFirewall(registry *simulator.Registry, host *simulator.HostSystem) {
	system := registry.Get(*host.ConfigManager.FirewallSystem).(*simulator.HostFirewallSystem)
	info := *system.FirewallInfo
	info.Ruleset = slices.Clone(info.Ruleset)
	system.FirewallInfo = &info
	host.Config.Firewall = &info
}

// addPvrdmaOption adds the setting that names the vmkernel adapter of PVRDMA, empty as on a host that was never asked.
func addPvrdmaOption(registry *simulator.Registry, host *simulator.HostSystem) {
	manager := registry.Get(*host.ConfigManager.AdvancedOption).(*simulator.OptionManager)
	manager.UpdateOptions(&types.UpdateOptions{
		ChangedValue: []types.BaseOptionValue{&types.OptionValue{Key: pvrdmaOption, Value: ""}},
	})
}
