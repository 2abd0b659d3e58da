package main

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// cluster keeps machines apart where a rule says so and DRS is on; the simulator's own method only stores the rule.
type cluster struct {
	substitute
	cluster *simulator.ClusterComputeResource
}

// ReconfigureComputeResourceTask applies a change, then moves what a rule wants moved, once. Real DRS goes on for ever.
func (c *cluster) ReconfigureComputeResourceTask(
	ctx *simulator.Context, req *types.ReconfigureComputeResource_Task,
) soap.HasFault {
	answer := c.cluster.ReconfigureComputeResourceTask(ctx, req)
	if body := answer.(*methods.ReconfigureComputeResource_TaskBody); body.Res != nil {
		ctx.Map.Get(body.Res.Returnval).(*simulator.Task).Wait()
		c.separate(ctx)
	}
	return answer
}

func (c *cluster) separate(ctx *simulator.Context) {
	config := c.cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
	drs := config.DrsConfig
	if drs.Enabled == nil || !*drs.Enabled || drs.DefaultVmBehavior == types.DrsBehaviorManual {
		return
	}
	for _, rule := range config.Rule {
		apart, ok := rule.(*types.ClusterAntiAffinityRuleSpec)
		if !ok || apart.Enabled == nil || !*apart.Enabled {
			continue
		}
		var taken []types.ManagedObjectReference
		for _, reference := range stayingFirst(config, apart.Vm) {
			vm, ok := ctx.Map.Get(reference).(*simulator.VirtualMachine)
			if !ok {
				continue
			}
			if slices.Contains(taken, *vm.Runtime.Host) {
				c.moveToFree(ctx, vm, taken)
			}
			taken = append(taken, *vm.Runtime.Host)
		}
	}
}

// stayingFirst puts the machines that DRS must leave where they are before those that it may move.
func stayingFirst(
	config *types.ClusterConfigInfoEx, machines []types.ManagedObjectReference,
) []types.ManagedObjectReference {
	stays := func(machine types.ManagedObjectReference) bool {
		return slices.ContainsFunc(config.DrsVmConfig, func(own types.ClusterDrsVmConfigInfo) bool {
			return own.Key == machine && own.Enabled != nil && !*own.Enabled
		})
	}
	sorted := slices.Clone(machines)
	slices.SortStableFunc(sorted, func(a, b types.ManagedObjectReference) int {
		switch {
		case stays(a) == stays(b):
			return 0
		case stays(a):
			return -1
		default:
			return 1
		}
	})
	return sorted
}

// moveToFree moves a machine to the first host that is not taken; where all are, it stays.
func (c *cluster) moveToFree(
	ctx *simulator.Context, vm *simulator.VirtualMachine, taken []types.ManagedObjectReference,
) {
	for _, reference := range c.cluster.Host {
		if slices.Contains(taken, reference) {
			continue
		}
		from := ctx.Map.Get(*vm.Runtime.Host).(*simulator.HostSystem)
		to := ctx.Map.Get(reference).(*simulator.HostSystem)
		ctx.Map.RemoveReference(ctx, from, &from.Vm, vm.Self)
		ctx.Map.AppendReference(ctx, to, &to.Vm, vm.Self)
		moved(ctx, vm, &to.Self)
		return
	}
}

func moved(ctx *simulator.Context, vm mo.Reference, host *types.ManagedObjectReference) {
	ctx.Map.Update(ctx, vm, []types.PropertyChange{
		{Name: "runtime.host", Val: host},
		{Name: "summary.runtime.host", Val: host},
	})
}
