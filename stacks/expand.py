"""Spells a lab file out: every rail, node and switch of its groups one by one, and where in the
file each came from.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any, TypeVar, cast

import yaml
from pydantic import BaseModel

from stacks.groups import (
    CableGroup,
    Links,
    NodeClass,
    NodeException,
    NodeGroup,
    PodGroup,
    Progression,
    RailGroup,
    SwitchGroup,
)
from stacks.lab_file import LabFile
from stacks.rules.parts import Fault, Path, show
from stacks.safe_yaml import DUMPER
from stacks.sets import names_of
from stacks.words import plural

T = TypeVar("T", int, IPv4Address, IPv4Network)

Entry = dict[str, Any]
"""A rail, node or switch as JSON; its own model types it when the spelled-out lab is read."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the file an entry is, and which member of a group it is."""

    path: Path
    owner: str = ""


@dataclass(frozen=True)
class Expanded:
    """A lab file, spelled out."""

    lab: Entry
    """The lab as a file without groups would describe it; incomplete when there are faults."""
    faults: list[Fault]
    """Faults of the groups themselves, by the file's paths."""
    origins: Mapping[Path, Origin] = field(repr=False)

    def in_the_file(self, faults: Iterable[Fault]) -> list[Fault]:
        """Faults of the spelled-out lab by the file's paths; a fault that a whole group shares
        appears once.
        """
        moved = []
        for fault in faults:
            origin, text = self._origin(fault.path), fault.text
            if fault.also is not None:
                other = self._origin(fault.also)
                of = f" ({other.owner})" if other.owner else ""
                text = text.replace(show(fault.also), f"{show(other.path)}{of}")
            if origin.owner:
                text = f"{origin.owner}: {text}"
            moved.append(Fault(origin.path, text))
        return folded(moved)

    def _origin(self, path: Path) -> Origin:
        for length in range(len(path), 0, -1):
            if origin := self.origins.get(path[:length]):
                return replace(origin, path=origin.path + path[length:])
        return Origin(path)


def folded(faults: Iterable[Fault]) -> list[Fault]:
    """Merges faults at one place that differ only in numbers, and counts them."""
    alike: dict[tuple[Path, str], list[Fault]] = {}
    for fault in faults:
        alike.setdefault((fault.path, re.sub(r"\d+", "#", fault.text)), []).append(fault)
    folded_faults = []
    for same in alike.values():
        fault = same[0]
        if len(same) > 1:
            fault = replace(fault, text=f"{fault.text}; and {len(same) - 1} more")
        folded_faults.append(fault)
    return folded_faults


def expand(file: LabFile) -> Expanded:
    """The lab that a file describes. Pure: the same file gives the same lab."""
    return _Expansion(file).run()


def flat_text(lab: Mapping[str, Any], key: str) -> str:
    """A spelled-out lab as a stack file, a PF or cable a line."""
    content = {"config": {key: dict(lab)}}
    return str(
        yaml.dump(
            content,
            Dumper=DUMPER,
            sort_keys=False,
            default_flow_style=None,
            width=160,
            allow_unicode=True,
        )
    )


@dataclass(frozen=True, slots=True)
class _Home:
    """A PF's address and router, and where the file sets them when that is not the node's group."""

    place: Path | None
    address: IPv4Interface
    router: IPv4Address | None = None


@dataclass(frozen=True, slots=True)
class _Network:
    """A rail as the source of its nodes' addresses."""

    rail: str
    subnet: IPv4Network
    links: Links | None = None
    place: tuple[int, int] = (0, 1)
    """Index of the rail in its group, and the number of rails in the group."""
    segments: Mapping[str, _Home] = field(default_factory=dict)

    def home_of(self, node: str, number: int | None) -> _Home:
        """Address and router of a node.

        Raises:
            ValueError: when it has no address, or one outside the rail.
        """
        if self.segments:
            if node not in self.segments:
                raise ValueError(f"in no segment of {self.rail}; add it to the nodes of one")
            return self.segments[node]
        if number is None:
            raise ValueError(
                f"missing, but {self.rail} counts its hosts; number the nodes, as in {{first: 11}}"
            )
        if self.links is None:
            return _Home(
                None,
                IPv4Interface(
                    (_host(self.subnet, number, f" of {self.rail}"), self.subnet.prefixlen)
                ),
            )
        rail, rails = self.place
        number = number * rails + rail if self.links.order == "rail" else number
        low, high = (_host(self.subnet, 2 * number + end, f" of {self.rail}") for end in (0, 1))
        own, router = (low, high) if self.links.host == "low" else (high, low)
        return _Home(None, IPv4Interface((own, 31)), router)


