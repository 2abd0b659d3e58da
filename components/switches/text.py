"""A switch's configuration as text, to be applied by hand: pure, the same lab gives the
same bytes.
"""

import hashlib
from collections.abc import Iterator

from components.switches.dialect import Dialect, numbers_in
from components.switches.os import dialect_of
from components.switches.settings import Cable, cables_of
from stacks.base import LabError
from stacks.lab import Lab
from stacks.switches import Switch


def vlans_of(cables: tuple[Cable, ...]) -> list[int]:
    vlans = set()
    for cable in cables:
        settings = cable.settings
        if settings.mode is not None:
            vlans.update({settings.native_vlan or 1, *numbers_in(settings.tagged_vlans)})
    return sorted(vlans)


def chosen_switches(lab: Lab, name: str | None) -> list[Switch]:
    """The switch of that name; all of them without a name.

    Raises:
        LabError: when there is none.
    """
    chosen = [switch for switch in lab.switches if name in (None, switch.name)]
    if not chosen:
        names = ", ".join(switch.name for switch in lab.switches) or "none"
        raise LabError(f"switches: no {name or 'switch'} in this lab; it has: {names}")
    return chosen


def switch_text(lab: Lab, switch: Switch) -> str:
    """The whole text: the ports, the switch-wide block (a comment unless allowed), and commands to
    check it.
    """
    return "\n".join(_lines(lab, switch, dialect_of(switch))) + "\n"


def _lines(lab: Lab, switch: Switch, dialect: Dialect) -> Iterator[str]:
    sign = dialect.comment
    cables = cables_of(lab, switch)
    ports = [cable.port for cable in cables]
    session = dialect.session(lab.name, switch.confirm_s)
    quality = "QoS not configured"
    if lab.qos:
        quality = f"{lab.qos.mode} RoCE"
    yield f"{sign} {switch.name}: {dialect.title}, lab {lab.name}, {quality}"
    if requirements := dialect.requirements(lab.qos):
        yield f"{sign} before you paste this:"
        yield from (f"{sign}   {line}" for line in requirements)
    for note in session.notes:
        yield f"{sign} {note}"
    yield from (*session.hello, *session.begin)
    yield from dialect.vlan_lines(vlans_of(cables))
    yield from dialect.shared_lines(lab.name, [cable.settings for cable in cables])
    for cable in cables:
        yield f"{sign} {cable.node} {cable.interface}, {cable.rail.name}"
        fields = frozenset(cable.settings.fields()) - dialect.usual(cable.settings)
        yield from dialect.port_lines(lab.name, cable.port, cable.settings, fields)
    if lab.qos and (shared := dialect.global_lines(lab.qos)):
        if switch.allow_global:
            yield f"{sign} switch-wide, as allow_global permits"
            yield from shared
        else:
            yield f"{sign} switch-wide, and so left to you (allow_global is false):"
            yield from (f"{sign}   {line}" for line in shared)
    yield from (*session.commit, *session.end)
    last = (*session.confirm, *(session.save if switch.save else ()))
    if last:
        yield f"{sign} when it works:"
        yield from (f"{sign}   {line}" for line in last)
    yield f"{sign} look at:"
    yield from (f"{sign}   {line}" for line in dialect.checks(ports))


def digest_of(text: str) -> str:
    """The digest that a stack's output shows for a text."""
    return hashlib.sha256(text.encode()).hexdigest()
