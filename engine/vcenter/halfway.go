package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// What stops a run half-way: somebody else who is quicker, a copy that is made and not told of, a guest that is not
// customised, a NIC that is taken, a host that has left its switch.

const nicKey = "key-vim.host.PhysicalNic-"

// deed is what somebody else does at the moment of a call.
type deed struct {
	Host   *hostChange `json:"host,omitempty"`   // done to a host
	Delete string      `json:"delete,omitempty"` // name of a VM or template that goes
	Leave  *membership `json:"leave,omitempty"`  // a host that leaves a distributed switch
}

// membership is of a host in a distributed switch.
type membership struct {
	Host   string `json:"host"`
	Switch string `json:"switch"`
}

// do does it, before the call that it is quicker than.
func (d *deed) do(t *troubles, caller *simulator.Context) error {
	if d.Host != nil {
		return t.change(d.Host)
	}
	ctx := &simulator.Context{Context: context.Background(), Session: caller.Session, Map: caller.Map}
	if d.Delete != "" {
		for _, object := range ctx.Map.All("VirtualMachine") {
			if vm := object.(*simulator.VirtualMachine); vm.Name == d.Delete {
				answer := vm.DestroyTask(ctx, &types.Destroy_Task{This: vm.Self}).(*methods.Destroy_TaskBody)
				return ended(ctx, answer.Res.Returnval)
			}
		}
		return fmt.Errorf("no VM %s", d.Delete)
	}
	for _, object := range ctx.Map.All("DistributedVirtualSwitch") {
		dvs, ok := object.(*simulator.DistributedVirtualSwitch)
		if !ok || d.Leave == nil || dvs.Name != d.Leave.Switch {
			continue
		}
		change := &types.VMwareDVSConfigSpec{}
		for _, host := range ctx.Map.All("HostSystem") {
			if host := host.(*simulator.HostSystem); host.Name == d.Leave.Host {
				one := types.DistributedVirtualSwitchHostMemberConfigSpec{Operation: "remove", Host: host.Self}
				change.Host = append(change.Host, one)
			}
		}
		ours := &distributedSwitch{dvs: dvs}
		answer := ours.ReconfigureDvsTask(ctx, &types.ReconfigureDvs_Task{This: dvs.Self, Spec: change})
		return ended(ctx, answer.(*methods.ReconfigureDvs_TaskBody).Res.Returnval)
	}
	return errors.New("no such switch")
}

func ended(ctx *simulator.Context, task types.ManagedObjectReference) error {
	if fault := end(ctx, task); fault != nil {
		return errors.New(fault.LocalizedMessage)
	}
	return nil
}

// replugging is what may be done to the NIC that a host change names.
type replugging struct {
	NicSwitch *string `json:"nic_switch,omitempty"` // the standard switch whose uplink it becomes; empty: none's
}

// toSwitch makes a NIC the uplink of a standard switch, or of none.
func toSwitch(network *types.HostNetworkInfo, nic, name string) {
	key := nicKey + nic
	network.Vswitch = slices.Clone(network.Vswitch)
	found := false
	for i := range network.Vswitch {
		one := &network.Vswitch[i]
		one.Pnic = slices.DeleteFunc(slices.Clone(one.Pnic), func(has string) bool { return has == key })
		if one.Name == name {
			one.Pnic = append(one.Pnic, key)
			found = true
		}
	}
	if name != "" && !found {
		made := types.HostVirtualSwitch{Name: name, Key: "key-vim.host.VirtualSwitch-" + name, Pnic: []string{key}}
		network.Vswitch = append(network.Vswitch, made)
	}
}

// takenNic finds a NIC among those that hosts are to bring along which is the uplink of another switch already.
func takenNic(
	ctx *simulator.Context, dvs *simulator.DistributedVirtualSwitch,
	changes []types.DistributedVirtualSwitchHostMemberConfigSpec,
) string {
	for _, change := range changes {
		host, known := ctx.Map.Get(change.Host).(*simulator.HostSystem)
		if !known || change.Operation == string(types.ConfigSpecOperationRemove) {
			continue
		}
		for _, nic := range nicsOf(change.Backing) {
			if uplinkOfAnother(host.Config.Network, dvs, nicKey+nic) {
				return nic
			}
		}
	}
	return ""
}

