package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	// A first boot takes 20 s on idle cores; on crowded ones ten times that has been seen.
	guestWait     = 10 * time.Minute
	guestSettings = "guestinfo."
	lastWords     = 600 // characters of what a failed program said
)

// guest is a VM as its guest's keeper is told of it.
type guest struct {
	Name     string            `json:"name"`
	Address  string            `json:"address"` // what its customisation gave the first adapter
	Settings map[string]string `json:"guestinfo"`
}

// order asks for a guest to be started, or to be ended.
type order struct {
	Power string `json:"power"`
	guest
}

// keeper is the program that gives VMs their guests: an order on stdin, what came of it on stdout.
type keeper struct {
	command []string
	mu      sync.Mutex
	each    map[types.ManagedObjectReference]*sync.Mutex
}

// outside is the keeper of this vCenter's guests. Without a command its VMs have none.
var outside = &keeper{each: map[types.ManagedObjectReference]*sync.Mutex{}}

// alone lets one thing at a time happen to a VM's guest.
func (k *keeper) alone(vm types.ManagedObjectReference) *sync.Mutex {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.each[vm] == nil {
		k.each[vm] = new(sync.Mutex)
	}
	return k.each[vm]
}

// ask gives an order. The address is where the guest answers; empty: this VM has no guest, as one that was given none.
func (k *keeper) ask(power string, of guest) (address string, err error) {
	if of.Address == "" {
		return "", nil
	}
	text, err := json.Marshal(order{Power: power, guest: of})
	if err != nil {
		return "", err
	}
	var said, complained bytes.Buffer
	program := exec.Command(k.command[0], k.command[1:]...)
	// guestinfo holds keys: it goes by stdin, since a command line is everybody's to read
	program.Stdin, program.Stdout, program.Stderr = bytes.NewReader(text), &said, &complained
	if err := program.Start(); err != nil {
		return "", err
	}
	late := time.AfterFunc(guestWait, func() { _ = program.Process.Kill() })
	defer late.Stop()
	if err := program.Wait(); err != nil {
		words := strings.TrimSpace(complained.String())
		return "", fmt.Errorf("%s: %s", err, words[max(0, len(words)-lastWords):])
	}
	var answer struct {
		Address string `json:"address"`
	}
	if err := json.Unmarshal(said.Bytes(), &answer); err != nil {
		return "", err
	}
	return answer.Address, nil
}

// guestOf describes a VM. A guest reads what stands in guestinfo, and no other setting.
func guestOf(vm *simulator.VirtualMachine) guest {
	found := guest{Name: vm.Name, Settings: map[string]string{}}
	if vm.Guest != nil {
		found.Address = vm.Guest.IpAddress
	}
	for _, setting := range vm.Config.ExtraConfig {
		value := setting.GetOptionValue()
		if text, ok := value.Value.(string); ok && strings.HasPrefix(value.Key, guestSettings) {
			found.Settings[value.Key] = text
		}
	}
	return found
}

// running lists the VMs that are on and can have a guest.
func running(model *simulator.Model) []guest {
	found := []guest{}
	registry := model.Map()
	for _, object := range registry.All("VirtualMachine") {
		vm := object.(*simulator.VirtualMachine)
		registry.WithLock(&simulator.Context{Map: registry}, vm.Self, func() {
			one := guestOf(vm)
			if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn && one.Address != "" {
				found = append(found, one)
			}
		})
	}
	return found
}

// PowerOnVMTask powers the VM on, then starts its guest; the task ends when the guest answers.
func (m *machine) PowerOnVMTask(ctx *simulator.Context, req *types.PowerOnVM_Task) soap.HasFault {
	if outside.command == nil {
		return m.powerOn(ctx, req)
	}
	task := m.task(ctx, "powerOn", func() *types.LocalizedMethodFault {
		answer := m.powerOn(ctx, req).(*methods.PowerOnVM_TaskBody)
		if answer.Res == nil {
			return refused(answer.Fault_)
		}
		if fault := end(ctx, answer.Res.Returnval); fault != nil {
			return fault
		}
		address, err := outside.ask("on", m.seen(ctx))
		if err != nil {
			off := m.vm.PowerOffVMTask(ctx, &types.PowerOffVM_Task{This: m.vm.Self}).(*methods.PowerOffVM_TaskBody)
			_ = end(ctx, off.Res.Returnval)
			return broken(m.vm.Name, "its guest does not start", err)
		}
		if address != "" {
			m.report(ctx, address, types.VirtualMachineToolsRunningStatusGuestToolsRunning)
		}
		return nil
	})
	return &methods.PowerOnVM_TaskBody{Res: &types.PowerOnVM_TaskResponse{Returnval: task}}
}

