"""Versions that this program never raises by itself: a pure function of old and new records.

Drivers and Kubernetes it installs once; firmware it only compares, and the way to another version is as much by hand.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from components.hosts.records import HostRecord
from stacks.words import some

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
    installed: str = ""
    """What its section has only when it is installed by us, rather than found and verified; empty: every section."""
    per_pf: bool = False
    """Its section has a version for each PF, and its field is one of each."""
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
    Software(
        path="firmware_versions",
        setting="firmware.version",
        field="firmware_version",
        per_pf=True,
        by_hand=DRAINED.format("flash the vendor's image for the card's PSID (mstflint -i IMAGE burn), cold boot"),
    ),
)


def refused_upgrades(olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord]) -> Iterator[str]:
    """A text for each version that changed on hosts that run another one, with the steps to take by hand."""
    for software in UPGRADES:
        hosts: dict[tuple[str, str], list[str]] = {}
        for name, new in news.items():
            old = olds.get(name) or olds.get(new.formerly or "")
            for change in sorted(_changes(software, old, new)) if old is not None else ():
                hosts.setdefault(change, []).append(name)
        for (before, after), names in hosts.items():
            yield (
                f"{some(names, MOST_NAMED)}: {software.setting} {before} => {after} is refused: "
                f"nothing rolls an upgrade over hosts at work yet. On each host: {software.by_hand}. "
                f"Then pulumi up --refresh --run-program, which finds {after} there and goes on; "
                "or take the change back"
            )


def _changes(software: Software, old: HostRecord, new: HostRecord) -> set[tuple[str, str]]:
    """Old and new version where both are the lab's, and the host has not got the new one yet."""
    if "absent" in (old.state, new.state) or not _is_ours(software, new):
        return set()
    before, after = _versions(software, old), _versions(software, new)
    return {
        (before[field], after[field])
        for field in before.keys() & after.keys()
        if before[field] != after[field] and old.fields.get(field) != new.fields.get(field)
    }


def _is_ours(software: Software, record: HostRecord) -> bool:
    return not software.installed or bool(_section(record, software.path).get(software.installed))


def _versions(software: Software, record: HostRecord) -> dict[str, str]:
    """Version by the field that reports it."""
    section = _section(record, software.path)
    if software.per_pf:
        return {f"{pf}.{software.field}": str(version) for pf, version in section.items()}
    if section.get("version") is None:
        return {}
    return {software.field: str(section["version"])}


def _section(record: HostRecord, path: str) -> Mapping[str, JsonValue]:
    place: JsonValue = record.document
    for step in path.split("."):
        place = place.get(step) if isinstance(place, dict) else None
    return place if isinstance(place, dict) else {}
