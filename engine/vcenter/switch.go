package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	switchVersion     = "8.0.0"
	defaultMtuBytes   = 1500
	maxProxyPorts     = 512
	ipfixActiveFlowS  = 60
	ipfixIdleTimeoutS = 15
)

// switchMaker creates distributed switches with the settings that a vCenter gives to a new one.
type switchMaker struct {
	substitute
	folder *simulator.Folder
}

// CreateDVSTask creates a switch, then adds its hosts as a change of it. Where another switch has a host's NIC the task
// fails, and the switch stays without hosts: so vCenter 7.0.3 does it (terraform-provider-vsphere, issues 1740 and 1908).
func (s *switchMaker) CreateDVSTask(ctx *simulator.Context, req *types.CreateDVS_Task) soap.HasFault {
	spec := req.Spec.ConfigSpec.GetDVSConfigSpec()
	if there := ctx.Map.FindByName(spec.Name, s.folder.ChildEntity); there != nil {
		fault := &types.DuplicateName{Name: spec.Name, Object: there.Reference()}
		return s.failed(ctx, fault, fmt.Sprintf("The name '%s' already exists.", spec.Name))
	}
	answer := s.folder.CreateDVSTask(ctx, req)
	body := answer.(*methods.CreateDVS_TaskBody)
	if body.Res == nil {
		return answer
	}
	task := ctx.Map.Get(body.Res.Returnval).(*simulator.Task)
	task.Wait()
	reference, ok := task.Info.Result.(types.ManagedObjectReference)
	if !ok {
		return answer // the task failed, and says why
	}
	dvs := ctx.Map.Get(reference).(*simulator.DistributedVirtualSwitch)
	addAlias(ctx.Map, dvs)
	config := dvs.Config.(*types.VMwareDVSConfigInfo)
	addDefaults(config, req.Spec.ProductInfo)
	config.UplinkPortgroup = slices.Clone(dvs.Portgroup)
	hosts := spec.Host
	if fault := takenNics(ctx, hosts); fault != nil {
		return s.failed(ctx, fault, "Cannot complete a vSphere Distributed Switch operation for one or more host members.")
	}
	if len(hosts) > 0 {
		for i := range hosts {
			hosts[i].Operation = string(types.ConfigSpecOperationAdd)
		}
		change := &types.VMwareDVSConfigSpec{}
		change.Host = hosts
		ours := &distributedSwitch{dvs: dvs}
		ours.ReconfigureDvsTask(ctx, &types.ReconfigureDvs_Task{This: reference, Spec: change})
	}
	return answer
}

func (s *switchMaker) failed(ctx *simulator.Context, fault types.BaseMethodFault, words string) soap.HasFault {
	task := failing(ctx, s.folder, "createDVS", fault, words)
	return &methods.CreateDVS_TaskBody{Res: &types.CreateDVS_TaskResponse{Returnval: task}}
}

func addDefaults(config *types.VMwareDVSConfigInfo, product *types.DistributedVirtualSwitchProductSpec) {
	if product != nil {
		config.ProductInfo = *product
	}
	config.ConfigVersion = "1"
	config.NetworkResourceManagementEnabled = true // as the client's wizard proposes
	setIfEmpty(&config.ProductInfo.Version, switchVersion)
	setIfEmpty(&config.MaxMtu, defaultMtuBytes)
	setIfEmpty(&config.LacpApiVersion, string(types.VMwareDvsLacpApiVersionMultipleLag))
	setIfEmpty(&config.MulticastFilteringMode, string(types.VMwareDvsMulticastFilteringModeLegacyFiltering))
	setIfEmpty(&config.NetworkResourceControlVersion,
		string(types.DistributedVirtualSwitchNetworkResourceControlVersionVersion3))
	if config.UplinkPortPolicy == nil {
		names := []string{"dvUplink1", "dvUplink2", "dvUplink3", "dvUplink4"}
		config.UplinkPortPolicy = &types.DVSNameArrayUplinkPortPolicy{UplinkPortName: names}
	}
	if config.LinkDiscoveryProtocolConfig == nil {
		config.LinkDiscoveryProtocolConfig = &types.LinkDiscoveryProtocolConfig{
			Protocol:  string(types.LinkDiscoveryProtocolConfigProtocolTypeCdp),
			Operation: string(types.LinkDiscoveryProtocolConfigOperationTypeListen),
		}
	}
	if config.IpfixConfig == nil {
		config.IpfixConfig = &types.VMwareIpfixConfig{
			ActiveFlowTimeout: ipfixActiveFlowS,
			IdleFlowTimeout:   ipfixIdleTimeoutS,
		}
	}
	if config.DefaultPortConfig == nil {
		config.DefaultPortConfig = new(types.VMwareDVSPortSetting)
	}
}

