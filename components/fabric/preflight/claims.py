"""Whether names and addresses that a lab gives in a vCenter are free, or there to be adopted. Pure."""

from collections.abc import Iterator, Sequence

from components.fabric.preflight.facts import FabricFacts, SwitchFacts
from components.fabric.preflight.releases import release_of
from components.fabric.vcenter.objects import older
from stacks.fabric import DistributedSwitch


def names_made(switches: Sequence[DistributedSwitch]) -> list[str]:
    """What a run makes under a name that has to be free, as `switch/port group`; it stays ours from then on."""
    made = [switch.name for switch in switches if switch.use == "create"]
    made += [f"{switch.name}/{switch.port_group}" for switch in switches if switch.group_use == "create"]
    return sorted(made)


def adapters_made(switches: Sequence[DistributedSwitch]) -> list[str]:
    """The vmkernel adapters that a run makes, as `host: address`; they stay ours from then on."""
    return sorted(_adapter(host, address) for host, address in _new_adapters(switches))


def refused_adapters(switches: Sequence[DistributedSwitch], facts: FabricFacts, ours: frozenset[str]) -> Iterator[str]:
    """A sentence for each adapter whose address one has already that is not ours: a host would answer twice for it.

    Args:
        switches: what the lab asks for.
        facts: what there is.
        ours: the adapters that an earlier run of this stack has set out to make.
    """
    there = [
        (host.name, vmk, found.address)
        for host in facts.hosts.values()
        for vmk, found in host.vmkernels.items()
        if _adapter(host.name, found.address) not in ours
    ]
    for name, address in _new_adapters(switches):
        for owner, vmk, taken in there:
            if taken != address:
                continue
            if owner == name:
                yield taken_address(name, vmk, address)
            else:
                yield f"{name}: its new vmkernel adapter is to get {address}, which {vmk} of {owner} has: take another"


def taken_address(host: str, vmk: str, address: str) -> str:
    """What is said of an address that the host has, on an adapter that the stack knows nothing of."""
    return (
        f"{host}: {vmk} has {address} already, and is not this stack's: vmkernel: {{existing: {vmk}}} in place of the "
        f"address takes it as it is; or remove {vmk} there, or give another address"
    )


def _new_adapters(switches: Sequence[DistributedSwitch]) -> Iterator[tuple[str, str]]:
    for switch in switches:
        for host in switch.hosts:
            if host.vmkernel is not None and host.vmkernel.address is not None:
                yield host.name, str(host.vmkernel.address.ip)


def _adapter(host: str, address: str) -> str:
    return f"{host}: {address}"


def refused_names(switches: Sequence[DistributedSwitch], facts: FabricFacts, ours: frozenset[str]) -> Iterator[str]:
    """A sentence for each name that is taken by somebody else, or missing.

    Args:
        switches: what the lab asks for.
        facts: what there is.
        ours: what an earlier run of this stack has set out to make.
    """
    for switch in switches:
        existing = facts.switches.get(switch.name)
        if switch.use == "create":
            if existing is not None and switch.name not in ours:
                yield (
                    f"distributed switch {switch.name} exists and is not this stack's: use: adopt takes it over as it "
                    "is, use: reference only uses it; or choose another name"
                )
        elif existing is None:
            others = ", ".join(sorted(facts.switches)) or "none"
            yield f"distributed switch {switch.name} is to be {_past(switch.use)}, and there is none; there is {others}"
        yield from _group(switch, existing, facts, ours)


def _group(
    switch: DistributedSwitch, existing: SwitchFacts | None, facts: FabricFacts, ours: frozenset[str]
) -> Iterator[str]:
    groups = existing.port_groups if existing is not None else {}
    if switch.group_use == "create":
        if switch.port_group in facts.networks and f"{switch.name}/{switch.port_group}" not in ours:
            yield (
                f"network {switch.port_group} exists and is not this stack's: port_group_use: adopt takes it over "
                f"where it belongs to {switch.name}, reference only uses it; or choose another name"
            )
    elif existing is not None and switch.port_group not in groups:
        yield (
            f"port group {switch.port_group} is to be {_past(switch.group_use)}, and {switch.name} has none of that "
            f"name; it has {', '.join(sorted(groups)) or 'none'}"
        )
    elif switch.group_use == "reference" and switch.declared("vlan_id") and existing is not None:
        found = groups[switch.port_group]
        if found != switch.vlan_id:
            yield (
                f"port group {switch.port_group} has {_vlan(found)}, the lab says {switch.vlan_id}: mend the lab, "
                "or port_group_use: adopt sets it"
            )


def refused_mtus(switches: Sequence[DistributedSwitch], facts: FabricFacts) -> Iterator[str]:
    """A sentence for each switch that is only looked up, and is not what the lab says of it."""
    for switch in switches:
        existing = facts.switches.get(switch.name)
        if switch.use == "reference" and existing is not None and existing.mtu_bytes < switch.mtu_bytes:
            yield (
                f"distributed switch {switch.name} has an MTU of {existing.mtu_bytes}, less than the "
                f"{switch.mtu_bytes} of the lab: raise it there, or use: adopt sets it"
            )


def refused_versions(switches: Sequence[DistributedSwitch], facts: FabricFacts) -> Iterator[str]:
    """A sentence for each adopted switch that is newer than the lab declares it."""
    for switch in switches:
        existing = facts.switches.get(switch.name)
        if switch.use != "adopt" or not switch.declared("version") or existing is None:
            continue
        now, wanted = release_of(existing.version), release_of(switch.version)
        if now and wanted and now > wanted:
            yield older(switch.name, existing.version, switch.version)


def _past(use: str) -> str:
    return "adopted" if use == "adopt" else "referenced"


def _vlan(number: int | None) -> str:
    return "a trunk or private VLAN" if number is None else f"VLAN {number}"
