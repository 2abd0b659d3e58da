"""Reads the facts of the preflight: all hosts in one call, all switches in a second."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from pyVmomi import vim, vmodl

from components.fabric.preflight.facts import (
    FabricFacts,
    HostFacts,
    MachineFacts,
    SwitchFacts,
    VmkernelFacts,
)
from components.fabric.vcenter.client import RULESET, VCenter
from components.fabric.vcenter.esxcli import esxcli
from components.fabric.vcenter.nics import Nic, nics_of
from components.fabric.vcenter.properties import Found, collect, collect_all, named
from stacks.base import LabError
from stacks.frozen import frozen

HOST_PATHS = (
    "name",
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
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
)
ABREAST = 8
"""Hosts read in parallel for what is no property: a vCenter serves some dozens of calls at a
time."""
COMPLIANCE = frozenset({"compliant", "nonCompliant", "running"})
"""States of a host with a host profile."""


@frozen
class Scope:
    """What the survey reads."""

    datacenter: str
    cluster: str
    hosts: Sequence[str]
    machines: bool
    """Whether to read VMs and templates, of which a vCenter may have thousands."""
    gpus: bool
    """Whether to read vGPU drivers and PCIe devices of the hosts."""


def survey(vcenter: VCenter, scope: Scope) -> FabricFacts:
    """Facts of the named hosts, and of all switches of the datacenter.

    Raises:
        LabError: when there is no such datacenter or cluster.
    """
    content = vcenter.content
    place, _ = named(content, vim.Datacenter, scope.datacenter)
    managed = "configManagerEnabled"
    _, cluster = named(content, vim.ComputeResource, scope.cluster, place, [managed])
    host_names = set(scope.hosts)
    known_hosts = collect_all(content, vim.HostSystem, HOST_PATHS, place)
    rows = [host_row for host_row in known_hosts if host_row[1]["name"] in host_names]
    numa_nodes: list[Mapping[str, int]] = [{}] * len(rows)
    if scope.gpus:
        numa_nodes = numa_nodes_of(content, [entity for entity, _ in rows])
    with ThreadPoolExecutor(ABREAST) as pool:
        hosts = list(pool.map(partial(_host, vcenter, scope), rows, numa_nodes))
    networks = collect_all(content, vim.Network, ["name"], place)
    datastores = collect_all(content, vim.Datastore, ["name"], place)
    machines = _machines(content, place) if scope.machines else {}
    return FabricFacts(
        hosts={host.name: host for host in hosts},
        switches={host_row.name: host_row for host_row in _switches(content, place)},
        networks=frozenset(str(host_row["name"]) for _, host_row in networks),
        host_names=frozenset(str(host_row["name"]) for _, host_row in known_hosts),
        datastores=frozenset(str(datastore["name"]) for _, datastore in datastores),
        machines=machines,
        under_configuration_profile=bool(cluster.get(managed)),
    )


def _host(
    vcenter: VCenter,
    scope: Scope,
    row: tuple[vim.HostSystem, Found],
    numa_nodes: Mapping[str, int],
) -> HostFacts:
    entity, properties = row
    name, network = str(properties["name"]), properties.get("config.network")
    if properties.get("runtime.connectionState") != "connected" or network is None:
        return HostFacts(name=name, connected=False)
    product, system = properties.get("config.product"), properties.get("hardware.systemInfo")
    version = product.version if product else ""
    nics = nics_of(network, vcenter.rdma(entity, name, version, network))
    graphics, clock = properties.get("config.graphicsConfig"), properties.get("config.dateTimeInfo")
    services = getattr(properties.get("config.service"), "service", None) or []
    servers = None
    if clock is not None and clock.ntpConfig is not None:
        servers = clock.ntpConfig.server
    build = product.build if product else ""
    model = f"{system.vendor} {system.model}".strip() if system else ""
    vgpu_driver = _vgpu_driver(entity, name) if scope.gpus else ""
    default_graphics = ""
    if graphics:
        default_graphics = graphics.hostDefaultGraphicsType
    gpus = []
    for gpu in properties.get("config.graphicsInfo") or ():
        # not the management controller's display
        if "nvidia" in (gpu.vendorName or "").lower():
            gpus.append(str(gpu.pciId))
    vmkernels = {}
    for nic in network.vnic or []:
        address = nic.spec.ip.ipAddress or ""
        vmkernels[nic.device] = VmkernelFacts(address=address, mtu_bytes=nic.spec.mtu or 1500)
    return HostFacts(
        name=name,
        maintenance=bool(properties.get("runtime.inMaintenanceMode")),
        version=version,
        build=build,
        model=model,
        nics=tuple(with_drivers(entity, name, nics)),
        vmkernels=vmkernels,
        graphics=default_graphics,
        gpus=tuple(sorted(gpus)),
        vgpu_profiles=frozenset(properties.get("config.sharedPassthruGpuTypes") or ()),
        vgpu_driver=vgpu_driver,
        numa_nodes=numa_nodes,
        ntp_servers=tuple(servers or ()),
        ntp_running=any(service.key == "ntpd" and service.running for service in services),
        pvrdma_allows=allowed(getattr(properties.get("config.firewall"), "ruleset", None) or ()),
        under_profile=getattr(properties.get("complianceCheckState"), "state", None) in COMPLIANCE,
        neighbour_mtu_bytes=_announced(properties.get("configManager.networkSystem")),
    )


def _machines(
    content: vim.ServiceInstanceContent, place: vim.Datacenter
) -> dict[str, MachineFacts]:
    paths = ["name", "config.template", "config.firmware", "config.guestId"]
    machines = {}
    for _, properties in collect_all(content, vim.VirtualMachine, paths, place):
        if "name" in properties:
            machines[str(properties["name"])] = MachineFacts(
                template=bool(properties.get("config.template")),
                firmware=str(properties.get("config.firmware", "")),
                guest_id=str(properties.get("config.guestId", "")),
            )
    return machines


def _announced(network: Any) -> Mapping[str, int]:
    if network is None:
        return {}
    try:
        hints = network.QueryNetworkHint(None)
    except (TimeoutError, vmodl.MethodFault):
        return {}  # an announcement is optional
    mtu_bytes = {}
    for hint in hints or []:
        cdp, lldp = getattr(hint, "connectedSwitchPort", None), getattr(hint, "lldpInfo", None)
        mtu = cdp.mtu if cdp is not None else None
        for parameter in lldp.parameter or [] if lldp is not None else []:
            if parameter.key.lower() in ("mtu", "maximum frame size"):
                mtu = mtu or int(parameter.value)
        if mtu:
            mtu_bytes[str(hint.device)] = int(mtu)
    return mtu_bytes


def _switches(
    content: vim.ServiceInstanceContent, datacenter: vim.Datacenter
) -> Iterable[SwitchFacts]:
    rows = collect_all(
        content, vim.DistributedVirtualSwitch, ["name", "config", "portgroup"], datacenter
    )
    members = [member.config.host for _, row in rows for member in row["config"].host or []]
    names = dict(
        zip(
            members,
            (entity.get("name", "") for entity in collect(content, members, ["name"])),
            strict=True,
        )
    )
    for _, row in rows:
        config = row["config"]
        groups = collect(content, row.get("portgroup") or [], ["name", "config.defaultPortConfig"])
        nics_by_member = {}
        for member in config.host or []:
            specs = getattr(member.config.backing, "pnicSpec", None) or []
            nics_by_member[str(names[member.config.host])] = tuple(nic.pnicDevice for nic in specs)
        vlans = {}
        for group in groups:
            if group:
                vlans[str(group["name"])] = _vlan(group.get("config.defaultPortConfig"))
        yield SwitchFacts(
            name=str(row["name"]),
            version=config.productInfo.version or "",
            mtu_bytes=getattr(config, "maxMtu", None) or 1500,
            members=nics_by_member,
            port_groups=vlans,
        )


def _vlan(setting: Any) -> int | None:
    vlan = getattr(setting, "vlan", None)
    if vlan is None:
        return 0
    number = getattr(vlan, "vlanId", None)
    return number if isinstance(number, int) else None


def allowed(rulesets: Iterable[vim.host.Ruleset]) -> tuple[str, ...] | None:
    """Addresses and networks that the ruleset allows; None: all."""
    for ruleset in rulesets:
        listed = ruleset.allowedHosts
        if ruleset.key == RULESET and listed is not None and not listed.allIp:
            networks = (
                f"{network.network}/{network.prefixLength}" for network in listed.ipNetwork or ()
            )
            return (*(listed.ipAddress or ()), *networks)
    return None


# esxcli reports NIC driver versions that the API leaves out. That needs privileges that a role need
# not have, so a refusal leaves them unknown: RDMA devices and vGPU profiles show whether a driver
# works.
NIC_GET = "network nic get"


def numa_nodes_of(
    content: vim.ServiceInstanceContent, hosts: Sequence[vim.HostSystem]
) -> list[Mapping[str, int]]:
    """NUMA node of each host's devices, in one call."""
    places: list[Mapping[str, int]] = []
    for properties in collect(content, hosts, ["hardware.numaInfo"]):
        numa = properties.get("hardware.numaInfo")
        numa_nodes = {}
        for node in (numa.numaNode if numa is not None else None) or ():
            for address in node.pciId or ():
                numa_nodes[str(address)] = int(node.typeId)
        places.append(numa_nodes)
    return places


def with_drivers(host: vim.HostSystem, name: str, nics: Sequence[Nic]) -> list[Nic]:
    """The NICs, with driver version and firmware of those that can be an uplink of PVRDMA.

    From 8.0 on, the NIC itself has both; on an older host esxcli reports them.
    """
    complete, answers = [], True
    for nic in nics:
        reported: dict[str, str] = {}
        if nic.rdma_device and not nic.driver_version and answers:
            try:
                rows = esxcli(host, name, NIC_GET, nicname=nic.name)
            except LabError:
                answers, rows = False, []  # the next call would be refused likewise
            reported = rows[0] if rows else {}
        complete.append(
            replace(
                nic,
                driver_version=nic.driver_version or reported.get("DriverInfo.Version", ""),
                firmware=nic.firmware or reported.get("DriverInfo.FirmwareVersion", ""),
            )
        )
    return complete


VIB_LIST = "software vib list"
NVIDIA = ("NVIDIA", "NVD")
"""Vendor names in packages."""


def _vgpu_driver(host: vim.HostSystem, name: str) -> str:
    """NVIDIA's host driver, whose package names change with every generation; empty: unknown."""
    try:
        packages = esxcli(host, name, VIB_LIST)
    except LabError:
        return ""
    drivers = []
    for package in packages:
        driver = package.get("Name", "")
        if package.get("Vendor") in NVIDIA and "nmlx" not in driver:
            drivers.append(f"{driver} {package.get('Version', '')}")
    return ", ".join(sorted(drivers))
