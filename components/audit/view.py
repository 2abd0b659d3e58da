"""What a check sees: the fleet, and a record of the unknown values that it needed."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from components.audit.findings import AuditFault, Faults
from components.audit.fleet import AuditFleet, AuditUplink, Place, Port
from components.inventory.model import Cluster, Pf
from components.inventory.reading import Reading
from stacks.sets import folded_places

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
P = TypeVar("P", bound=Place)

NO_CLUSTER = "no cluster in the inventory"
NO_EARLIER = "no earlier inventory of this port: --since FILE"
REBOOTED = "the host has rebooted since the earlier inventory, which reset its counters"
IDLE = "no traffic between the two inventories, which proves nothing"
IDLE_BYTES = 1_000_000
TRAFFIC = ("rx_bytes_phy", "rx_vport_rdma_unicast_bytes")


class View:
    """One check's view of the fleet."""

    def __init__(self, fleet: AuditFleet) -> None:
        self.fleet, self.lab = fleet, fleet.lab
        self.ports, self.places = fleet.ports, fleet.places
        self.unknown: dict[str, set[str]] = {}
        """Nodes by the reason why a value is unknown there."""

    def read(self, node: str, reading: Reading[T]) -> T | None:
        """The value; None where it is unknown, which is then on record."""
        if reading.value is None:
            self.skip(node, reading.unknown)
        return reading.value

    def skip(self, node: str, reason: str) -> None:
        """Puts on record that this check has nothing to judge there."""
        self.unknown.setdefault(reason, set()).add(node)

    def each(
        self, places: Iterable[P], reading_of: Callable[[P], Reading[T]]
    ) -> Iterator[tuple[P, Reading[T], T]]:
        """The places where a value is known; the others go on record."""
        for place in places:
            reading = reading_of(place)
            value = self.read(place.node, reading)
            if value is not None:
                yield place, reading, value

    def unlike(
        self,
        places: Iterable[P],
        reading_of: Callable[[P], Reading[H]],
        right: H,
        show: Callable[[H], str] = str,
    ) -> Faults:
        """Values other than the right one."""
        for place, reading, value in self.each(places, reading_of):
            if value != right:
                yield fault(place, reading, show(value), show(right))

    def unlike_declared(
        self,
        places: Iterable[P],
        reading_of: Callable[[P], Reading[H]],
        declared_of: Callable[[P], H | None],
        show: Callable[[H], str] = str,
    ) -> Faults:
        """Values unlike the declared ones; where none is declared, unlike what most peers have."""
        undeclared: list[P] = []
        for place in places:
            if (declared := declared_of(place)) is None:
                undeclared.append(place)
            else:
                yield from self.unlike((place,), reading_of, declared, show)
        yield from self.unlike_peers(undeclared, reading_of, show)

    def lacking(
        self, places: Iterable[P], reading_of: Callable[[P], Reading[bool]], has: str, lacks: str
    ) -> Faults:
        """Places without what most peers have."""
        words = {True: has, False: lacks}
        for other in self.unlike_peers(places, reading_of, words.__getitem__):
            if other.actual != has:
                yield other

    def unlike_peers(
        self,
        places: Iterable[P],
        reading_of: Callable[[P], Reading[H]],
        show: Callable[[H], str] = str,
        *,
        undecided: bool = True,
    ) -> Faults:
        """Values unlike what most peers have; without a majority, all of them if `undecided`."""
        groups: dict[Hashable, list[tuple[P, Reading[H], H]]] = {}
        for row in self.each(places, reading_of):
            groups.setdefault(row[0].peers, []).append(row)
        for group in groups.values():
            counted = Counter(value for _, _, value in group)
            if len(counted) == 1:
                continue
            usual, count = counted.most_common(1)[0]
            if count * 2 > len(group):
                for place, reading, value in group:
                    if value != usual:
                        yield fault(place, reading, show(value), f"{show(usual)}, as most peers")
                continue
            if not undecided:
                continue
            values = []
            for value in counted:
                having = [place for place, _, own in group if own == value]
                where = folded_places((place.node, place.part) for place in having)
                values.append(f"{show(value)} on {where}")
            actual = ", ".join(values)
            for place, reading, _ in group:
                yield fault(place, reading, actual, "the same on all peers")

    def places_of(self, judge: "Callable[[View], Faults]") -> set[tuple[str, str]]:
        """Nodes and parts where another check finds something that may be the cause."""
        return {(cause.node, cause.part) for cause in judge(View(self.fleet))}

    def uplinks(self) -> Iterator[tuple[Port, AuditUplink]]:
        """Ports with the switch port at the other end of their cable."""
        for port in self.ports:
            if uplink := self.fleet.uplink(port):
                yield port, uplink
            elif not self.fleet.inventory.switches:
                self.skip(port.node, "no switch in the inventory")
            else:
                self.skip(
                    port.node,
                    "no LLDP or MAC table connects this host with a switch of the inventory",
                )

    def cluster(self) -> Cluster | None:
        """The Kubernetes cluster; None where there is none, which is then on record."""
        cluster = self.fleet.inventory.cluster
        if cluster is None:
            self.skip("", NO_CLUSTER)
        return cluster

    def earlier_pf(self, port: Port) -> Pf | None:
        """A port in the earlier look; None, on record, where none is since the last boot."""
        before = self.fleet.earlier_hosts.get(port.node)
        pf = before.pf(port.pf.pci) if before else None
        if before is None or pf is None:
            self.skip(port.node, NO_EARLIER)
        elif before.system.boot_id.value != port.host.system.boot_id.value:
            self.skip(port.node, REBOOTED)
        else:
            return pf
        return None

    def deltas(
        self, names: Iterable[str], *, idle_proves: bool = False
    ) -> Iterator[tuple[Port, str, float, str]]:
        """How much counters rose per second between two looks: port, counter, rate, source.

        Args:
            names: of the counters; one that the NIC does not have is left out.
            idle_proves: whether the counter counts without traffic too.
        """
        counters = tuple(names)
        for port in self.ports:
            old_pf = self.earlier_pf(port)
            if old_pf is None:
                continue
            now, old = self.read(port.node, port.pf.counters), self.read(port.node, old_pf.counters)
            if now is None or old is None:
                continue
            seconds = now.uptime_s - old.uptime_s
            if seconds <= 0:
                self.skip(port.node, REBOOTED)
                continue
            traffic = [
                now.values[name] - old.values.get(name, 0) for name in TRAFFIC if name in now.values
            ]
            if traffic and max(traffic) < IDLE_BYTES and not idle_proves:
                self.skip(port.node, IDLE)
                continue
            common = [name for name in counters if name in now.values and name in old.values]
            if not common:
                self.skip(port.node, f"this NIC has none of the counters {', '.join(counters)}")
            for name in common:
                yield (
                    port,
                    name,
                    max(now.values[name] - old.values[name], 0) / seconds,
                    port.pf.counters.source,
                )

    def rises(self, names: Iterable[str], *, idle_proves: bool = False) -> Faults:
        """Counters that rose and should not, as `deltas` has them."""
        for port, name, rate, source in self.deltas(names, idle_proves=idle_proves):
            if rate > 0:
                yield self.rate_fault(port, source, f"{name} rises", "no rise")

    def rate_fault(self, port: Port, source: str, actual: str, expected: str) -> AuditFault:
        """A fault of a counter, with both looks as evidence."""
        before = self.fleet.earlier_hosts[port.node].read_at
        at = f"{instant(before)} to {instant(port.host.read_at)}"
        return AuditFault(
            node=port.node,
            part=port.part,
            actual=actual,
            expected=expected,
            source=source,
            at=at,
        )

    def switch_fault(
        self, uplink: AuditUplink, reading: Reading[T], actual: str, expected: str
    ) -> AuditFault:
        """A fault of a switch port."""
        return AuditFault(
            node=uplink.switch.name,
            part=uplink.port.name,
            actual=actual,
            expected=expected,
            source=reading.source,
            at=instant(uplink.switch.read_at),
        )

    def cluster_fault(
        self, source: str, part: str, actual: str, expected: str, *, node: str = ""
    ) -> AuditFault:
        """A fault of an object in the cluster."""
        at = ""
        if cluster := self.fleet.inventory.cluster:
            at = instant(cluster.read_at)
        return AuditFault(
            node=node, part=part, actual=actual, expected=expected, source=source, at=at
        )


def fault(
    place: Place, reading: Reading[T], actual: str, expected: str, *, part: str | None = None
) -> AuditFault:
    """A fault with the evidence of a reading."""
    if part is None:
        part = place.part
    return AuditFault(
        node=place.node,
        part=part,
        actual=actual,
        expected=expected,
        source=reading.source,
        at=instant(place.host.read_at),
    )


def instant(moment: datetime | None) -> str:
    """A time as documents have it; empty where there is none."""
    if moment:
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return ""
