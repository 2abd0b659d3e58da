"""Judges ESXi hosts and switches before anything is changed.

A fault makes PVRDMA fail or silently fall back to TCP, or would interrupt the run. Everything else,
such as ESXi hosts that differ, makes results hard to compare and is a warning. Pure: facts in,
sentences out.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network

from components.fabric.preflight.facts import (
    ACROSS,
    FabricFacts,
    HostFacts,
    joins,
    newest_switch,
    release_of,
)
from components.fabric.vcenter.client import RULESET
from components.fabric.vcenter.nics import Nic, choose, refuse_without_rdma
from components.fabric.vcenter.objects import unswapped
from stacks.base import LabError
from stacks.fabric import DistributedSwitch, EsxiHost
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.words import some

OLDEST = (6, 5, 0)
"""vSphere's first release with PVRDMA."""
WORKING = ("active", "unknown")
"""Prefixes of the states of an RDMA device that is not known to be down, such as `activeDefer`."""
SHARED_DIRECT = "sharedDirect"
"""ESXi's name for the graphics type that vGPUs need; the client calls it Shared Direct."""


@frozen
class Verdict:
    faults: tuple[str, ...]
    warnings: tuple[str, ...]
    hosts: Mapping[str, str]
    """A line for each host: what it is, and its uplink."""


def judge(
    switches: Sequence[DistributedSwitch],
    facts: FabricFacts,
    rail_mtu_bytes: Mapping[str, int],
    vgpu: frozenset[str],
) -> Verdict:
    """Judges all hosts of the switches.

    Args:
        switches: as the lab declares them.
        facts: what exists.
        rail_mtu_bytes: MTU by rail.
        vgpu: the hosts that may get a VM with a vGPU.
    """
    faults: list[str] = list(_cluster(facts))
    warnings: list[str] = []
    lines: dict[str, str] = {}
    taken: dict[tuple[str, str], list[str]] = {}
    for switch in switches:
        chosen: dict[str, tuple[HostFacts, Nic]] = {}
        for declared in switch.hosts:
            host = facts.hosts.get(declared.name)
            if host is None or not host.connected:
                faults.append(f"{declared.name}: {_absent(host)}")
                continue
            lines[host.name] = _line(host)
            try:
                nic = _uplink(switch, declared, host, facts)
            except LabError as error:
                faults.append(str(error))
                continue
            chosen[host.name] = (host, nic)
            warnings += _far(switch, host, nic) if host.name in vgpu else ()
            lines[host.name] = _line(host, nic)
            faults += _path(switch, host, nic, rail_mtu_bytes[switch.rail])
        warnings += unlike(switch.name, chosen, vgpu)
        for name, (_, nic) in chosen.items():
            taken.setdefault((name, nic.name), []).append(switch.name)
    faults += _nics_of_two_switches(taken)
    for host in facts.hosts.values():
        if host.connected:
            faults += _host(host, needs_vgpu=host.name in vgpu)
            warnings += _oddities(host)
    warnings += _vmkernels(switches, facts, rail_mtu_bytes)
    warnings += blocked(switches, facts)
    return Verdict(faults=_once(faults), warnings=_once(warnings), hosts=lines)


def _nics_of_two_switches(switches_of: Mapping[tuple[str, str], list[str]]) -> Iterator[str]:
    for (host, nic), names in switches_of.items():
        if len(names) > 1:
            yield (
                f"{host}: {nic} would be the uplink of {' and '.join(names)}, but a NIC belongs "
                "to one switch; set uplink.name or uplink.mac for each"
            )


def _cluster(facts: FabricFacts) -> Iterator[str]:
    if facts.under_configuration_profile:
        yield (
            "vSphere Configuration Profiles would undo Net.PVRDMAVmknic and the pvrdma ruleset; "
            "add both to the cluster's profile, or use a cluster without one"
        )


def _absent(host: HostFacts | None) -> str:
    if host is None:
        return "fabric.user sees no such host; correct its name in fabric.switches"
    return "is not connected to the vCenter; reconnect it, or remove it from fabric.switches"


def _uplink(
    switch: DistributedSwitch, declared: EsxiHost, host: HostFacts, facts: FabricFacts
) -> Nic:
    name, choice, rdma = declared.name, declared.uplink or switch.uplink, switch.carries_pvrdma
    if switch.use == "create":
        return choose(name, host.nics, choice, switch.name, rdma=rdma)
    existing = facts.switches.get(switch.name)
    members = existing.members if existing is not None else {}
    nics = [nic for nic in map(host.nic, members.get(name, ())) if nic is not None]
    if len(nics) < 2 and switch.use == "adopt":
        nic = choose(name, host.nics, choice, switch.name, rdma=rdma)
        if nics and nics[0].name != nic.name:
            raise LabError(f"{name}: {unswapped(switch.name, nics[0].name, nic.name)}")
        return nic
    if len(nics) != 1:
        raise LabError(
            f"{name}: has {len(nics)} uplinks on {switch.name}, but PVRDMA needs exactly one; "
            "correct that in vCenter, or remove the host from the lab"
        )
    if rdma:
        refuse_without_rdma(name, nics[0])
    return nics[0]