func setIfEmpty[T comparable](field *T, value T) {
	var empty T
	if *field == empty {
		*field = value
	}
}

// distributedSwitch changes a switch the way a vCenter does; the simulator's own method changes its hosts only.
type distributedSwitch struct {
	substitute
	dvs *simulator.DistributedVirtualSwitch
}

// ReconfigureDvsTask applies a change, unless it was made for an older version of the configuration, or takes a NIC
// from another switch.
func (s *distributedSwitch) ReconfigureDvsTask(
	ctx *simulator.Context, req *types.ReconfigureDvs_Task,
) soap.HasFault {
	config := s.dvs.Config.(*types.VMwareDVSConfigInfo)
	change := req.Spec.GetDVSConfigSpec()
	if change.ConfigVersion != "" && change.ConfigVersion != config.ConfigVersion {
		return &methods.ReconfigureDvs_TaskBody{Fault_: simulator.Fault("", &types.ConcurrentAccess{})}
	}
	if nic := takenNic(ctx, s.dvs, change.Host); nic != "" {
		fault, words := inUse(nic)
		task := failing(ctx, s.dvs, "reconfigureDvs", fault, words)
		return &methods.ReconfigureDvs_TaskBody{Res: &types.ReconfigureDvs_TaskResponse{Returnval: task}}
	}
	rest := &types.VMwareDVSConfigSpec{}
	ctx.WithLock(s.dvs, func() {
		s.applySettings(config, req.Spec)
		rest.Host = applyHosts(config, change.Host)
		version, _ := strconv.Atoi(config.ConfigVersion)
		config.ConfigVersion = strconv.Itoa(version + 1)
	})
	return s.dvs.ReconfigureDvsTask(ctx, &types.ReconfigureDvs_Task{This: s.dvs.Self, Spec: rest})
}

func (s *distributedSwitch) applySettings(config *types.VMwareDVSConfigInfo, spec types.BaseDVSConfigSpec) {
	change := spec.GetDVSConfigSpec()
	if change.Name != "" {
		config.Name, s.dvs.Name, s.dvs.Summary.Name = change.Name, change.Name, change.Name
	}
	if change.UplinkPortPolicy != nil {
		config.UplinkPortPolicy = change.UplinkPortPolicy
	}
	if change.DefaultPortConfig != nil {
		config.DefaultPortConfig = change.DefaultPortConfig
	}
	if change.Contact != nil {
		config.Contact = *change.Contact
	}
	if change.Description != "" {
		config.Description = change.Description
	}
	own, ok := spec.(*types.VMwareDVSConfigSpec)
	if !ok {
		return
	}
	if own.MaxMtu != 0 {
		config.MaxMtu = own.MaxMtu
	}
	if own.LinkDiscoveryProtocolConfig != nil {
		config.LinkDiscoveryProtocolConfig = own.LinkDiscoveryProtocolConfig
	}
	if own.IpfixConfig != nil {
		config.IpfixConfig = own.IpfixConfig
	}
}

// applyHosts changes the list of members, and gives back the changes that the simulator must see too.
func applyHosts(
	config *types.VMwareDVSConfigInfo, changes []types.DistributedVirtualSwitchHostMemberConfigSpec,
) (rest []types.DistributedVirtualSwitchHostMemberConfigSpec) {
	for _, change := range changes {
		index := slices.IndexFunc(config.Host, func(member types.DistributedVirtualSwitchHostMember) bool {
			return *member.Config.Host == change.Host
		})
		operation := types.ConfigSpecOperation(change.Operation)
		if operation == types.ConfigSpecOperationRemove {
			if index >= 0 {
				config.Host = slices.Delete(config.Host, index, index+1)
			}
			rest = append(rest, change)
			continue
		}
		member := types.DistributedVirtualSwitchHostMember{
			Config: types.DistributedVirtualSwitchHostMemberConfigInfo{
				Host:                &change.Host,
				MaxProxySwitchPorts: maxProxyPorts,
				Backing:             change.Backing,
			},
		}
		if index < 0 {
			config.Host = append(config.Host, member)
		} else {
			config.Host[index] = member
		}
		if operation == types.ConfigSpecOperationAdd {
			rest = append(rest, change)
		}
	}
	return rest
}

// CreateDVPortgroupTask creates one port group; the simulator knows only the call for several, whose task has no result.
func (s *distributedSwitch) CreateDVPortgroupTask(
	ctx *simulator.Context, req *types.CreateDVPortgroup_Task,
) soap.HasFault {
	several := &types.AddDVPortgroup_Task{This: s.dvs.Self, Spec: []types.DVPortgroupConfigSpec{req.Spec}}
	body := s.dvs.AddDVPortgroupTask(ctx, several).(*methods.AddDVPortgroup_TaskBody)
	if body.Res == nil {
		return &methods.CreateDVPortgroup_TaskBody{Fault_: body.Fault_}
	}
	task := ctx.Map.Get(body.Res.Returnval).(*simulator.Task)
	task.Wait()
	if task.Info.State == types.TaskInfoStateSuccess {
		made := s.dvs.Portgroup[len(s.dvs.Portgroup)-1]
		task.Info.Result = made
		group := ctx.Map.Get(made).(*simulator.DistributedVirtualPortgroup)
		ports, ok := group.Config.DefaultPortConfig.(*types.VMwareDVSPortSetting)
		if ok && ports.Vlan == nil { // untagged, where nothing else is asked for
			ports.Vlan = new(types.VmwareDistributedVirtualSwitchVlanIdSpec)
		}
	}
	answer := &types.CreateDVPortgroup_TaskResponse{Returnval: body.Res.Returnval}
	return &methods.CreateDVPortgroup_TaskBody{Res: answer}
}

// EnableNetworkResourceManagement turns network I/O control on or off.
func (s *distributedSwitch) EnableNetworkResourceManagement(
	_ *simulator.Context, req *types.EnableNetworkResourceManagement,
) soap.HasFault {
	s.dvs.Config.GetDVSConfigInfo().NetworkResourceManagementEnabled = req.Enable
	return &methods.EnableNetworkResourceManagementBody{Res: new(types.EnableNetworkResourceManagementResponse)}
}

// PerformDvsProductSpecOperationTask brings the switch to a newer version; it never goes back to an older one.
func (s *distributedSwitch) PerformDvsProductSpecOperationTask(
	ctx *simulator.Context, req *types.PerformDvsProductSpecOperation_Task,
) soap.HasFault {
	config := s.dvs.Config.(*types.VMwareDVSConfigInfo)
	task := simulator.CreateTask(s.dvs, "performProductSpecOperation",
		func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
			if req.ProductSpec == nil || req.ProductSpec.Version < config.ProductInfo.Version {
				return nil, &types.InvalidArgument{InvalidProperty: "productSpec"}
			}
			config.ProductInfo.Version = req.ProductSpec.Version
			return nil, nil
		})
	answer := &types.PerformDvsProductSpecOperation_TaskResponse{Returnval: task.Run(ctx)}
	return &methods.PerformDvsProductSpecOperation_TaskBody{Res: answer}
}

// portGroup changes a port group the way a vCenter does: the simulator empties whatever the change leaves out.
type portGroup struct {
	substitute
	group *simulator.DistributedVirtualPortgroup
}

// ReconfigureDVPortgroupTask fills up the change with what there is, then lets the simulator apply it.
func (p *portGroup) ReconfigureDVPortgroupTask(
	ctx *simulator.Context, req *types.ReconfigureDVPortgroup_Task,
) soap.HasFault {
	before, change := p.group.Config, &req.Spec
	setIfEmpty(&change.Name, before.Name)
	setIfEmpty(&change.NumPorts, before.NumPorts)
	setIfEmpty(&change.Type, before.Type)
	setIfEmpty(&change.Description, before.Description)
	setIfEmpty(&change.AutoExpand, before.AutoExpand)
	setIfEmpty(&change.PortNameFormat, before.PortNameFormat)
	setIfEmpty(&change.BackingType, before.BackingType)
	if change.Policy == nil {
		change.Policy = before.Policy
	}
	if change.DefaultPortConfig == nil {
		change.DefaultPortConfig = before.DefaultPortConfig
	}
	now, isNow := change.DefaultPortConfig.(*types.VMwareDVSPortSetting)
	old, isOld := before.DefaultPortConfig.(*types.VMwareDVSPortSetting)
	if isNow && isOld && now.UplinkTeamingPolicy == nil {
		now.UplinkTeamingPolicy = old.UplinkTeamingPolicy
	}
	if isNow && isOld && now.Vlan == nil {
		now.Vlan = old.Vlan
	}
	return p.group.ReconfigureDVPortgroupTask(ctx, req)
}

// switchFinder looks switches up by UUID, which is the ID that the provider keeps.
type switchFinder struct{ substitute }

// QueryDvsByUuid finds one switch.
func (*switchFinder) QueryDvsByUuid(ctx *simulator.Context, req *types.QueryDvsByUuid) soap.HasFault {
	for _, object := range ctx.Map.All("DistributedVirtualSwitch") {
		if dvs := object.(*simulator.DistributedVirtualSwitch); dvs.Uuid == req.Uuid {
			return &methods.QueryDvsByUuidBody{Res: &types.QueryDvsByUuidResponse{Returnval: &dvs.Self}}
		}
	}
	return &methods.QueryDvsByUuidBody{Fault_: simulator.Fault("", new(types.NotFound))}
}
