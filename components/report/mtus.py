"""A rail's chain of MTUs, from the switch to the queue pair. Pure."""

from collections.abc import Iterable, Mapping

from components.validation.store import RunDocument
from stacks.frozen import frozen
from stacks.words import some


@frozen
class MtuLink:
    """One part of a rail's chain of MTUs, from the switch to the queue pair."""

    rail: str
    what: str
    text: str
    """Empty: not known."""
    fault: str = ""
    """Why it cannot be right."""


def mtu_chains(document: RunDocument) -> list[tuple[MtuLink, ...]]:
    """Per rail: switch port, PF as declared and found, pods' VF, path MTU, and that in use."""
    return [
        _chain(document, declared.rail, declared.switch_mtu_bytes) for declared in document.rails
    ]


def _chain(document: RunDocument, name: str, switch: int | None) -> tuple[MtuLink, ...]:
    rail, record = document.plan.rail(name), document.record
    in_pods: Mapping[str, int] = {}
    for pod_rail in record.pods.rails if record.pods else ():
        if pod_rail.rail == name:
            in_pods = pod_rail.mtu_bytes
    measured_mtus = {}
    for end in rail.ends:
        facts = record.hosts.get(end.node)
        if facts and facts.mtu_bytes.get(end.interface):
            measured_mtus[end.node] = facts.mtu_bytes[end.interface]
    used = sorted(
        {t.path_mtu_bytes for t in record.transfers if t.rail == name and t.path_mtu_bytes}
    )
    small = ""
    if switch and switch < rail.mtu_bytes:
        small = f"smaller than the PF's {rail.mtu_bytes}"
    low = ""
    if used and used[0] < rail.path_mtu_bytes:
        low = f"{used[0]} where {rail.path_mtu_bytes} is expected"
    links = (
        ("switch port, declared", switch, small),
        ("PF, declared", rail.mtu_bytes, ""),
        ("PF, found", _range(measured_mtus.values()), _differs(measured_mtus, rail.mtu_bytes)),
        ("VF in pods", _range(in_pods.values()), _differs(in_pods, rail.mtu_bytes)),
        ("path MTU, expected", rail.path_mtu_bytes, ""),
        ("queue pairs used", _range(used), low),
    )
    chain = []
    for what, value, fault in links:
        chain.append(MtuLink(rail=name, what=what, text=str(value or ""), fault=fault))
    return tuple(chain)


def _differs(by_node: Mapping[str, int], expected: int) -> str:
    """The nodes with another MTU."""
    other = []
    for node, mtu in sorted(by_node.items()):
        if mtu != expected:
            other.append(f"{node}: {mtu}")
    return f"{some(other, 1)} differs" if other else ""


def _range(values: Iterable[int]) -> str:
    ordered = sorted(set(values))
    if not ordered:
        return ""
    return " to ".join(map(str, dict.fromkeys((ordered[0], ordered[-1]))))
