package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// searchIndex finds machines and hosts by UUID. The simulator's own looks through all objects there are, in no order,
// and a host's esxcli is one that ends it in a panic, after which it answers nobody.
type searchIndex struct{ substitute }

// FindByUuid finds one.
func (*searchIndex) FindByUuid(ctx *simulator.Context, req *types.FindByUuid) soap.HasFault {
	answer := &types.FindByUuidResponse{}
	if found := withUUID(ctx, types.FindAllByUuid(*req)); len(found) > 0 {
		answer.Returnval = &found[0]
	}
	return &methods.FindByUuidBody{Res: answer}
}

// FindAllByUuid finds all.
func (*searchIndex) FindAllByUuid(ctx *simulator.Context, req *types.FindAllByUuid) soap.HasFault {
	return &methods.FindAllByUuidBody{Res: &types.FindAllByUuidResponse{Returnval: withUUID(ctx, *req)}}
}

func withUUID(ctx *simulator.Context, asked types.FindAllByUuid) (found []types.ManagedObjectReference) {
	kind := "HostSystem"
	if asked.VmSearch {
		kind = "VirtualMachine"
	}
	for _, object := range ctx.Map.All(kind) {
		uuid := ""
		switch object := object.(type) {
		case *simulator.HostSystem:
			uuid = object.Summary.Hardware.Uuid
		case *simulator.VirtualMachine:
			uuid = object.Config.Uuid
			if asked.InstanceUuid != nil && *asked.InstanceUuid {
				uuid = object.Config.InstanceUuid
			}
		}
		if uuid == asked.Uuid {
			found = append(found, object.Reference())
		}
	}
	return found
}
