"""Reads the facts of the preflight: all hosts in one call, all switches in a second."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from pyVmomi import vim, vmodl

from components.fabric.preflight.facts import (
    FabricFacts,
    HostFacts,
    HostPackages,
    MachineFacts,
    Pcie,
    SwitchFacts,
    VmkernelFacts,
)
from components.fabric.vcenter.client import RULESET, VCenter
from components.fabric.vcenter.esxcli import esxcli
from components.fabric.vcenter.nics import Nic, nics_of
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
"""Hosts read in parallel for what is no property: a vCenter serves some dozens of calls at a
time."""
COMPLIANCE = frozenset({"compliant", "nonCompliant", "running"})
"""States of a host with a host profile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What the survey reads."""

    datacenter: str
    cluster: str
    hosts: Sequence[str]
    privileges: Mapping[Where, Sequence[str]]
    """Privileges that `fabric.user` needs, by kind of object."""
    machines: bool
    """Whether to read VMs and templates, of which a vCenter may have thousands."""
    gpus: bool
    """Whether to read packages and PCIe devices of the hosts; packages need the privilege
    Host.Config.Image."""
    packages: Mapping[str, HostPackages] = field(default_factory=dict)
    """Packages by host from the last run; a host that has not restarted is not read again."""


def survey(vcenter: VCenter, scope: Scope) -> FabricFacts:
    """Facts of the named hosts, and of all switches of the datacenter.

    Raises:
        LabError: when there is no such datacenter or cluster.
    """
    content = vcenter.content
    place, _ = _entry(
        collect_all(content, vim.Datacenter, ["name"]), "datacenter", scope.datacenter
    )
    clusters = collect_all(content, vim.ComputeResource, ["name", "configManagerEnabled"], place)
    owner, cluster = _entry(clusters, "cluster", scope.cluster)
    host_names = set(scope.hosts)
    known_hosts = collect_all(content, vim.HostSystem, HOST_PATHS, place)
    rows = [host_row for host_row in known_hosts if host_row[1]["name"] in host_names]
    cards = pcie_of(content, [entity for entity, _ in rows]) if scope.gpus else [None] * len(rows)
    with ThreadPoolExecutor(ABREAST) as pool:
        hosts = list(pool.map(partial(_host, vcenter, scope), rows, cards))
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
        under_configuration_profile=bool(cluster.get("configManagerEnabled")),
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


def _vmkernel(nic: Any) -> VmkernelFacts:
    return VmkernelFacts(address=nic.spec.ip.ipAddress or "", mtu_bytes=nic.spec.mtu or 1500)


def _host(
    vcenter: VCenter, scope: Scope, row: tuple[vim.HostSystem, Found], cards: Pcie | None
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
    servers = clock.ntpConfig.server if clock is not None and clock.ntpConfig is not None else None
    build = product.build if product else ""
    model = f"{system.vendor} {system.model}".strip() if system else ""
    packages = (
        packages_of(entity, name, properties, scope.packages.get(name)) if scope.gpus else None
    )
    default_graphics = graphics.hostDefaultGraphicsType if graphics else ""
    gpu_graphics = {}
    for gpu in properties.get("config.graphicsInfo") or ():
        # not the management controller's display
        if "nvidia" in (gpu.vendorName or "").lower():
            gpu_graphics[gpu.pciId] = gpu.graphicsType or ""
    return HostFacts(
        name=name,
        maintenance=bool(properties.get("runtime.inMaintenanceMode")),
        version=version,
        build=build,
        model=model,
        nics=tuple(with_drivers(entity, name, nics)),
        vmkernels={nic.device: _vmkernel(nic) for nic in network.vnic or []},
        graphics=default_graphics,
        gpu_graphics=gpu_graphics,
        vgpu_profiles=frozenset(properties.get("config.sharedPassthruGpuTypes") or ()),
        packages=packages,
        pcie=cards or Pcie(),
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


def _lacking(
    content: vim.ServiceInstanceContent,
    places: Mapping[Where, Sequence[tuple[vim.ManagedEntity, str]]],
    privileges: Mapping[Where, Sequence[str]],
) -> dict[str, tuple[str, ...]]:
    """Privileges that `fabric.user` lacks, with the objects."""
    lacking: dict[str, list[str]] = defaultdict(list)
    login = known(content, "sessionManager.currentSession").key
    manager = known(content, "authorizationManager")
    for where, objects in places.items():
        required = list(privileges.get(where, ()))
        if not required or not objects:
            continue
        names = dict(objects)
        for answer in manager.HasPrivilegeOnEntities(list(names), login, required):
            for availability in answer.privAvailability:
                if not availability.isGranted:
                    lacking[availability.privId].append(names[answer.entity])
    return {privilege: tuple(sorted(objects)) for privilege, objects in lacking.items()}


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


def _entry(rows: Sequence[tuple[Any, Found]], what: str, name: str) -> tuple[Any, Found]:
    for entity, properties in rows:
        if properties["name"] == name:
            return entity, properties
    others = ", ".join(sorted(str(properties["name"]) for _, properties in rows)) or "none"
    raise LabError(
        f"fabric.{what}: the vCenter has no {name} that fabric.user may see; it has {others}"
    )


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


def pcie_of(content: vim.ServiceInstanceContent, hosts: Sequence[vim.HostSystem]) -> list[Pcie]:
    """PCIe placement of each host's devices, in one call; some hundred devices per host."""
    places = []
    for properties in collect(content, hosts, ["hardware.pciDevice", "hardware.numaInfo"]):
        places.append(
            _pcie(properties.get("hardware.pciDevice") or (), properties.get("hardware.numaInfo"))
        )
    return places


def _pcie(devices: Iterable[vim.host.PciDevice], numa: vim.host.NumaInfo | None) -> Pcie:
    nodes = (numa.numaNode if numa is not None else None) or ()
    return Pcie(
        bridges={device.id: device.parentBridge for device in devices if device.parentBridge},
        numa_nodes={address: int(node.typeId) for node in nodes for address in node.pciId or ()},
    )


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
SAME_START_S = 60
"""A host reports its start time by its own clock, which may shift by seconds; no server restarts
within a minute."""
LONGEST_DRIVER = 200
"""Characters kept of a driver's name and version."""


def packages_of(
    host: vim.HostSystem, name: str, properties: Mapping[str, Any], before: HostPackages | None
) -> HostPackages:
    """A host's packages, or those of the last run (`before`) if nothing indicates a change.

    A driver changes with a restart or in maintenance mode, so a host in that mode is always read.
    """
    product, booted = properties.get("config.product"), properties.get("runtime.bootTime")
    build = str(product.build or "") if product else ""
    booted_at = booted.isoformat() if booted else ""
    now = HostPackages(driver="", build=build, booted=booted_at)
    if (
        before is not None
        and not properties.get("runtime.inMaintenanceMode")
        and _unchanged(before, now)
    ):
        return before
    driver = _driver(host, name, properties.get("configManager.imageConfigManager"))[
        :LONGEST_DRIVER
    ]
    return HostPackages(driver=driver, build=now.build, booted=now.booted)


def _unchanged(before: HostPackages, now: HostPackages) -> bool:
    if not before.lasting or before.build != now.build or not now.booted:
        return False
    try:
        apart = datetime.fromisoformat(now.booted) - datetime.fromisoformat(before.booted)
    except (TypeError, ValueError):  # an edited state: no time, or one without a zone
        return False
    return abs(apart.total_seconds()) <= SAME_START_S


def _driver(host: vim.HostSystem, name: str, images: Any) -> str:
    """NVIDIA's host driver, whose package names change with every generation.

    `images` is the host's image manager; without the privilege Host.Config.Image, esxcli lists the
    packages.
    """
    if images is None:
        return ""
    try:
        packages = []
        for package in images.FetchSoftwarePackages():
            packages.append((package.vendor, package.name, package.version))
    except TimeoutError:
        return ""  # too busy for this means too busy for esxcli
    except vmodl.MethodFault:
        packages = _listed(host, name)
    drivers = []
    for vendor, driver, version in packages:
        if vendor in NVIDIA and "nmlx" not in driver:
            drivers.append((driver, version))
    return ", ".join(f"{driver} {version}" for driver, version in sorted(drivers))


def _listed(host: vim.HostSystem, name: str) -> list[tuple[str, str, str]]:
    try:
        rows = esxcli(host, name, VIB_LIST)
    except LabError:
        return []
    return [(row.get("Vendor", ""), row.get("Name", ""), row.get("Version", "")) for row in rows]


MELLANOX = 0x15B3
INFINIBAND, ETHERNET = 0x0207, 0x0200
"""PCI classes of network controllers: a VPI adapter's port has the class of its port type."""
WHY_NO_VMNIC = {
    INFINIBAND: (
        "its port type is InfiniBand, for which ESXi creates no NIC; set it to Ethernet "
        "(mlxconfig: LINK_TYPE_P1=2, or P2 for the second port), and reboot"
    ),
    ETHERNET: (
        "it is passed through to VMs, or the ESXi host's driver did not claim it; look for it in "
        "vmkernel.log"
    ),
}


def without_vmnic(vcenter: VCenter, hosts: Sequence[HostFacts]) -> Iterator[str]:
    """A sentence per Mellanox port without a vmnic, on hosts without an uplink."""
    entities = [vcenter.host(host.name) for host in hosts]
    for host, properties in zip(
        hosts, collect(vcenter.content, entities, ["hardware.pciDevice"]), strict=True
    ):
        known = {nic.pci for nic in host.nics}
        for port, kind in portless(properties.get("hardware.pciDevice") or (), known):
            yield f"{host.name}: the Mellanox port at {port} has no vmnic: {WHY_NO_VMNIC[kind]}"


def portless(
    devices: Iterable[vim.host.PciDevice], nics: Collection[str]
) -> Iterator[tuple[str, int]]:
    """Address and class of each Mellanox port that is none of these NICs."""
    for device in devices:
        # the API's short is signed; VFs belong to VMs, and have no vmnic either
        if (
            device.vendorId & 0xFFFF == MELLANOX
            and device.id not in nics
            and "Virtual" not in (device.deviceName or "")
        ):
            kind = device.classId & 0xFFFF
            if kind in WHY_NO_VMNIC:
                yield str(device.id), kind
