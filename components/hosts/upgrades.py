"""Version changes that rocelab refuses in a preview: a pure function of old and new records.

It installs drivers and Kubernetes once and only compares firmware; you upgrade all of them by hand.
"""

from collections.abc import Iterator, Mapping

from components.hosts.program.steps import STEPS, changed_versions
from components.hosts.records import HostRecord, record_before
from stacks.words import some

MOST_NAMED = 3


def refused_upgrades(olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord]) -> Iterator[str]:
    """A text for each version that changed on hosts that run another one, with the steps to take by hand."""
    pairs = [(name, record_before(olds, name, new), new) for name, new in news.items()]
    for step in STEPS:
        hosts: dict[tuple[str, str], list[str]] = {}
        for name, old, new in pairs:
            if old is None or "absent" in (old.state, new.state):
                continue
            changed = changed_versions(step, old.document, new.document)
            # a host that reports the new version was upgraded by hand already
            lacking = {(was, asked) for key, was, asked in changed if old.fields.get(key) != new.fields.get(key)}
            for change in sorted(lacking):
                hosts.setdefault(change, []).append(name)
        for (before, after), names in hosts.items():
            yield (
                f"{some(names, MOST_NAMED)}: {step.version_setting} {before} => {after} is refused: "
                f"nothing rolls an upgrade over hosts at work yet. On each host: {step.upgrade}. "
                f"Then pulumi up --refresh --run-program, which finds {after} there and goes on; "
                "or take the change back"
            )
