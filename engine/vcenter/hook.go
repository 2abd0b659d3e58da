package main

import (
	"fmt"
	"strconv"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// alias makes one object answer to a second type name.
type alias struct {
	mo.HistoryCollector
	inner mo.Reference
}

func (a *alias) Get() mo.Reference { return a.inner }

func (a *alias) Entity() *mo.ManagedEntity { return a.inner.(mo.Entity).Entity() }

func newAlias(ref types.ManagedObjectReference, o mo.Reference) *alias {
	a := &alias{inner: o}
	a.Self = ref
	return a
}

// companion receives calls that the wrapped object cannot serve.
type companion struct {
	mo.HistoryCollector
}

type hook struct{ Self types.ManagedObjectReference }

func (h *hook) Reference() types.ManagedObjectReference { return h.Self }
func (h *hook) PutObject(ctx *simulator.Context, o mo.Reference) {
	aliasFor(ctx.Map, o)
	if vm, ok := o.(*simulator.VirtualMachine); ok && vm.Config != nil && vm.Config.SwapPlacement == "" {
		vm.Config.SwapPlacement = "inherit"
	}
	seedEB(o)
}
func (h *hook) UpdateObject(*simulator.Context, mo.Reference, []types.PropertyChange) {}
func (h *hook) RemoveObject(*simulator.Context, types.ManagedObjectReference)         {}

var aliasType = map[string]string{
	"ClusterComputeResource":   "ComputeResource",
	"DistributedVirtualSwitch": "VmwareDistributedVirtualSwitch",
}

func aliasFor(r *simulator.Registry, o mo.Reference) {
	ref := o.Reference()
	if _, is := o.(*alias); is {
		return
	}
	if t, ok := aliasType[ref.Type]; ok {
		ref.Type = t
		if r.Get(ref) == nil {
			r.Put(newAlias(ref, o))
		}
	}
}

type folderX struct {
	companion
	in *simulator.Folder
}

func (f *folderX) CreateDVSTask(ctx *simulator.Context, req *types.CreateDVS_Task) soap.HasFault {
	res := f.in.CreateDVSTask(ctx, req)
	body := res.(*methods.CreateDVS_TaskBody)
	if body.Res == nil {
		return res
	}
	t := ctx.Map.Get(body.Res.Returnval).(*simulator.Task)
	t.Wait()
	ref, ok := t.Info.Result.(types.ManagedObjectReference)
	if !ok {
		return res
	}
	dvs := ctx.Map.Get(ref).(*simulator.DistributedVirtualSwitch)
	aliasFor(ctx.Map, dvs)
	ci := dvs.Config.(*types.VMwareDVSConfigInfo)
	if req.Spec.ProductInfo != nil {
		ci.ProductInfo = *req.Spec.ProductInfo
	}
	if ci.ProductInfo.Version == "" {
		ci.ProductInfo.Version = "8.0.0"
	}
	ci.ConfigVersion = "1"
	if ci.UplinkPortPolicy == nil {
		ci.UplinkPortPolicy = &types.DVSNameArrayUplinkPortPolicy{UplinkPortName: []string{"dvUplink1", "dvUplink2", "dvUplink3", "dvUplink4"}}
	}
	if ci.MaxMtu == 0 {
		ci.MaxMtu = 1500
	}
	if ci.LinkDiscoveryProtocolConfig == nil {
		ci.LinkDiscoveryProtocolConfig = &types.LinkDiscoveryProtocolConfig{Protocol: "cdp", Operation: "listen"}
	}
	if ci.IpfixConfig == nil {
		ci.IpfixConfig = &types.VMwareIpfixConfig{ActiveFlowTimeout: 60, IdleFlowTimeout: 15}
	}
	if ci.DefaultPortConfig == nil {
		ci.DefaultPortConfig = new(types.VMwareDVSPortSetting)
	}
	if ci.LacpApiVersion == "" {
		ci.LacpApiVersion = "multipleLag"
	}
	if ci.MulticastFilteringMode == "" {
		ci.MulticastFilteringMode = "legacyFiltering"
	}
	if ci.NetworkResourceControlVersion == "" {
		ci.NetworkResourceControlVersion = "version3"
	}
	if hs := req.Spec.ConfigSpec.GetDVSConfigSpec().Host; len(hs) > 0 {
		for i := range hs {
			hs[i].Operation = "add"
		}
		spec := &types.VMwareDVSConfigSpec{}
		spec.Host = hs
		(&dvsX{in: dvs}).ReconfigureDvsTask(ctx, &types.ReconfigureDvs_Task{This: ref, Spec: spec})
	}
	return res
}

type dvsX struct {
	companion
	in *simulator.DistributedVirtualSwitch
}

func (s *dvsX) ReconfigureDvsTask(ctx *simulator.Context, req *types.ReconfigureDvs_Task) soap.HasFault {
	ci := s.in.Config.(*types.VMwareDVSConfigInfo)
	base := req.Spec.GetDVSConfigSpec()
	if base.ConfigVersion != "" && base.ConfigVersion != ci.ConfigVersion {
		return &methods.ReconfigureDvs_TaskBody{Fault_: simulator.Fault("", &types.ConcurrentAccess{})}
	}
	if base.Name != "" {
		ci.Name, s.in.Name, s.in.Summary.Name = base.Name, base.Name, base.Name
	}
	if base.UplinkPortPolicy != nil {
		ci.UplinkPortPolicy = base.UplinkPortPolicy
	}
	if base.DefaultPortConfig != nil {
		ci.DefaultPortConfig = base.DefaultPortConfig
	}
	if base.Contact != nil {
		ci.Contact = *base.Contact
	}
	if base.Description != "" {
		ci.Description = base.Description
	}
	if vs, ok := req.Spec.(*types.VMwareDVSConfigSpec); ok {
		if vs.MaxMtu != 0 {
			ci.MaxMtu = vs.MaxMtu
		}
		if vs.LinkDiscoveryProtocolConfig != nil {
			ci.LinkDiscoveryProtocolConfig = vs.LinkDiscoveryProtocolConfig
		}
		if vs.IpfixConfig != nil {
			ci.IpfixConfig = vs.IpfixConfig
		}
	}
	var pass []types.DistributedVirtualSwitchHostMemberConfigSpec
	for _, h := range base.Host {
		idx := -1
		for i := range ci.Host {
			if *ci.Host[i].Config.Host == h.Host {
				idx = i
			}
		}
		switch h.Operation {
		case "add", "edit":
			ref := h.Host
			hm := types.DistributedVirtualSwitchHostMember{
				Config: types.DistributedVirtualSwitchHostMemberConfigInfo{Host: &ref, MaxProxySwitchPorts: 512, Backing: h.Backing},
			}
			if idx < 0 {
				ci.Host = append(ci.Host, hm)
			} else {
				ci.Host[idx] = hm
			}
			if h.Operation == "add" {
				pass = append(pass, h)
			}
		case "remove":
			if idx >= 0 {
				ci.Host = append(ci.Host[:idx], ci.Host[idx+1:]...)
			}
			pass = append(pass, h)
		}
	}
	n, _ := strconv.Atoi(ci.ConfigVersion)
	ci.ConfigVersion = strconv.Itoa(n + 1)
	spec := &types.VMwareDVSConfigSpec{}
	spec.Host = pass
	return s.in.ReconfigureDvsTask(ctx, &types.ReconfigureDvs_Task{This: s.in.Self, Spec: spec})
}

func (s *dvsX) CreateDVPortgroupTask(ctx *simulator.Context, req *types.CreateDVPortgroup_Task) soap.HasFault {
	res := s.in.AddDVPortgroupTask(ctx, &types.AddDVPortgroup_Task{This: s.in.Self, Spec: []types.DVPortgroupConfigSpec{req.Spec}})
	body := res.(*methods.AddDVPortgroup_TaskBody)
	if body.Res == nil {
		return &methods.CreateDVPortgroup_TaskBody{Fault_: body.Fault_}
	}
	t := ctx.Map.Get(body.Res.Returnval).(*simulator.Task)
	t.Wait()
	if t.Info.State == types.TaskInfoStateSuccess {
		t.Info.Result = s.in.Portgroup[len(s.in.Portgroup)-1]
	}
	return &methods.CreateDVPortgroup_TaskBody{Res: &types.CreateDVPortgroup_TaskResponse{Returnval: body.Res.Returnval}}
}

func (s *dvsX) EnableNetworkResourceManagement(ctx *simulator.Context, req *types.EnableNetworkResourceManagement) soap.HasFault {
	_ = 0
	s.in.Config.GetDVSConfigInfo().NetworkResourceManagementEnabled = req.Enable
	return &methods.EnableNetworkResourceManagementBody{Res: new(types.EnableNetworkResourceManagementResponse)}
}

type dvsMgrX struct {
	companion
	in *simulator.DistributedVirtualSwitchManager
}

func (m *dvsMgrX) QueryDvsByUuid(ctx *simulator.Context, req *types.QueryDvsByUuid) soap.HasFault {
	body := new(methods.QueryDvsByUuidBody)
	for _, o := range ctx.Map.All("DistributedVirtualSwitch") {
		d := o.(*simulator.DistributedVirtualSwitch)
		if d.Uuid == req.Uuid {
			r := d.Self
			body.Res = &types.QueryDvsByUuidResponse{Returnval: &r}
			return body
		}
	}
	body.Fault_ = simulator.Fault("", new(types.NotFound))
	return body
}

type hnsX struct {
	companion
	in *simulator.HostNetworkSystem
}

func (s *hnsX) net() *types.HostNetworkInfo { return s.in.Host.Config.Network }

func (s *hnsX) AddVirtualNic(ctx *simulator.Context, req *types.AddVirtualNic) soap.HasFault {
	n := s.net()
	dev := fmt.Sprintf("vmk%d", len(n.Vnic))
	if req.Nic.Mac == "" {
		req.Nic.Mac = fmt.Sprintf("00:50:56:6a:00:%02x", len(n.Vnic))
	}
	if req.Nic.Mtu == 0 {
		req.Nic.Mtu = 1500
	}
	if req.Nic.Ip != nil && req.Nic.Ip.IpV6Config == nil {
	}
	n.Vnic = append(n.Vnic, types.HostVirtualNic{Device: dev, Key: "key-vim.host.VirtualNic-" + dev, Portgroup: req.Portgroup, Spec: req.Nic})
	return &methods.AddVirtualNicBody{Res: &types.AddVirtualNicResponse{Returnval: dev}}
}

func (s *hnsX) UpdateVirtualNic(ctx *simulator.Context, req *types.UpdateVirtualNic) soap.HasFault {
	n := s.net()
	for i := range n.Vnic {
		if n.Vnic[i].Device == req.Device {
			n.Vnic[i].Spec = req.Nic
			return &methods.UpdateVirtualNicBody{Res: new(types.UpdateVirtualNicResponse)}
		}
	}
	return &methods.UpdateVirtualNicBody{Fault_: simulator.Fault("", new(types.NotFound))}
}

func (s *hnsX) RemoveVirtualNic(ctx *simulator.Context, req *types.RemoveVirtualNic) soap.HasFault {
	n := s.net()
	for i := range n.Vnic {
		if n.Vnic[i].Device == req.Device {
			n.Vnic = append(n.Vnic[:i], n.Vnic[i+1:]...)
			return &methods.RemoveVirtualNicBody{Res: new(types.RemoveVirtualNicResponse)}
		}
	}
	return &methods.RemoveVirtualNicBody{Fault_: simulator.Fault("", new(types.NotFound))}
}

func seedEB(o mo.Reference) {
	eb, ok := o.(*simulator.EnvironmentBrowser)
	if !ok {
		return
	}
	eb.QueryConfigOptionResponse.Returnval = &types.VirtualMachineConfigOption{
		Version:         "vmx-17",
		DefaultDevice:   esx.VirtualDevice,
		HardwareOptions: types.VirtualHardwareOption{HwVersion: 17},
	}
}

type nicMgrX struct {
	companion
	in *simulator.HostVirtualNicManager
}

func (m *nicMgrX) SelectVnicForNicType(ctx *simulator.Context, req *types.SelectVnicForNicType) soap.HasFault {
	for i := range m.in.Info.NetConfig {
		c := &m.in.Info.NetConfig[i]
		if c.NicType == req.NicType {
			c.SelectedVnic = append(c.SelectedVnic, req.NicType+".key-vim.host.VirtualNic-"+req.Device)
			return &methods.SelectVnicForNicTypeBody{Res: new(types.SelectVnicForNicTypeResponse)}
		}
	}
	return &methods.SelectVnicForNicTypeBody{Fault_: simulator.Fault("", &types.InvalidArgument{InvalidProperty: "nicType"})}
}

func installShim(m *simulator.Model) {
	r := m.Map()
	for _, o := range r.AllReference("EnvironmentBrowser") {
		seedEB(o)
	}
	for _, k := range []string{"ClusterComputeResource", "DistributedVirtualSwitch"} {
		for _, o := range r.All(k) {
			aliasFor(r, o)
		}
	}
	r.AddHandler(&hook{Self: types.ManagedObjectReference{Type: "Hook", Value: "shim"}})
	r.Handler = func(ctx *simulator.Context, meth *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		o := ctx.Map.Get(meth.This)
		if a, ok := o.(*alias); ok {
			o = a.inner
			meth.This = o.Reference()
		}
		to := meth.This
		to.Type = "X" + to.Type
		var c mo.Reference
		switch x := o.(type) {
		case *simulator.Folder:
			if meth.Name == "CreateDVS_Task" {
				v := &folderX{in: x}
				v.Self = to
				c = v
			}
		case *simulator.DistributedVirtualSwitch:
			switch meth.Name {
			case "CreateDVPortgroup_Task", "ReconfigureDvs_Task", "EnableNetworkResourceManagement":
				v := &dvsX{in: x}
				v.Self = to
				c = v
			}
		case *simulator.DistributedVirtualSwitchManager:
			if meth.Name == "QueryDvsByUuid" {
				v := &dvsMgrX{in: x}
				v.Self = to
				c = v
			}
		case *simulator.HostVirtualNicManager:
			if meth.Name == "SelectVnicForNicType" {
				v := &nicMgrX{in: x}
				v.Self = to
				c = v
			}
		case *simulator.HostNetworkSystem:
			switch meth.Name {
			case "AddVirtualNic", "UpdateVirtualNic", "RemoveVirtualNic":
				v := &hnsX{in: x}
				v.Self = to
				c = v
			}
		}
		if c != nil {
			meth.This = to
			ctx.Session.Put(c)
		}
		return nil, nil
	}
}
