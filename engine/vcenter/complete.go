package main

import (
	"context"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// The simulator answers a call by a method of the addressed object. Where it has none, or one that is not enough for
// the provider, an object of ours with that one method is registered for the session under a reference of its own,
// and the call is sent there.

// complete adds to a model what it lacks, for the objects it has and those that come later.
func complete(model *simulator.Model) {
	registry := model.Map()
	for _, kind := range []string{"EnvironmentBrowser", "ClusterComputeResource", "DistributedVirtualSwitch"} {
		for _, object := range registry.AllReference(kind) {
			addMissing(registry, object)
		}
	}
	ctx := &simulator.Context{Context: context.Background(), Map: registry}
	for _, object := range registry.AllReference("DistributedVirtualSwitch") {
		showProxies(ctx, &object.(*simulator.DistributedVirtualSwitch).DistributedVirtualSwitch, false)
	}
	registry.AddHandler(&newcomers{})
	registry.Handler = redirect
}

// newcomers completes objects as they are made.
type newcomers struct{}

// Reference names the handler in the registry.
func (*newcomers) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Handler", Value: "newcomers"}
}

// PutObject is called for each new object.
func (*newcomers) PutObject(ctx *simulator.Context, object mo.Reference) { addMissing(ctx.Map, object) }

// UpdateObject is called for each change of an object; that of a switch shows at its members.
func (*newcomers) UpdateObject(ctx *simulator.Context, object mo.Reference, _ []types.PropertyChange) {
	if dvs, ok := object.(*mo.DistributedVirtualSwitch); ok {
		showProxies(ctx, dvs, false)
	}
}

// RemoveObject is called for each object that goes; a switch leaves its members.
func (*newcomers) RemoveObject(ctx *simulator.Context, object types.ManagedObjectReference) {
	if dvs, ok := ctx.Map.Get(object).(*simulator.DistributedVirtualSwitch); ok {
		showProxies(ctx, &dvs.DistributedVirtualSwitch, true)
	}
}

// addMissing fills in properties that the provider reads and the simulator leaves empty.
func addMissing(registry *simulator.Registry, object mo.Reference) {
	addAlias(registry, object)
	switch object := object.(type) {
	case *simulator.VirtualMachine:
		if object.Config != nil && object.Config.SwapPlacement == "" {
			object.Config.SwapPlacement = string(types.VirtualMachineConfigInfoSwapPlacementTypeInherit)
		}
	case *simulator.EnvironmentBrowser:
		object.QueryConfigOptionResponse.Returnval = &types.VirtualMachineConfigOption{
			Version:         "vmx-17",
			DefaultDevice:   esx.VirtualDevice,
			HardwareOptions: types.VirtualHardwareOption{HwVersion: 17},
		}
	}
}

// alias makes an object answer to a second type name: a real vCenter knows these by the base type too, and the
// provider builds references with it.
type alias struct {
	mo.HistoryCollector
	object mo.Reference
}

// secondName is the other type name per type.
var secondName = map[string]string{
	"ClusterComputeResource":   "ComputeResource",
	"DistributedVirtualSwitch": "VmwareDistributedVirtualSwitch",
}

// Get gives the aliased object to property reads.
func (a *alias) Get() mo.Reference { return a.object }

// Entity gives the aliased object to permission checks.
func (a *alias) Entity() *mo.ManagedEntity { return a.object.(mo.Entity).Entity() }

func addAlias(registry *simulator.Registry, object mo.Reference) {
	reference := object.Reference()
	name, ok := secondName[reference.Type]
	if _, isAlias := object.(*alias); !ok || isAlias {
		return
	}
	reference.Type = name
	if registry.Get(reference) == nil {
		named := &alias{object: object}
		named.Self = reference
		registry.Put(named)
	}
}

// substitute answers one call in place of an object.
type substitute struct{ mo.HistoryCollector }

func (s *substitute) answerAs(reference types.ManagedObjectReference) { s.Self = reference }

// answering is an object of ours that a call can be sent to.
type answering interface {
	mo.Reference
	answerAs(types.ManagedObjectReference)
}

// redirect sends a call to the aliased object, and calls that the simulator cannot serve to ours.
func redirect(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	before := ctx.Map.Get(method.This)
	if fault := trouble.meet(ctx, method); fault != nil {
		return nil, fault
	}
	object := ctx.Map.Get(method.This)
	if before != nil && object == nil { // somebody else was quicker
		return nil, &types.ManagedObjectNotFound{Obj: method.This}
	}
	if named, ok := object.(*alias); ok {
		object = named.object
		method.This = object.Reference()
	}
	if ours := substituteFor(object, method.Name); ours != nil {
		reference := method.This
		reference.Type = "Substitute" + reference.Type
		ours.answerAs(reference)
		method.This = reference
		ctx.Session.Put(ours)
	}
	return nil, nil
}

func substituteFor(object mo.Reference, method string) answering {
	switch object := object.(type) {
	case *simulator.Folder:
		if method == "CreateDVS_Task" {
			return &switchMaker{folder: object}
		}
	case *simulator.DistributedVirtualSwitch:
		switch method {
		case "CreateDVPortgroup_Task", "ReconfigureDvs_Task", "EnableNetworkResourceManagement",
			"PerformDvsProductSpecOperation_Task":
			return &distributedSwitch{dvs: object}
		}
	case *simulator.DistributedVirtualPortgroup:
		if method == "ReconfigureDVPortgroup_Task" {
			return &portGroup{group: object}
		}
	case *simulator.VirtualMachine:
		switch method {
		case "CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task", "PowerOffVM_Task", "ShutdownGuest":
			return &machine{vm: object}
		}
	case *simulator.ClusterComputeResource:
		if method == "ReconfigureComputeResource_Task" {
			return &cluster{cluster: object}
		}
	case *simulator.DistributedVirtualSwitchManager:
		if method == "QueryDvsByUuid" {
			return &switchFinder{}
		}
	case *simulator.HostVirtualNicManager:
		if method == "SelectVnicForNicType" {
			return &nicSelection{manager: object}
		}
	case *simulator.ManagedMethodExecuter:
		if method == "ExecuteSoap" {
			return &esxcli{executer: object}
		}
	case *simulator.SearchIndex:
		switch method {
		case "FindByUuid", "FindAllByUuid":
			return &searchIndex{}
		}
	case *simulator.HostNetworkSystem:
		switch method {
		case "AddVirtualNic", "UpdateVirtualNic", "RemoveVirtualNic":
			return &vmkernel{network: object}
		}
	}
	return nil
}