_NOWHERE = _Network("", IPv4Network("0.0.0.0/32"))


class _Expansion:
    """One file on its way: what is spelled out so far, what is wrong with it, and where all of it
    came from.
    """

    def __init__(self, file: LabFile) -> None:
        self._file = file
        self._faults: list[Fault] = []
        self._origins: dict[Path, Origin] = {}
        self._networks: dict[str, _Network] = {}
        self._rails: list[Entry] = []
        self._nodes: list[Entry] = []
        self._switches: list[Entry] = []
        self._interfaces: dict[tuple[Any, Any], str] = {}

    def _name_interfaces(self) -> None:
        for node in self._nodes:
            for pf in node.get("pfs", ()):
                self._interfaces[node["name"], pf["rail"]] = pf["interface"]

    def run(self) -> Expanded:
        for i, rail in enumerate(self._file.rails):
            if isinstance(rail, RailGroup):
                self._add_rails(("rails", i), rail)
            else:
                self._add("rails", self._rails, Origin(("rails", i)), _given(rail))
                self._networks[rail.name] = _Network(rail.name, rail.host_subnet)
        for i, node in enumerate(self._file.nodes):
            if isinstance(node, NodeGroup):
                self._add_nodes(("nodes", i), node)
            else:
                self._add("nodes", self._nodes, Origin(("nodes", i)), _given(node))
        self._refuse_segments_of_unknown_nodes()
        self._name_interfaces()
        for i, switch in enumerate(self._file.switches):
            if isinstance(switch, SwitchGroup):
                self._add_switches(("switches", i), switch)
            else:
                self._add("switches", self._switches, Origin(("switches", i)), _given(switch))
        lab = _given(self._file, "rails", "node_classes", "nodes", "switches")
        lab |= {"rails": self._rails, "nodes": self._nodes}
        lab |= {"switches": self._switches} if self._switches else {}
        return Expanded(lab, folded(self._faults), self._origins)

    def _add(self, section: str, entries: list[Entry], origin: Origin, entry: Entry) -> Path:
        path: Path = (section, len(entries))
        self._origins[path] = origin
        if origin.owner:
            self._origins[*path, "name"] = Origin((*origin.path, "names"), origin.owner)
        entries.append(entry)
        return path

    @contextmanager
    def _faults_at(self, path: Path, owner: str = "") -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            text = f"{owner}: {error}" if owner else str(error)
            self._faults.append(Fault(path, text))

    def _as_many(self, text: str, path: Path, keys: Iterable[str], of: str) -> tuple[str, ...]:
        """The names of a set that must be as long as another; records a fault and pads the set when
        it is not.
        """
        names, others = names_of(text), tuple(keys)
        if len(names) == len(others):
            return names
        self._faults.append(
            Fault(
                path,
                f"{text} has {plural(len(names), 'name')} for the {len(others)} of {of}; write as "
                "many",
            )
        )
        return (names * len(others))[: len(others)]

    # rails

    def _add_rails(self, at: Path, group: RailGroup) -> None:
        names = names_of(group.names)
        sets = {}
        for key in ("resource_name", "network_name"):
            if (text := getattr(group, key)) is not None:
                sets[key] = self._as_many(text, (*at, key), names, group.names)
        for index, name in enumerate(names):
            same = _given(group, "names", "host_subnet", "host_gateway", "segments", "links", "pod")
            rail = {"name": name, **same, **{key: values[index] for key, values in sets.items()}}
            path = self._add("rails", self._rails, Origin(at, name), rail)
            with self._faults_at((*at, "host_subnet"), name):
                subnet = _at(group.host_subnet, index)
                place = (index, len(names))
                segments = self._segments(at, group, name, index)
                self._networks[name] = _Network(name, subnet, group.links, place, segments)
                rail["host_subnet"] = str(subnet)
                if group.host_gateway is not None:
                    rail["host_gateway"] = str(_host(subnet, group.host_gateway))
            for key in ("first_address", "last_address"):
                self._origins[*path, "pod", key] = Origin((*at, "pod", "pool"), name)
            with self._faults_at((*at, "pod"), name):
                if group.pod is not None:
                    rail["pod"] = _pod(group.pod, index)

    def _segments(self, at: Path, group: RailGroup, rail: str, index: int) -> dict[str, _Home]:
        """Address and router by node, and where the file sets them."""
        homes: dict[str, _Home] = {}
        for s, segment in enumerate(group.segments):
            place = (*at, "segments", s)
            with self._faults_at(place, rail):
                subnet = _at(segment.subnet, index)
                router = _host(subnet, segment.gateway)
                for number, node in enumerate(names_of(segment.nodes), segment.first_host):
                    if node in homes:
                        raise ValueError(f"{node} is in two segments; remove it from one")
                    homes[node] = _Home(
                        place, IPv4Interface((_host(subnet, number), subnet.prefixlen)), router
                    )
        return homes

    def _refuse_segments_of_unknown_nodes(self) -> None:
        known = {node["name"] for node in self._nodes}
        for i, rail in enumerate(self._file.rails):
            segments = rail.segments if isinstance(rail, RailGroup) else ()
            for s, segment in enumerate(segments):
                for unknown in (name for name in names_of(segment.nodes) if name not in known):
                    self._faults.append(
                        Fault(
                            ("rails", i, "segments", s, "nodes"), f"this lab has no node {unknown}"
                        )
                    )

    # nodes

    def _add_nodes(self, at: Path, group: NodeGroup) -> None:
        names = names_of(group.names)
        for unknown in sorted(set(group.exceptions) - set(names)):
            self._faults.append(
                Fault((*at, "except", unknown), f"{unknown} is not in {group.names}")
            )
        node_class = self._class_of(at, group)
        of_class = _given(node_class, "pfs") if node_class else {}
        own = _given(group, "names", "node_class", "address", "rail_host", "pfs", "exceptions")
        class_at: Path = ("node_classes", group.node_class or "")
        pfs = self._pfs((*at, "pfs"), group.pfs) if group.pfs is not None else []
        if group.pfs is None and node_class:
            pfs = self._pfs((*class_at, "pfs"), node_class.pfs)
        counted = [
            pf["rail"] for _, pf in pfs if not self._networks.get(pf["rail"], _NOWHERE).segments
        ]
        if group.rail_host is not None and not counted:
            self._faults.append(
                Fault(
                    (*at, "rail_host"),
                    "rail_host has no effect, since every rail has segments; remove it",
                )
            )
        for index, name in enumerate(names):
            node = {"name": name, **of_class, **own}
            path = self._add("nodes", self._nodes, Origin(at, name), node)
            for key in of_class.keys() - own.keys():
                self._origins[*path, key] = Origin((*class_at, key), name)
            with self._faults_at((*at, "address"), name):
                node["address"] = str(_at(group.address, index))
            node["pfs"] = [dict(pf) for _, pf in pfs]
            for j, (pf_at, _) in enumerate(pfs):
                self._origins[*path, "pfs", j] = Origin(pf_at, name)
            exception = group.exceptions.get(name)
            self._add_addresses((*at, "rail_host"), path, node, group, index)
            if exception:
                self._apply_exception(path, (*at, "except", name), node, exception)

    def _class_of(self, at: Path, group: NodeGroup) -> NodeClass | None:
        """The class that a group names; a fault if the file has no such class."""
        name = group.node_class
        if not name:
            return None
        if name not in self._file.node_classes:
            known = ", ".join(self._file.node_classes) or "none"
            self._faults.append(
                Fault((*at, "class"), f"node_classes has no {name}; it has {known}")
            )
        return self._file.node_classes.get(name)

    def _add_addresses(
        self, at: Path, path: Path, node: dict[str, Any], group: NodeGroup, index: int
    ) -> None:
        """Gives a node of a group its address on each rail, except where it has its own."""
        name = node["name"]
        own_addresses = set()
        if name in group.exceptions:
            for rail, pf in group.exceptions[name].pfs.items():
                if pf.address:
                    own_addresses.add(rail)
        for j, pf in enumerate(node["pfs"]):
            network = self._networks.get(pf["rail"])
            if network is None or pf["rail"] in own_addresses:
                continue
            with self._faults_at(at, name):
                host = None if group.rail_host is None else _at(group.rail_host, index)
                home = network.home_of(name, host)
                for key in ("address", "gateway"):
                    self._origins[*path, "pfs", j, key] = Origin(home.place or at, name)
                pf["address"] = str(home.address)
                if home.router:
                    pf["gateway"] = str(home.router)

    def _pfs(self, at: Path, pfs: Iterable[Any]) -> list[tuple[Path, Entry]]:
        """The PFs of a class one by one, each with its place in the file."""
        placed = []
        for j, pf in enumerate(pfs):
            rails, place = names_of(pf.rail), (*at, j)
            interfaces = self._as_many(pf.interface, (*place, "interface"), rails, pf.rail)
            devices = self._as_many(pf.rdma_device, (*place, "rdma_device"), rails, pf.rail)
            known = {entry["name"] for entry in self._rails}
            for unknown in (rail for rail in rails if rail not in known):
                text = f"this lab has no rail {unknown}; it has {', '.join(sorted(known))}"
                self._faults.append(Fault((*place, "rail"), text))
            for rail, interface, device in zip(rails, interfaces, devices, strict=True):
                placed.append(
                    (
                        place,
                        {
                            **_given(pf),
                            "rail": rail,
                            "interface": interface,
                            "rdma_device": device,
                        },
                    )
                )
        return placed

    def _apply_exception(self, path: Path, at: Path, node: Entry, exception: NodeException) -> None:
        self._override(path, at, node, _given(exception, "pfs"))
        by_rail = {pf["rail"]: (j, pf) for j, pf in enumerate(node["pfs"])}
        for rail, different in exception.pfs.items():
            if rail not in by_rail:
                self._faults.append(
                    Fault(
                        (*at, "pfs", rail),
                        f"{node['name']} has no PF on {rail}; it has {', '.join(by_rail)}",
                    )
                )
                continue
            j, pf = by_rail[rail]
            self._override((*path, "pfs", j), (*at, "pfs", rail), pf, _given(different))

    def _override(self, path: Path, at: Path, entry: Entry, values: Entry) -> None:
        for key, value in values.items():
            if entry.get(key) == value:
                self._faults.append(
                    Fault((*at, key), f"{value} is already the group's value; remove it")
                )
            entry[key] = value
            self._origins[*path, key] = Origin((*at, key))

    # switches

    def _add_switches(self, at: Path, group: SwitchGroup) -> None:
        names, given = (
            names_of(group.names),
            _given(group, "names", "address", "native_vlans", "ports"),
        )
        if "name" in given:
            self._faults.append(Fault((*at, "name"), "a group takes names, not name; remove name"))
        for index, name in enumerate(names):
            switch = {**given, "name": name}
            path = self._add("switches", self._switches, Origin(at, name), switch)
            with self._faults_at((*at, "address"), name):
                switch["address"] = str(_at(group.address, index))
            native_vlans = {}
            for rails, vlan in group.native_vlans.items():
                for number, rail in enumerate(names_of(rails)):
                    native_vlans[rail] = _at(vlan, number)
            switch["native_vlans"] = native_vlans
            switch["ports"] = {}
            for e, cables in enumerate(group.ports):
                self._add_cables(path, (*at, "ports", e), cables, switch, (index, len(names)))

    def _add_cables(
        self, path: Path, at: Path, cables: CableGroup, switch: Entry, place: tuple[int, int]
    ) -> None:
        (index, count), rails, nodes = place, names_of(cables.rails), names_of(cables.nodes)
        if count > 1:
            rails = (
                self._as_many(cables.rails, (*at, "rails"), [""] * count, "the switches")[index],
            )
        ends = [(node, rail) for node in nodes for rail in rails]
        ports = self._as_many(
            cables.port, (*at, "port"), [""] * len(ends), f"{cables.nodes} on {', '.join(rails)}"
        )
        for (node, rail), port in zip(ends, ports, strict=True):
            interface = self._interfaces.get((node, rail))
            if interface is None:
                self._faults.append(Fault(at, f"this lab has no node {node} with a PF on {rail}"))
                continue
            switch["ports"].setdefault(node, {})[interface] = port
            self._origins[*path, "ports", node, interface] = Origin(
                (*at, "port"), str(switch["name"])
            )


