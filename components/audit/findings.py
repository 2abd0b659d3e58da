"""What an audit says: findings and their evidence, what was waived, what was not checked."""

from collections import Counter
from collections.abc import Iterator
from enum import IntEnum

from stacks.frozen import frozen


class Severity(IntEnum):
    """From the worst to the mildest."""

    CRITICAL = 0
    """Jobs hang or fail, or hosts disturb each other."""
    HIGH = 1
    """Packets are lost, or a job runs far below the speed of the hardware."""
    MEDIUM = 2
    """Speed or safety is lost under some load, or after the next reboot."""
    LOW = 3
    """Jitter, or a setting that differs from good practice."""

    @property
    def word(self) -> str:
        """As options and documents write it."""
        return self.name.lower()


@frozen
class AuditFault:
    """One value at one place that is not as it should be."""

    node: str
    """Host or switch; empty for what belongs to the whole cluster."""
    part: str = ""
    """The interface, port or resource."""
    actual: str
    expected: str
    source: str
    """File or command."""
    at: str = ""
    """Time of the look at this host, RFC 3339."""


Faults = Iterator[AuditFault]
"""What a check finds."""


@frozen
class AuditFinding:
    """The same fault on any number of hosts."""

    code: str
    severity: Severity
    places: tuple[tuple[str, str], ...]
    """Node and part."""
    actual: str
    expected: str
    source: str
    """Of the first place, as the next one."""
    at: str

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node once."""
        return tuple(dict.fromkeys(node for node, _ in self.places if node))


@frozen
class Waived:
    """A finding that a waiver accepts until a day."""

    finding: AuditFinding
    reason: str
    expires: str


@frozen
class NotChecked:
    """Places where a check had no value to judge."""

    code: str
    reason: str
    nodes: tuple[str, ...]


@frozen
class Audit:
    """All that an audit says, the worst first."""

    name: str
    """Of the lab, empty without a lab file."""
    looked: tuple[str, str]
    """First and last time of the looks at the hosts."""
    since: str
    """When the earlier look began; empty without one."""
    hosts: int
    """How many were read."""
    drained: tuple[str, ...]
    """Hosts that are drained in the lab file; no check judges them."""
    findings: tuple[AuditFinding, ...]
    waived: tuple[Waived, ...]
    expired: tuple[str, ...]
    """Waivers whose day has passed, in words."""
    not_checked: tuple[NotChecked, ...]
    unread: tuple[tuple[str, str], ...]
    """Hosts, switches and clusters that could not be read, with the reason."""

    @property
    def worst(self) -> Severity | None:
        """The highest severity; None when nothing was found."""
        return min((finding.severity for finding in self.findings), default=None)

    @property
    def counts(self) -> dict[Severity, int]:
        """How many findings there are of each severity that has any, the worst first."""
        counted = Counter(finding.severity for finding in self.findings)
        return dict(sorted(counted.items()))
