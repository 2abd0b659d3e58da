"""Reads the facts of the preflight: all hosts in one call, all switches in a second."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyVmomi import vim, vmodl

from components.fabric.preflight.cards import pcie_of, with_drivers
from components.fabric.preflight.facts import (
    FabricFacts,
    HostFacts,
    MachineFacts,
    Packages,
    SwitchFacts,
    VmkernelFacts,
)
from components.fabric.preflight.firewall import allowed
from components.fabric.preflight.packages import packages_of
from components.fabric.preflight.pcie import Pcie
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.nics import nics_of
from components.fabric.vcenter.privileges import Where
from components.fabric.vcenter.properties import Found, collect, collect_all, known
from stacks.base import LabError

HOST_PATHS = (
    "name",
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
    "runtime.bootTime",
    "complianceCheckState",
    "hardware.systemInfo",
    "config.product",
    "config.network",
    "config.graphicsConfig",
    "config.graphicsInfo",
    "config.sharedPassthruGpuTypes",
    "config.dateTimeInfo",
    "config.firewall",
    "config.service",
    "configManager.networkSystem",
    "configManager.imageConfigManager",
)
ABREAST = 8
"""Hosts asked at once for what is no property: a vCenter serves some dozens of calls at a time."""
COMPLIANCE = frozenset({"compliant", "nonCompliant", "running"})
"""States of a host that some host profile is attached to; without one it is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What is looked at."""

    datacenter: str
    cluster: str
    hosts: Sequence[str]
    privileges: Mapping[Where, Sequence[str]]
    """Those that our user has to have, by the kind of object that it needs them on."""
    machines: bool
    """Whether to read what VMs and templates there are, of which a vCenter may have thousands."""
    gpus: bool
    """Whether to read which packages and PCIe devices the hosts have; for packages a role needs Host.Config.Image."""
    packages: Mapping[str, Packages] = field(default_factory=dict)
    """What the last run read of the hosts' packages: one that has not been started since is not asked again."""


def survey(vcenter: VCenter, scope: Scope) -> FabricFacts:
    """Facts of the named hosts, and of all switches of the datacenter.

    Raises:
        LabError: when there is no such datacenter or cluster.
    """
    content = vcenter.content
    place, _ = _entry(collect_all(content, vim.Datacenter, ["name"]), "datacenter", scope.datacenter)
    clusters = collect_all(content, vim.ComputeResource, ["name", "configManagerEnabled"], place)
    owner, found = _entry(clusters, "cluster", scope.cluster)
    wanted = set(scope.hosts)
    known_hosts = collect_all(content, vim.HostSystem, HOST_PATHS, place)
    rows = [one for one in known_hosts if one[1]["name"] in wanted]
    cards = pcie_of(content, [entity for entity, _ in rows]) if scope.gpus else [None] * len(rows)
    with ThreadPoolExecutor(ABREAST) as pool:
        hosts = list(pool.map(partial(_host, vcenter, scope), rows, cards))
    networks = collect_all(content, vim.Network, ["name"], place)
    return FabricFacts(
        hosts={host.name: host for host in hosts},
        switches={one.name: one for one in _switches(content, place)},
        networks=frozenset(str(one["name"]) for _, one in networks),
        host_names=frozenset(str(one["name"]) for _, one in known_hosts),
        datastores=frozenset(str(one["name"]) for _, one in collect_all(content, vim.Datastore, ["name"], place)),
        machines=_machines(content, place) if scope.machines else {},
        under_configuration_profile=bool(found.get("configManagerEnabled")),
        lacking=_lacking(
            content,
            {
                "datacenter": [(place, scope.datacenter)],
                "cluster": [(owner, scope.cluster)],
                "host": [(host, str(row["name"])) for host, row in rows],
            },
            scope.privileges,
        ),
    )


def _host(vcenter: VCenter, scope: Scope, row: tuple[vim.HostSystem, Found], cards: Pcie | None) -> HostFacts:
    entity, found = row
    name, network = str(found["name"]), found.get("config.network")
    if found.get("runtime.connectionState") != "connected" or network is None:
        return HostFacts(name=name, connected=False)
    product, system = found.get("config.product"), found.get("hardware.systemInfo")
    version = product.version if product else ""
    nics = nics_of(network, vcenter.rdma(entity, name, version, network))
    graphics, clock = found.get("config.graphicsConfig"), found.get("config.dateTimeInfo")
    services = getattr(found.get("config.service"), "service", None) or []
    servers = clock.ntpConfig.server if clock is not None and clock.ntpConfig is not None else None
    return HostFacts(
        name=name,
        maintenance=bool(found.get("runtime.inMaintenanceMode")),
        version=version,
        build=product.build if product else "",
        model=f"{system.vendor} {system.model}".strip() if system else "",
        nics=tuple(with_drivers(entity, name, nics)),
        vmkernels={
            nic.device: VmkernelFacts(address=nic.spec.ip.ipAddress or "", mtu_bytes=nic.spec.mtu or 1500)
            for nic in network.vnic or []
        },
        graphics=graphics.hostDefaultGraphicsType if graphics else "",
        gpu_graphics={
            gpu.pciId: gpu.graphicsType or ""
            for gpu in found.get("config.graphicsInfo") or ()
            if "nvidia" in (gpu.vendorName or "").lower()  # the management controller's own display is one too
        },
        vgpu_profiles=frozenset(found.get("config.sharedPassthruGpuTypes") or ()),
        packages=packages_of(entity, name, found, scope.packages.get(name)) if scope.gpus else None,
        pcie=cards or Pcie(),
        ntp_servers=tuple(servers or ()),
        ntp_running=any(service.key == "ntpd" and service.running for service in services),
        pvrdma_allows=allowed(getattr(found.get("config.firewall"), "ruleset", None) or ()),
        under_profile=getattr(found.get("complianceCheckState"), "state", None) in COMPLIANCE,
        neighbour_mtu_bytes=_announced(found.get("configManager.networkSystem")),
    )