def _given(section: BaseModel, *without: str) -> Entry:
    """A section as JSON, without defaults."""
    return section.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=set(without))


def _at(value: T | Progression[T], index: int) -> T:
    """The value of a group's member by its place."""
    if not isinstance(value, Progression):
        return value
    first: Any = value.first
    way = value.step * index
    later: Any = first + way if not isinstance(first, IPv4Network) else _subnet_after(first, way)
    return cast("T", later)


def _subnet_after(first: IPv4Network, steps: int) -> IPv4Network:
    return IPv4Network((first.network_address + steps * first.num_addresses, first.prefixlen))


def _host(subnet: IPv4Network, number: int, of: str = "") -> IPv4Address:
    if not 0 <= number < subnet.num_addresses:
        raise ValueError(
            f"host number {number} is outside {subnet}{of}; start lower, or widen the subnet"
        )
    return subnet.network_address + number


def _pod(pod: PodGroup, index: int) -> Entry:
    subnet = _at(pod.subnet, index)
    first, last = (str(_host(subnet, number)) for number in pod.pool)
    return {
        "vlan_id": None if pod.vlan_id is None else _at(pod.vlan_id, index),
        "subnet": str(subnet),
        "first_address": first,
        "last_address": last,
        **({"gateway": str(_host(subnet, pod.gateway))} if pod.gateway is not None else {}),
        "addresses_per_node": pod.addresses_per_node,
    }
