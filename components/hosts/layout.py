"""The mark of all VFs, by which a device plugin knows that it has to look again. Pure.

It is the digest of what the lab asks for, and behind a dot how often VFs came under the same digest: on a host whose
VFs failed at first, or were lost and put back, the plugin has looked too early, and nothing in the lab file changed.
"""

from collections.abc import Collection, Iterator, Mapping

from components.hosts.document import wanted_fields
from components.hosts.records import HostRecord

DOT = "."


def same_layout(one: object, other: object) -> bool:
    """Whether two marks are of the same lab's VFs."""
    return plain(one) == plain(other)


def plain(mark: object) -> str:
    """The digest alone, as it stands among the inputs."""
    return str(mark).partition(DOT)[0]


def mark_after(old: object, wanted: object, came: bool) -> str:
    """The mark after a run.

    Args:
        old: that of the last run, if there was one.
        wanted: the digest that the lab gives.
        came: whether VFs came that the last run had not found.
    """
    if old is None or not same_layout(old, wanted):
        return plain(wanted)
    count = int(str(old).partition(DOT)[2] or 0) + came
    return f"{plain(wanted)}{DOT}{count}" if count else plain(wanted)


def missed(seen: HostRecord | None, new: HostRecord) -> Iterator[str]:
    """Fields of the numbers of VFs that were found other than they are wanted now."""
    if seen is None or seen.state != "active" or new.state != "active" or seen.trouble:
        return
    yield from (field for field, value in _numbers(new) if seen.fields.get(field, value) != value)


def vfs_came(
    olds: Mapping[str, HostRecord], now: Mapping[str, HostRecord], found_wrong: Mapping[str, Collection[str]]
) -> bool:
    """Whether a host has VFs as wanted that the last run, or the first look of this one, had not found so.

    Args:
        olds: the hosts as they were seen last.
        now: the hosts as they were seen at the end of this run.
        found_wrong: per host the fields that its first look found wrong.
    """
    for name, record in now.items():
        old = olds.get(name) or olds.get(record.formerly or "")
        before = {*missed(old, record), *found_wrong.get(name, ())}
        right = (field for field, value in _numbers(record) if record.fields.get(field) == value)
        if record.state == "active" and not record.trouble and before.intersection(right):
            return True
    return False


def _numbers(record: HostRecord) -> Iterator[tuple[str, object]]:
    for field, value in wanted_fields(record.document).items():
        if field.rpartition(DOT)[2] == "vfs":
            yield field, value