// PowerOffVMTask ends the guest, then powers the VM off.
func (m *machine) PowerOffVMTask(ctx *simulator.Context, req *types.PowerOffVM_Task) soap.HasFault {
	if outside.command == nil {
		return m.vm.PowerOffVMTask(ctx, req)
	}
	task := m.task(ctx, "powerOff", func() *types.LocalizedMethodFault {
		if fault := m.endGuest(ctx); fault != nil {
			return fault
		}
		answer := m.vm.PowerOffVMTask(ctx, req).(*methods.PowerOffVM_TaskBody)
		if answer.Res == nil {
			return refused(answer.Fault_)
		}
		return end(ctx, answer.Res.Returnval)
	})
	return &methods.PowerOffVM_TaskBody{Res: &types.PowerOffVM_TaskResponse{Returnval: task}}
}

// ShutdownGuest ends the guest, after which the VM powers itself off.
func (m *machine) ShutdownGuest(ctx *simulator.Context, req *types.ShutdownGuest) soap.HasFault {
	if outside.command != nil {
		only := outside.alone(m.vm.Self)
		only.Lock()
		defer only.Unlock()
		if fault := m.endGuest(ctx); fault != nil {
			return &methods.ShutdownGuestBody{Fault_: simulator.Fault(fault.LocalizedMessage, fault.Fault)}
		}
	}
	return m.vm.ShutdownGuest(ctx, req)
}

func (m *machine) endGuest(ctx *simulator.Context) *types.LocalizedMethodFault {
	if _, err := outside.ask("off", m.seen(ctx)); err != nil {
		return broken(m.vm.Name, "its guest does not end", err)
	}
	m.report(ctx, "", types.VirtualMachineToolsRunningStatusGuestToolsNotRunning)
	return nil
}

func (m *machine) seen(ctx *simulator.Context) (found guest) {
	ctx.Map.WithLock(ctx, m.vm.Self, func() { found = guestOf(m.vm) })
	return found
}

// report shows what the guest's tools tell; an address that is empty stays what it was, as a vCenter shows the last one.
func (m *machine) report(ctx *simulator.Context, address string, tools types.VirtualMachineToolsRunningStatus) {
	changes := []types.PropertyChange{{Name: "guest.toolsRunningStatus", Val: string(tools)}}
	if address != "" {
		changes = append(changes,
			types.PropertyChange{Name: "guest.ipAddress", Val: address},
			types.PropertyChange{Name: "summary.guest.ipAddress", Val: address})
	}
	ctx.Map.AtomicUpdate(ctx, m.vm, changes)
}

// task runs something that takes its time. The simulator's own tasks lock their object meanwhile, so that nobody could
// read the VM, and they tell of a fault nothing but its type.
func (m *machine) task(
	ctx *simulator.Context, name string, run func() *types.LocalizedMethodFault,
) types.ManagedObjectReference {
	task := simulator.CreateTask(m.vm, name+"VMTask", nil) // the API's name of it, which clients look up
	task.Info.DescriptionId = "VirtualMachine." + name
	task.Info.State = types.TaskInfoStateRunning
	task.Info.StartTime = types.NewTime(time.Now())
	ctx.Map.Put(task)
	ctx.Map.AtomicUpdate(ctx, task, []types.PropertyChange{
		{Name: "info.key", Val: task.Self.Value},
		{Name: "info.task", Val: task.Self},
	})
	go func() {
		only := outside.alone(m.vm.Self)
		only.Lock()
		fault := run()
		only.Unlock()
		changes := []types.PropertyChange{{Name: "info.completeTime", Val: time.Now()}}
		if fault == nil {
			changes = append(changes, types.PropertyChange{Name: "info.state", Val: types.TaskInfoStateSuccess})
		} else {
			changes = append(changes,
				types.PropertyChange{Name: "info.error", Val: *fault},
				types.PropertyChange{Name: "info.state", Val: types.TaskInfoStateError})
		}
		ctx.Map.AtomicUpdate(ctx, task, changes)
	}()
	return task.Self
}

// end waits for the end of one of the simulator's own tasks.
func end(ctx *simulator.Context, reference types.ManagedObjectReference) *types.LocalizedMethodFault {
	task := ctx.Map.Get(reference).(*simulator.Task)
	task.Wait()
	return task.Info.Error
}

func refused(fault *soap.Fault) *types.LocalizedMethodFault {
	given, _ := fault.VimFault().(types.BaseMethodFault)
	return &types.LocalizedMethodFault{Fault: given, LocalizedMessage: fault.String}
}

func broken(name, what string, err error) *types.LocalizedMethodFault {
	message := fmt.Sprintf("%s: %s: %s", name, what, err)
	return &types.LocalizedMethodFault{
		Fault:            &types.GenericVmConfigFault{Reason: message},
		LocalizedMessage: message,
	}
}
