"""The mark of all VFs: when it changes, device plugins restart, because they look for VFs only when they start. Pure.

It is the digest of the VFs in the lab file and, after a dot, how often VFs appeared later under the same digest: they
failed at first, or were lost and created again, so a plugin started too early although the lab file did not change.
"""

from collections.abc import Collection, Iterator, Mapping

from components.hosts.records import HostRecord, record_before

DOT = "."


def same_layout(one: object, other: object) -> bool:
    """Whether two marks mean the same VFs in the lab file."""
    return plain(one) == plain(other)


def plain(mark: object) -> str:
    """The digest alone, as in the inputs."""
    return str(mark).partition(DOT)[0]


def mark_after(old: object, target: object, came: bool) -> str:
    """The mark after a run.

    Args:
        old: the mark of the last run, if there was one.
        target: the digest of the lab file.
        came: whether VFs appeared that the last run had not found.
    """
    if old is None or not same_layout(old, target):
        return plain(target)
    count = int(str(old).partition(DOT)[2] or 0) + came
    return f"{plain(target)}{DOT}{count}" if count else plain(target)


def missed(seen: HostRecord | None, new: HostRecord) -> Iterator[str]:
    """The fields whose number of VFs differs from the target."""
    if seen is None or seen.state != "active" or new.state != "active" or seen.trouble:
        return
    yield from (field for field, value in _numbers(new) if seen.fields.get(field, value) != value)


def vfs_came(
    olds: Mapping[str, HostRecord], now: Mapping[str, HostRecord], found_wrong: Mapping[str, Collection[str]]
) -> bool:
    """Whether a host now has all VFs that the last run, or the start of this one, did not find.

    Args:
        olds: the hosts as they were last read.
        now: the hosts at the end of this run.
        found_wrong: per host the fields that deviated at the start of this run.
    """
    for name, record in now.items():
        old = record_before(olds, name, record)
        before = {*missed(old, record), *found_wrong.get(name, ())}
        right = (field for field, value in _numbers(record) if record.fields.get(field) == value)
        if record.state == "active" and not record.trouble and before.intersection(right):
            return True
    return False


def _numbers(record: HostRecord) -> Iterator[tuple[str, object]]:
    for field, value in record.target.items():
        if field.rpartition(DOT)[2] == "vfs":
            yield field, value