def _path(switch: DistributedSwitch, host: HostFacts, nic: Nic, mtu_bytes: int) -> Iterator[str]:
    newest = newest_switch(host.version)  # none: it has no PVRDMA at all, which _host reports
    if (
        newest
        and (switch.use == "create" or switch.declared("version"))
        and not joins(host.version, switch.version)
    ):
        yield (
            f"{host.name}: ESXi {host.version} cannot join {switch.name} of version "
            f"{switch.version}; set version {newest}, or remove the host"
        )
    if not nic.speed_mbit:
        yield (
            f"{host.name}: {nic.name}, its uplink on {switch.name}, has no link; check cable, "
            "switch port, and a VPI adapter's port type"
        )
    elif switch.carries_pvrdma and nic.rdma_state and not nic.rdma_state.startswith(WORKING):
        yield (
            f"{host.name}: {nic.rdma_device} of {nic.name}, its uplink on {switch.name}, is "
            f"{nic.rdma_state} and not active, so PVRDMA would fall back to TCP; see the host's "
            "vmkernel.log"
        )
    announced = host.neighbour_mtu_bytes.get(nic.name)
    if announced is not None and announced < mtu_bytes:
        yield (
            f"{host.name}: the physical switch at {nic.name} announces an MTU of {announced}, less "
            f"than the {mtu_bytes} of {switch.rail}; raise it on the port"
        )


def _host(host: HostFacts, *, needs_vgpu: bool) -> Iterator[str]:
    release = release_of(host.version)
    if release is not None and release < OLDEST:
        yield f"{host.name}: ESXi {host.version} has no PVRDMA; upgrade to 6.5 or newer"
    if host.under_profile:
        yield (
            f"{host.name}: its host profile would undo rocelab's settings at the next "
            "remediation; add them to it, or detach it"
        )
    if needs_vgpu and not host.vgpu_profiles:
        yield (
            f"{host.name}: offers no vGPU, but a VM needs one; install NVIDIA's host driver "
            "(VIB), set Host Graphics to Shared Direct, and reboot"
        )
    if needs_vgpu and host.graphics not in (SHARED_DIRECT, ""):
        yield (
            f"{host.name}: its graphics type is {host.graphics}, but vGPUs need {SHARED_DIRECT}; "
            "set Host Graphics to Shared Direct, and restart Xorg or reboot"
        )


def _oddities(host: HostFacts) -> Iterator[str]:
    if host.maintenance:
        yield f"{host.name}: is in maintenance mode, so no VM starts there"
    if not host.ntp_servers:
        yield f"{host.name}: has no NTP server, so its clock and logs drift; set one"
    elif not host.ntp_running:
        yield f"{host.name}: ntpd is stopped although servers are set; start it with the host"


def _vmkernels(
    switches: Sequence[DistributedSwitch], facts: FabricFacts, rail_mtu_bytes: Mapping[str, int]
) -> Iterator[str]:
    for switch in switches:
        mtu_bytes = rail_mtu_bytes[switch.rail]
        for declared in switch.hosts:
            host, vmkernel = facts.hosts.get(declared.name), declared.vmkernel
            if host is None or vmkernel is None or vmkernel.use == "adopt":
                continue
            there = host.vmkernels.get(vmkernel.existing or "")
            if there and there.mtu_bytes < mtu_bytes:
                yield (
                    f"{host.name}: {vmkernel.existing} has an MTU of {there.mtu_bytes}, the rail "
                    f"{mtu_bytes}"
                )


def _far(switch: DistributedSwitch, host: HostFacts, nic: Nic) -> Iterator[str]:
    if host.gpus and host.gpu_ways(nic) == [ACROSS] * len(host.gpus):
        yield (
            f"{host.name}: {nic.name}, its uplink on {switch.name}, is on another NUMA node than "
            f"GPU {some(host.gpus, 3)}, which slows vGPU VMs; choose a NIC on the GPUs' node"
        )


def _line(host: HostFacts, nic: Nic | None = None) -> str:
    line = f"ESXi {host.version} build {host.build}"
    if nic is None:
        return line
    uplink = f"{nic.name} {nic.driver} {nic.driver_version}".rstrip()
    line += f", {uplink} at {nic.pci} {nic.speed_mbit} Mbit/s"
    gpus = host.gpus_from(nic)
    return f"{line}, GPUs: {gpus}" if gpus else line


def _once(sentences: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentences))


Kinds = Callable[[HostFacts, Nic], str]

