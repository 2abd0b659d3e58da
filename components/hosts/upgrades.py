"""Versions that this program installs once and never raises by itself: a pure function of old and new records.

Firmware is not in the table: only its settings are ours, and no document has a version of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from components.hosts.records import HostRecord

MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Software:
    """Something that a host runs in a version of the lab's."""

    path: str
    """Where its section stands in a host's document."""
    setting: str
    """Where its version stands in the lab file."""
    field: str
    """What a host reports of it. A host that reports what is wanted now was upgraded by hand already."""
    installed: str
    """What its section has only when it is installed by us, rather than found and verified."""
    by_hand: str
    """What to do on each host, one after the other."""


DRAINED = "kubectl drain it, {}, kubectl uncordon it"
UPGRADES: tuple[Software, ...] = (
    Software(
        path="driver",
        setting="driver.version",
        field="driver",
        installed="packages",
        by_hand=DRAINED.format("install the driver as its vendor says, reboot"),
    ),
    Software(
        path="gpu.driver",
        setting="gpu.driver.version",
        field="gpu_driver",
        installed="packages",
        by_hand=DRAINED.format("install the driver, reboot"),
    ),
    Software(
        path="kubernetes",
        setting="cluster.bootstrap.version",
        field="kubernetes_packages",
        installed="repository",
        by_hand="control planes first: "
        + DRAINED.format("kubeadm upgrade apply (node on the others), install and hold kubelet and kubectl"),
    ),
)


def refused_upgrades(olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord]) -> Iterator[str]:
    """A text for each version that changed on hosts that run another one, with the steps to take by hand."""
    for software in UPGRADES:
        hosts: dict[tuple[str, str], list[str]] = {}
        for name, new in news.items():
            old = olds.get(name) or olds.get(new.formerly or "")
            if old is not None and (change := _change(software, old, new)):
                hosts.setdefault(change, []).append(name)
        for (before, after), names in hosts.items():
            yield (
                f"{_some(names)}: {software.setting} {before} => {after} is refused: nothing rolls an upgrade "
                f"over hosts at work yet. On each host: {software.by_hand}. Then pulumi up --refresh --run-program, "
                f"which finds {after} there and goes on; or take the change back"
            )


def _change(software: Software, old: HostRecord, new: HostRecord) -> tuple[str, str] | None:
    """Old and new version where it is ours to install, and the host has not got the new one yet."""
    if "absent" in (old.state, new.state):
        return None
    before, after = _section(old, software.path), _section(new, software.path)
    versions = before.get("version"), after.get("version")
    if None in versions or versions[0] == versions[1] or not after.get(software.installed):
        return None
    if old.fields.get(software.field) == new.fields.get(software.field):
        return None
    return str(versions[0]), str(versions[1])


def _section(record: HostRecord, path: str) -> Mapping[str, JsonValue]:
    place: JsonValue = record.document
    for step in path.split("."):
        place = place.get(step) if isinstance(place, dict) else None
    return place if isinstance(place, dict) else {}


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown
