package main

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// machine changes a VM the way a vCenter does; the simulator would give a running one a device, and any vGPU to any host.
type machine struct {
	substitute
	vm *simulator.VirtualMachine
}

// ReconfigVMTask refuses PCI devices of running machines and vGPUs that the machine's host does not offer.
func (m *machine) ReconfigVMTask(ctx *simulator.Context, req *types.ReconfigVM_Task) soap.HasFault {
	for _, change := range req.Spec.DeviceChange {
		device, ok := change.GetVirtualDeviceConfigSpec().Device.(*types.VirtualPCIPassthrough)
		if !ok {
			continue
		}
		if fault := m.refusal(ctx, change.GetVirtualDeviceConfigSpec().Operation, device); fault != nil {
			return &methods.ReconfigVM_TaskBody{Fault_: simulator.Fault("", fault)}
		}
	}
	return m.vm.ReconfigVMTask(ctx, req)
}

func (m *machine) refusal(
	ctx *simulator.Context, operation types.VirtualDeviceConfigSpecOperation, device *types.VirtualPCIPassthrough,
) types.BaseMethodFault {
	if state := m.vm.Runtime.PowerState; state != types.VirtualMachinePowerStatePoweredOff {
		return &types.InvalidPowerState{
			RequestedState: types.VirtualMachinePowerStatePoweredOff,
			ExistingState:  state,
		}
	}
	backing, ok := device.Backing.(*types.VirtualPCIPassthroughVmiopBackingInfo)
	if !ok || operation != types.VirtualDeviceConfigSpecOperationAdd {
		return nil
	}
	host := ctx.Map.Get(*m.vm.Runtime.Host).(*simulator.HostSystem)
	if slices.Contains(host.Config.SharedPassthruGpuTypes, backing.Vgpu) {
		return nil
	}
	return &types.InvalidArgument{InvalidProperty: "spec.deviceChange.device.backing.vgpu"}
}
