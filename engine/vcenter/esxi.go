package main

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	announcedMtuBytes = 9216
	slowMbit          = 10_000
	timeServer        = "ntp.lab"
	gpus              = 2
)

// describe fills in what an administrator has set on a host, and what its neighbours and packages are.
func describe(registry *simulator.Registry, host *simulator.HostSystem) {
	setClock(host)
	host.Config.GraphicsConfig = &types.HostGraphicsConfig{
		HostDefaultGraphicsType:        "sharedDirect",
		SharedPassthruAssignmentPolicy: "performance",
	}
	for gpu := range gpus {
		host.Config.GraphicsInfo = append(host.Config.GraphicsInfo, types.HostGraphicsInfo{
			DeviceName:     "NVIDIA Tesla V100, simulated",
			VendorName:     "NVIDIA Corporation",
			PciId:          fmt.Sprintf("0000:5e:0%d.0", gpu),
			GraphicsType:   "sharedDirect",
			MemorySizeInKB: 32 << 20,
		})
	}
	system := registry.Get(*host.ConfigManager.NetworkSystem).(*simulator.HostNetworkSystem)
	system.QueryNetworkHintResponse = types.QueryNetworkHintResponse{Returnval: hints(host)}
}

// setClock gives the host a time server and lets its daemon run.
func setClock(host *simulator.HostSystem) {
	host.Config.DateTimeInfo = &types.HostDateTimeInfo{
		TimeZone:            types.HostDateTimeSystemTimeZone{Key: "UTC", Name: "UTC", Description: "UTC"},
		SystemClockProtocol: "ntp",
		NtpConfig:           &types.HostNtpConfig{Server: []string{timeServer}},
	}
	services := *host.Config.Service
	services.Service = slices.Clone(services.Service)
	for i := range services.Service {
		if services.Service[i].Key == "ntpd" {
			services.Service[i].Running, services.Service[i].Policy = true, "on"
		}
	}
	host.Config.Service = &services
}

// hints is what the physical switch announces at each fast port.
func hints(host *simulator.HostSystem) []types.PhysicalNicHintInfo {
	var found []types.PhysicalNicHintInfo
	for _, nic := range host.Config.Network.Pnic {
		if nic.LinkSpeed != nil && nic.LinkSpeed.SpeedMb > slowMbit {
			found = append(found, types.PhysicalNicHintInfo{
				Device:              nic.Device,
				ConnectedSwitchPort: &types.PhysicalNicCdpInfo{DevId: "leaf", Mtu: announcedMtuBytes},
			})
		}
	}
	return found
}

// installed is the packages that matter to RDMA and vGPUs.
var installed = []types.SoftwarePackage{
	{Name: "nmlx5-core", Version: "4.23.0.36-8vmw.802", Vendor: "VMW", Type: "bootbank"},
	{Name: "NVIDIA-VMware_ESXi_8.0_Host_Driver", Version: "535.154.02", Vendor: "NVIDIA", Type: "bootbank"},
}
