package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// hostChange is something that an administrator did to a host by other means than this API; what is empty stays.
type hostChange struct {
	Name          string `json:"name"`
	Build         string `json:"build,omitempty"`
	Nic           string `json:"nic,omitempty"` // the NIC that the next two are about
	LinkMbit      *int32 `json:"link_mbit,omitempty"`
	AnnouncedMtu  int32  `json:"announced_mtu_bytes,omitempty"`
	GraphicsType  string `json:"graphics_type,omitempty"`
	NtpRunning    *bool  `json:"ntp_running,omitempty"`
	HostProfile   *bool  `json:"host_profile,omitempty"`
	VgpuAvailable *bool  `json:"vgpu_available,omitempty"`

	refitting
	replugging
}

// aboutNic names what is asked for that is done to one NIC.
func (h *hostChange) aboutNic() []string {
	var fields []string
	for _, one := range []struct {
		name  string
		asked bool
	}{
		{"link_mbit", h.LinkMbit != nil},
		{"announced_mtu_bytes", h.AnnouncedMtu != 0},
		{"driver_version", h.DriverVersion != ""},
		{"pci", h.Pci != ""},
		{"nic_switch", h.NicSwitch != nil},
	} {
		if one.asked {
			fields = append(fields, one.name)
		}
	}
	return fields
}

// changeable finds the host of a change, and refuses one that would change nothing for want of its NIC.
func (t *troubles) changeable(asked *hostChange) (*simulator.HostSystem, error) {
	var names []string
	for _, object := range t.model.Map().All("HostSystem") {
		host := object.(*simulator.HostSystem)
		if host.Name == asked.Name {
			return host, refuseNic(host, asked)
		}
		names = append(names, host.Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("no host %s; there are %s", asked.Name, strings.Join(names, ", "))
}

func refuseNic(host *simulator.HostSystem, asked *hostChange) error {
	var has []string
	for _, nic := range host.Config.Network.Pnic {
		has = append(has, nic.Device)
	}
	fields := strings.Join(asked.aboutNic(), ", ")
	switch {
	case *asked == (hostChange{Name: asked.Name}):
		return fmt.Errorf("nothing is to be done to %s", asked.Name)
	case asked.Nic == "" && fields == "" || slices.Contains(has, asked.Nic) && fields != "":
		return nil
	case asked.Nic == "":
		return fmt.Errorf("%s: of which NIC? %s has %s", fields, host.Name, strings.Join(has, ", "))
	case slices.Contains(has, asked.Nic):
		return fmt.Errorf("nothing is to be done to %s; there are link_mbit, announced_mtu_bytes, driver_version, "+
			"pci, nic_switch", asked.Nic)
	}
	return fmt.Errorf("no NIC %s; %s has %s", asked.Nic, host.Name, strings.Join(has, ", "))
}

// change does to a host what was done to it.
func (t *troubles) change(asked *hostChange) error {
	host, err := t.changeable(asked)
	if err != nil {
		return err
	}
	t.model.Map().WithLock(&simulator.Context{Map: t.model.Map()}, host.Self, func() { apply(t.model, host, asked) })
	return nil
}

func apply(model *simulator.Model, host *simulator.HostSystem, asked *hostChange) {
	refit(host, asked.Nic, asked.refitting)
	if asked.Build != "" {
		host.Config.Product.Build = asked.Build
	}
	for i := range host.Config.Network.Pnic {
		if nic := &host.Config.Network.Pnic[i]; nic.Device == asked.Nic && asked.LinkMbit != nil {
			nic.LinkSpeed = nil
			if *asked.LinkMbit > 0 {
				nic.LinkSpeed = &types.PhysicalNicLinkInfo{SpeedMb: *asked.LinkMbit, Duplex: true}
			}
		}
	}
	if asked.NicSwitch != nil {
		toSwitch(host.Config.Network, asked.Nic, *asked.NicSwitch)
	}
	system := model.Map().Get(*host.ConfigManager.NetworkSystem).(*simulator.HostNetworkSystem)
	if asked.AnnouncedMtu > 0 {
		port := &types.PhysicalNicCdpInfo{DevId: "leaf", Mtu: asked.AnnouncedMtu}
		hints := &system.QueryNetworkHintResponse.Returnval
		*hints = append(slices.DeleteFunc(slices.Clone(*hints), func(one types.PhysicalNicHintInfo) bool {
			return one.Device == asked.Nic
		}), types.PhysicalNicHintInfo{Device: asked.Nic, ConnectedSwitchPort: port})
	}
	if asked.GraphicsType != "" {
		host.Config.GraphicsConfig = &types.HostGraphicsConfig{
			HostDefaultGraphicsType:        asked.GraphicsType,
			SharedPassthruAssignmentPolicy: "performance",
		}
	}
	if asked.VgpuAvailable != nil && !*asked.VgpuAvailable {
		host.Config.SharedPassthruGpuTypes = nil
	}
	if asked.NtpRunning != nil {
		for i := range host.Config.Service.Service {
			if service := &host.Config.Service.Service[i]; service.Key == "ntpd" {
				service.Running = *asked.NtpRunning
			}
		}
	}
	if asked.HostProfile != nil {
		state := types.ComplianceResultStatusUnknown
		if *asked.HostProfile {
			state = types.ComplianceResultStatusCompliant
		}
		host.ComplianceCheckState = &types.HostSystemComplianceCheckState{State: string(state)}
	}
}
