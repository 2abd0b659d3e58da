"""The MTUs of a rail from the switch to the queue pair, each as far as it is known. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from components.report.material import RailMtu
from components.validation.records import RunRecord
from stacks.words import some


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One part of the chain."""

    rail: str
    what: str
    text: str
    """Empty: not known."""
    fault: str = ""
    """Why it cannot be right."""


def chain_of(rail: RailMtu, record: RunRecord | None) -> tuple[Link, ...]:
    """Switch port, PF as declared and as found, pod's VF, expected path MTU, and what the queue pairs used."""
    found = _found(rail, record)
    used = sorted(
        {t.path_mtu_bytes for t in record.transfers if t.rail == rail.rail and t.path_mtu_bytes} if record else ()
    )
    narrow = rail.switch is not None and rail.pf is not None and rail.switch < rail.pf
    low = {node: mtu for node, mtu in found.items() if rail.pf is not None and mtu != rail.pf}
    short = [mtu for mtu in used if rail.path is not None and mtu < rail.path]
    wide = rail.pod is not None and rail.pf is not None and rail.pod > rail.pf
    return (
        _link(rail, "switch port, declared", _text(rail.switch), f"smaller than the PF's {rail.pf}" if narrow else ""),
        _link(rail, "PF, declared", _text(rail.pf)),
        _link(rail, "PF, found", _range(found.values()), f"{_first(low)} differs" if low else ""),
        _link(rail, "VF in pods", _text(rail.pod), f"larger than the PF's {rail.pf}" if wide else ""),
        _link(rail, "path MTU, expected", _text(rail.path)),
        _link(rail, "queue pairs used", _range(used), f"{short[0]} where {rail.path} is expected" if short else ""),
    )


def _found(rail: RailMtu, record: RunRecord | None) -> dict[str, int]:
    """The MTU of each node's PF as it was found when the run began."""
    hosts = record.hosts if record else {}
    return {
        node: facts.mtu_bytes[interface]
        for node, facts in hosts.items()
        if (interface := rail.interfaces.get(node)) in facts.mtu_bytes and interface is not None
    }


def _link(rail: RailMtu, what: str, text: str, fault: str = "") -> Link:
    return Link(rail=rail.rail, what=what, text=text, fault=fault)


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _range(values: Iterable[int]) -> str:
    ordered = sorted(set(values))
    return "" if not ordered else " to ".join(map(str, dict.fromkeys((ordered[0], ordered[-1]))))


def _first(found: dict[str, int]) -> str:
    return some([f"{node}: {mtu}" for node, mtu in sorted(found.items())], 1)
