"""Version changes that rocelab refuses: a pure function of old and new records.

It installs drivers and Kubernetes once and only compares firmware; you upgrade all of them by hand.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from components.hosts.records import HostRecord, record_before
from stacks.words import some

MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Software:
    """Software whose version the lab file names."""

    path: str
    """Path of its section in a host's document."""
    setting: str
    """The field of the lab file with its version."""
    field: str
    """The field that a host reports. A host that reports the new version was already upgraded by hand."""
    installed: str = ""
    """Key that its section has only when rocelab installs it; empty: rocelab always does."""
    per_pf: bool = False
    """Whether section and field have one version per PF."""
    by_hand: str
    """What to do on each host in turn."""


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
            old = record_before(olds, name, new)
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
    """Old and new version, where the lab file names both and the host does not run the new one yet."""
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