def _machines(content: vim.ServiceInstanceContent, place: vim.Datacenter) -> dict[str, MachineFacts]:
    paths = ["name", "config.template", "config.firmware", "config.guestId"]
    return {
        str(found["name"]): MachineFacts(
            template=bool(found.get("config.template")),
            firmware=str(found.get("config.firmware", "")),
            guest_id=str(found.get("config.guestId", "")),
        )
        for _, found in collect_all(content, vim.VirtualMachine, paths, place)
        if "name" in found
    }


def _lacking(
    content: vim.ServiceInstanceContent,
    places: Mapping[Where, Sequence[tuple[vim.ManagedEntity, str]]],
    privileges: Mapping[Where, Sequence[str]],
) -> dict[str, tuple[str, ...]]:
    """Privileges that our user lacks, with the objects."""
    found: dict[str, list[str]] = defaultdict(list)
    login = known(content, "sessionManager.currentSession").key
    manager = known(content, "authorizationManager")
    for where, objects in places.items():
        asked = list(privileges.get(where, ()))
        if not asked or not objects:
            continue
        names = dict(objects)
        for one in manager.HasPrivilegeOnEntities(list(names), login, asked):
            for each in one.privAvailability:
                if not each.isGranted:
                    found[each.privId].append(names[one.entity])
    return {privilege: tuple(sorted(objects)) for privilege, objects in found.items()}


def _announced(network: Any) -> Mapping[str, int]:
    if network is None:
        return {}
    try:
        hints = network.QueryNetworkHint(None)
    except (TimeoutError, vmodl.MethodFault):
        return {}  # what a neighbour says is a help, and no neighbour has to say it
    found = {}
    for hint in hints or []:
        cdp, lldp = getattr(hint, "connectedSwitchPort", None), getattr(hint, "lldpInfo", None)
        mtu = cdp.mtu if cdp is not None else None
        for parameter in lldp.parameter or [] if lldp is not None else []:
            if parameter.key.lower() in ("mtu", "maximum frame size"):
                mtu = mtu or int(parameter.value)
        if mtu:
            found[str(hint.device)] = int(mtu)
    return found


def _switches(content: vim.ServiceInstanceContent, datacenter: vim.Datacenter) -> Iterable[SwitchFacts]:
    rows = collect_all(content, vim.DistributedVirtualSwitch, ["name", "uuid", "config", "portgroup"], datacenter)
    members = [member.config.host for _, row in rows for member in row["config"].host or []]
    names = dict(zip(members, (one.get("name", "") for one in collect(content, members, ["name"])), strict=True))
    for _, row in rows:
        config = row["config"]
        groups = collect(content, row.get("portgroup") or [], ["name", "config.defaultPortConfig"])
        yield SwitchFacts(
            name=str(row["name"]),
            uuid=str(row["uuid"]),
            version=config.productInfo.version or "",
            mtu_bytes=getattr(config, "maxMtu", None) or 1500,
            network_io_control=bool(config.networkResourceManagementEnabled),
            members={
                str(names[one.config.host]): tuple(
                    nic.pnicDevice for nic in getattr(one.config.backing, "pnicSpec", None) or []
                )
                for one in config.host or []
            },
            uplink_ports=len(getattr(config.uplinkPortPolicy, "uplinkPortName", None) or []),
            port_groups={str(one["name"]): _vlan(one.get("config.defaultPortConfig")) for one in groups if one},
        )


def _vlan(setting: Any) -> int | None:
    vlan = getattr(setting, "vlan", None)
    if vlan is None:
        return 0
    number = getattr(vlan, "vlanId", None)
    return number if isinstance(number, int) else None


def _entry(rows: Sequence[tuple[Any, Found]], what: str, name: str) -> tuple[Any, Found]:
    for entity, found in rows:
        if found["name"] == name:
            return entity, found
    others = ", ".join(sorted(str(found["name"]) for _, found in rows)) or "none"
    raise LabError(f"fabric.{what}: the vCenter has no {name} that our user may see; it has {others}")
