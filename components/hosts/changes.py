"""What a preview says about hosts, and what it refuses: pure functions of old and new records."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from pydantic import JsonValue

from components.hosts.document import wanted_fields
from components.hosts.effects import WORDS, field_effect
from components.hosts.losses import Known, cost_of, known_of
from components.hosts.records import HostRecord
from stacks.words import some

LONGEST_VALUE = 60


def change_lines(
    olds: Mapping[str, HostRecord],
    news: Mapping[str, HostRecord],
    facts: Mapping[str, object] = MappingProxyType({}),
    now: datetime | None = None,
) -> Iterator[str]:
    """One line per host and changed field, `gpu01: enp5s0.mtu_bytes 9000 => 4200: link flaps`.

    Args:
        olds: the hosts as they were, or as they were seen.
        news: the hosts as they are wanted.
        facts: per host what it said of itself; see `losses`.
        now: against which the age of the facts is counted.
    """
    now = now or datetime.now(UTC)
    renamed = {new.formerly for new in news.values()}
    places = {(new.endpoint.address, new.endpoint.port): name for name, new in news.items()}
    for name, new in news.items():
        old = olds.get(name) or olds.get(new.formerly or "")
        if old is None:
            yield f"{name}: joins ({new.state})"
        else:
            if name not in olds:
                yield f"{name}: was {new.formerly}: no disruption"
            known = known_of(facts.get(name) or facts.get(new.formerly or ""))
            yield from (f"{name}: {line}" for line in _lines(old, new, known, now))
    for name, old in olds.items():
        if name not in news and name not in renamed:
            heir = places.get((old.endpoint.address, old.endpoint.port))
            unless = f", unless {heir} turns out to be the same machine" if heir else ""
            yield f"{name}: leaves: its VFs, links and files of ours are undone{unless}"


def reboots_refused(olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord]) -> Iterator[str]:
    """A text for each change that needs a reboot on a host that is configured already.

    Both sides are what was asked for. A deviation that was only seen never blocks a run.
    """
    for name, new in news.items():
        old = olds.get(name) or olds.get(new.formerly or "")
        if old is None or old.state != "active" or new.state != "active":
            continue
        before = _asked_for(old)
        for field, value in wanted_fields(new.document).items():
            if field in before and before[field] != value and field_effect(field) == "reboot":
                yield (
                    f"{name} needs a reboot ({field} {before[field]} => {value}) and hosts.allow_reboot is false; "
                    "set it to true, or take the change back"
                )


def _asked_for(record: HostRecord) -> dict[str, JsonValue]:
    try:
        return wanted_fields(record.document)
    except (KeyError, TypeError):  # written by another version of us
        return {}


def shorten(value: JsonValue) -> str:
    """A value on one line."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _lines(old: HostRecord, new: HostRecord, known: Known | None, now: datetime) -> Iterator[str]:
    if old.trouble:
        yield f"unknown ({old.trouble}) => {new.state}: looked at again"
    if old.state != new.state:
        yield f"state {old.state} => {new.state}: {_state_effect(new)}"
    if (old.endpoint.address, old.endpoint.port) != (new.endpoint.address, new.endpoint.port):
        where = f"{old.endpoint.address}:{old.endpoint.port} => {new.endpoint.address}:{new.endpoint.port}"
        yield f"reached at {where}: no disruption"
    if old.endpoint.host_key != new.endpoint.host_key:
        yield "another host key in known_hosts: no disruption"
    if old.endpoint.user != new.endpoint.user:
        yield f"logged in to as {old.endpoint.user} => {new.endpoint.user}: no disruption"
    if old.unfinished and old.fields == new.fields and not old.trouble:
        yield "the last run did not get to its end: goes on"
    if old.state == new.state == "active" and not old.trouble:
        for field in {**new.fields, **old.fields}:
            before, after = old.fields.get(field, "none"), new.fields.get(field, "none")
            if before != after:
                pf, _, what = field.rpartition(".")
                counts = what == "vfs" and isinstance(after, int)
                effect = cost_of(pf, before, int(str(after)), known, now) if counts else WORDS[field_effect(field)]
                yield f"{field} {_change(before, after)}: {effect}"


def _change(before: JsonValue, after: JsonValue) -> str:
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [
            f"[{i}] {one} => {other}" for i, (one, other) in enumerate(zip(before, after, strict=True)) if one != other
        ]
        return some(pairs, 2)
    return f"{shorten(before)} => {shorten(after)}"


def _state_effect(new: HostRecord) -> str:
    return {"active": "it is configured", "drained": "it is left alone", "absent": "everything of ours is undone"}[
        new.state
    ]