ALIKE: Mapping[str, Kinds] = {
    "ESXi": lambda host, _: f"{host.version} build {host.build}",
    "model": lambda host, _: host.model,
    "driver of the uplink": lambda _, nic: nic.driver,
    "driver version of the uplink": lambda _, nic: nic.driver_version,
    "firmware of the uplink": lambda _, nic: nic.firmware,
    "link speed of the uplink": lambda _, nic: f"{nic.speed_mbit} Mbit/s",
    "PCIe placement of the uplink": lambda _, nic: nic.pci,
    "vGPU driver": lambda host, _: host.vgpu_driver,
    "graphics type": lambda host, _: host.graphics,
}
ALIKE_WITH_GPUS: Mapping[str, Kinds] = {
    "PCIe placement of the GPUs": lambda host, _: ", ".join(host.gpus),
    "way from the uplink to the GPUs": lambda host, nic: host.gpus_from(nic),
}
"""Compared only between ESXi hosts that may get a VM with a vGPU; GPUs of other ESXi hosts may
differ."""


def unlike(
    switch: str, chosen: Mapping[str, tuple[HostFacts, Nic]], vgpu: Collection[str]
) -> Iterator[str]:
    """What differs between the hosts of a switch, with the hosts per value, the rarest value first.

    Args:
        switch: its name, for the sentence.
        chosen: each host with its uplink on that switch.
        vgpu: the hosts that may get a VM with a vGPU.
    """
    yield from _differing(switch, ALIKE, chosen)
    yield from _differing(
        switch, ALIKE_WITH_GPUS, {name: uplink for name, uplink in chosen.items() if name in vgpu}
    )


def _differing(
    switch: str, alike: Mapping[str, Kinds], chosen: Mapping[str, tuple[HostFacts, Nic]]
) -> Iterator[str]:
    for what, kind in alike.items():
        groups: dict[str, list[str]] = defaultdict(list)
        for name, (host, nic) in chosen.items():
            groups[kind(host, nic)].append(name)
        if len(groups) > 1:
            ordered = sorted(groups.items(), key=lambda group: (len(group[1]), group[0]))
            listed = "; ".join(
                f"{value or 'none or not reported'} on {some(names, 3)}" for value, names in ordered
            )
            yield f"{switch}: {what} is not the same on all hosts: {listed}"


def blocked(switches: Sequence[DistributedSwitch], facts: FabricFacts) -> Iterator[str]:
    """Hosts whose allow list lacks vmkernel adapters of others: an open ruleset still blocks."""
    for switch in switches:
        addresses = _vmkernel_addresses(switch.hosts, facts)
        for name in addresses:
            host = facts.hosts.get(name)
            if host is None or host.pvrdma_allows is None:
                continue
            out = []
            for peer, address in addresses.items():
                if peer != name and not within(address, host.pvrdma_allows):
                    out.append(f"{peer} ({address})")
            if out:
                yield (
                    f"{name}: its firewall ruleset {RULESET} allows "
                    f"{', '.join(host.pvrdma_allows) or 'nothing'}, but not {some(out, 3)}; add "
                    f"the network (esxcli network firewall ruleset allowedip add -r {RULESET} -i "
                    "...), or allow all"
                )


def _vmkernel_addresses(hosts: Sequence[EsxiHost], facts: FabricFacts) -> Mapping[str, str]:
    """Address of PVRDMA's vmkernel adapter by host, where it is known before the run."""
    addresses: dict[str, str] = {}
    for host in hosts:
        if host.vmkernel is None:
            continue
        if host.vmkernel.address is not None:
            addresses[host.name] = str(host.vmkernel.address.ip)
        elif host.name in facts.hosts and (
            there := facts.hosts[host.name].vmkernels.get(host.vmkernel.existing or "")
        ):
            addresses[host.name] = there.address
    return {name: address for name, address in addresses.items() if address}


def within(address: str, listed: Sequence[str]) -> bool:
    """Whether a list of addresses and networks contains the address."""
    return any(ip_address(address) in ip_network(network, strict=False) for network in listed)


def unlossless(lab: Lab) -> Iterator[str]:
    """A warning if nothing in the lab makes the network between ESXi hosts lossless.

    PVRDMA requires a lossless layer 2 ("vSphere Networking" 6.5, on PVRDMA). No API reports what
    the HCA's driver on a host does, so the warning names it. The simulator carries no frame of an
    ESXi host.
    """
    switches = lab.fabric.switches if lab.fabric is not None else ()
    pvrdma = any(switch.carries_pvrdma for switch in switches)
    if (
        lab.simulated
        or not pvrdma
        or (lab.switches and lab.qos is not None and lab.qos.mode == "lossless")
    ):
        return
    yield (
        "PVRDMA needs a lossless network, but this lab configures none (switches and qos.mode: "
        "lossless); enable flow control on the switches and on each ESXi host's HCA (nmlx5_core: "
        "pfctx and pfcrx)"
    )