func uplinkOfAnother(network *types.HostNetworkInfo, dvs *simulator.DistributedVirtualSwitch, key string) bool {
	return slices.ContainsFunc(network.Vswitch, func(one types.HostVirtualSwitch) bool {
		return slices.Contains(one.Pnic, key)
	}) || slices.ContainsFunc(network.ProxySwitch, func(one types.HostProxySwitch) bool {
		return slices.Contains(one.Pnic, key) && (dvs == nil || one.DvsUuid != dvs.Uuid)
	})
}

func nicsOf(backing types.BaseDistributedVirtualSwitchHostMemberBacking) (names []string) {
	if own, ok := backing.(*types.DistributedVirtualSwitchHostMemberPnicBacking); ok {
		for _, one := range own.PnicSpec {
			names = append(names, one.PnicDevice)
		}
	}
	return names
}

// failing is a task that ends with a fault, in the words that a vCenter has for it.
func failing(
	ctx *simulator.Context, on mo.Reference, name string, fault types.BaseMethodFault, words string,
) types.ManagedObjectReference {
	task := simulator.CreateTask(on, name, func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		return nil, fault
	})
	reference := task.Run(ctx)
	task.Wait()
	told := types.LocalizedMethodFault{Fault: fault, LocalizedMessage: words}
	ctx.Map.AtomicUpdate(ctx, task, []types.PropertyChange{{Name: "info.error", Val: told}})
	return reference
}

// takenNics is what a vCenter says of the hosts that cannot bring their NIC along to a new switch; nil when all can.
func takenNics(
	ctx *simulator.Context, hosts []types.DistributedVirtualSwitchHostMemberConfigSpec,
) types.BaseMethodFault {
	told := &types.DvsOperationBulkFault{}
	for _, host := range hosts {
		if nic := takenNic(ctx, nil, []types.DistributedVirtualSwitchHostMemberConfigSpec{host}); nic != "" {
			fault, words := inUse(nic)
			one := types.LocalizedMethodFault{Fault: fault, LocalizedMessage: words}
			told.HostFault = append(told.HostFault, types.DvsOperationBulkFaultFaultOnHost{Host: host.Host, Fault: one})
		}
	}
	if len(told.HostFault) == 0 {
		return nil
	}
	return told
}

// inUse is what a vCenter says of a NIC that another switch has.
func inUse(nic string) (types.BaseMethodFault, string) {
	return &types.ResourceInUse{Type: "PhysicalNic", Name: nic}, fmt.Sprintf("The resource '%s' is in use.", nic)
}

// CloneVMTask makes the copy; asked to, it tells of a timeout afterwards, as a client hears that waits no longer.
func (m *machine) CloneVMTask(ctx *simulator.Context, req *types.CloneVM_Task) soap.HasFault {
	answer := m.vm.CloneVMTask(ctx, req).(*methods.CloneVM_TaskBody)
	if answer.Res == nil || !trouble.takes(faultUntold) {
		return answer
	}
	if fault := end(ctx, answer.Res.Returnval); fault != nil {
		return answer
	}
	task := failing(ctx, m.vm, "cloneVm", new(types.Timedout), "Operation timed out.")
	return &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: task}}
}

// powerOn powers the VM on; asked to, its guest's customisation fails: the simulator's own does so when the NICs of
// guest and specification are not as many.
func (m *machine) powerOn(ctx *simulator.Context, req *types.PowerOnVM_Task) soap.HasFault {
	if m.vm.Guest == nil || !trouble.takes(faultCustomise) {
		return m.vm.PowerOnVMTask(ctx, req)
	}
	nics := m.vm.Guest.Net
	m.vm.Guest.Net = append(slices.Clone(nics), types.GuestNicInfo{})
	answer := m.vm.PowerOnVMTask(ctx, req)
	if body := answer.(*methods.PowerOnVM_TaskBody); body.Res != nil {
		_ = end(ctx, body.Res.Returnval)
	}
	m.vm.Guest.Net = nics
	return answer
}
