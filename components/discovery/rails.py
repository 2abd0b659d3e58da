"""Rails from independent evidence: the GPU behind the same bridge, the leaf, the subnet, the slot.

A column is one PCI slot of all nodes of one server class. It becomes a rail when two kinds of evidence say so on every
node and none contradicts; everything else is a question. Names never count: drivers and kernels change them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from components.discovery.links import link_labels
from components.discovery.ports import RailPort
from components.discovery.questions import NONE, Evidence, Notice, Question, names, port_answer
from stacks.base import LabError
from stacks.words import plural, some

Kind = Literal["gpu", "leaf", "subnet"]
"""Evidence beside the slot."""
FEW = 3
"""Ports that a question shows with switch port and address; more are folded."""
WORDS: Mapping[Kind, str] = {"gpu": "GPU", "leaf": "leaf", "subnet": "subnet"}
Labels = Mapping[RailPort, str]
"""What one kind of evidence says of ports; a port of which it says nothing is not there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RailOfPorts:
    """A rail with one port per node."""

    name: str
    ports: Mapping[str, RailPort]
    """By node."""
    evidence: tuple[str, ...]
    """What says so on every node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inference:
    """What the evidence decides, and what it does not."""

    rails: tuple[RailOfPorts, ...]
    questions: tuple[Question, ...]
    notices: tuple[Notice, ...]
    asked: frozenset[RailPort]
    """Ports that only an answer puts on a rail."""


@dataclass(slots=True, eq=False)
class _Column:
    """One slot of the nodes of one server class."""

    server: str
    pci: str
    ports: list[RailPort] = field(default_factory=list)
    homes: dict[Kind, set[str]] = field(default_factory=dict)
    """The labels that are this column's own, by kind of evidence."""
    blurred: set[Kind] = field(default_factory=set)
    """Kinds of evidence that say the same of another column of the same nodes."""
    astray: dict[RailPort, dict[Kind, str]] = field(default_factory=dict)
    """Ports with a label that is another column's."""
    split: dict[RailPort, set[Kind]] = field(default_factory=dict)
    """Ports with a label that is as much another column's."""


def infer_rails(ports: Sequence[RailPort], answers: Mapping[tuple[str, str], str]) -> Inference:
    """The rails of the candidates.

    Args:
        ports: the candidates of all hosts.
        answers: rail or `none` by node and by interface or PCI address.

    Raises:
        LabError: when an answer fits no port, or gives a node two ports on one rail.
    """
    return _Inference(ports, answers).run()


class _Inference:
    def __init__(self, ports: Sequence[RailPort], answers: Mapping[tuple[str, str], str]) -> None:
        self._answered = _answered(ports, answers)
        self._questions: list[Question] = []
        self._notices: list[Notice] = []
        self._asked: set[RailPort] = set()
        unused = [port for port in ports if port.is_unused and port not in self._answered]
        self._unused(unused, ports)
        self._ports = [port for port in ports if port not in self._answered and port not in self._asked]
        self._labels: dict[Kind, Labels] = {
            "gpu": {port: port.gpu for port in self._ports if port.gpu},
            "leaf": {port: port.leaf.name for port in self._ports if port.leaf},
            "subnet": _subnets(self._ports),
        }
        self._columns = _columns(self._ports)

    def run(self) -> Inference:
        classes: dict[str, list[_Column]] = defaultdict(list)
        for column in self._columns:
            classes[column.server].append(column)
        for columns in classes.values():
            for kind in WORDS:
                _find_homes(columns, kind, self._labels[kind])
        for columns in classes.values():
            self._ask_about_cards(columns)
            self._ask_about_storage(columns)
        rails = self._joined(classes)
        accepted = [(rail, self._accepted(rail)) for rail in rails]
        return self._named([(rail, ports) for rail, ports in accepted if ports])

    # questions about whole columns

    def _unused(self, unused: list[RailPort], ports: Sequence[RailPort]) -> None:
        """Slots without cable and address on every node: a question where a node has no others, else unused."""
        used = {(port.server, port.pci) for port in ports if not port.is_unused}
        idle = {port.server for port in ports} - {port.server for port in ports if not port.is_unused}
        evidence: dict[str, list[str]] = defaultdict(list)
        not_set_up: dict[str, list[RailPort]] = defaultdict(list)
        for port in unused:
            if (port.server, port.pci) in used:
                continue
            self._asked.add(port)
            if port.server in idle and port.carrier is not False:
                not_set_up[port.node].append(port)
            else:
                evidence[port.interface].append(port.node)
        if not_set_up:
            self._questions.append(_how_to_set_up(not_set_up))
        for interface, nodes in evidence.items():
            self._notices.append(
                Notice(code="unused", nodes=tuple(nodes), text=f"{interface} has neither cable nor address")
            )

    def _ask(self, code: str, text: str, ports: Iterable[RailPort]) -> None:
        asked = [port for port in ports if port not in self._asked]
        if not asked:
            return
        evidence = Evidence()
        answers: dict[str, dict[str, str]] = defaultdict(dict)
        for port in asked:
            evidence.add(port.node, self._evidence_of(port, alone=len(asked) <= FEW))
            answers[port.node][port.interface] = "rail-N"
        self._questions.append(
            Question(
                code=code,
                nodes=tuple(answers),
                text=text,
                evidence=evidence.lines(),
                answer=port_answer(answers),
            )
        )
        self._asked |= set(asked)

    def _evidence_of(self, port: RailPort, *, alone: bool) -> str:
        """What is known of a port; of many ports only what several may have alike."""
        gpu = "GPU unknown" if port.gpu is None else f"GPU {port.gpu}" if port.gpu else "no GPU below its bridge"
        leaf = f"{port.leaf.name} {port.leaf.port if alone else ''}".strip() if port.leaf else "leaf unknown"
        subnet, addresses = self._labels["subnet"].get(port, ""), ", ".join(map(str, port.addresses))
        known = [addresses, subnet] if alone else [subnet]
        where = ", ".join(each for each in known if each) or addresses or port.without_addresses
        return f"{port.interface} at {port.pci}: {gpu}, {leaf}, {where}"

    def _ask_about_cards(self, columns: list[_Column]) -> None:
        """Two ports of one card are two rails, or two planes of one: nothing on a host says which."""
        cards: dict[str, list[_Column]] = defaultdict(list)
        for column in columns:
            cards[column.pci.rpartition(".")[0]].append(column)
        for card, twins in cards.items():
            if len(twins) > 1:
                text = f"Is the NIC at {card} with {plural(len(twins), 'port')} one rail or {len(twins)}?"
                self._ask("one-card", text, [port for twin in twins for port in twin.ports])

    def _ask_about_storage(self, columns: list[_Column]) -> None:
        """A NIC that no GPU is near, where others have one, may well be for storage."""
        near = [column for column in columns if _share(column, lambda port: bool(port.gpu)) > 0.5]
        far = [column for column in columns if _share(column, lambda port: port.gpu == "") > 0.5]
        for column in far if near else ():
            name = column.ports[0].interface
            self._ask("no-gpu", f"Is {name} ({column.pci}), with no GPU below its bridge, a rail?", column.ports)

    # the same rail in several server classes

    def _joined(self, classes: Mapping[str, list[_Column]]) -> list[list[_Column]]:
        """Columns of all classes by rail: the largest class has the rails, and each further one finds its place."""
        ranked = sorted(classes.values(), key=lambda columns: -max(len(column.ports) for column in columns))
        rails: list[list[_Column]] = []
        for number, columns in enumerate(ranked):
            open_columns = [column for column in columns if not self._is_asked(column)]
            if number == 0:
                rails = [[column] for column in sorted(open_columns, key=_in_order)]
                continue
            places = {id(column): self._places_of(column, rails) for column in open_columns}
            taken = Counter(found[0] for found in places.values() if len(found) == 1)
            for column in open_columns:
                found = places[id(column)]
                if len(found) == 1 and taken[found[0]] == 1:
                    rails[found[0]].append(column)
                else:
                    self._ask_about_a_place(column, found)
        return rails

    def _is_asked(self, column: _Column) -> bool:
        return all(port in self._asked for port in column.ports)

    def _places_of(self, column: _Column, rails: list[list[_Column]]) -> list[int]:
        """The rails that leaf and subnet say a column of another class is on: one where they agree."""
        found: set[int] = set()
        for kind in ("leaf", "subnet"):
            own = column.homes.get(kind, set())
            found |= {n for n, rail in enumerate(rails) for other in rail if own & other.homes.get(kind, set())}
        return sorted(found)

    def _ask_about_a_place(self, column: _Column, found: list[int]) -> None:
        name = column.ports[0].interface
        if found:
            text = f"Which rail is {name} of {column.server} on? Its leaf and its subnet are those of different ones."
            self._ask("contradiction", text, column.ports)
        else:
            text = f"Which rail is {name} of {column.server} on? It shares no leaf or subnet with a decided rail."
            self._ask("other-model", text, column.ports)

    # acceptance, port by port

    def _accepted(self, rail: list[_Column]) -> dict[RailPort, frozenset[str]]:
        """The ports of a rail that two kinds of evidence put there, with these; the others are asked about."""
        seen: dict[Kind, Counter[str]] = {
            kind: Counter(
                self._labels[kind][port] for column in rail for port in column.ports if port in self._labels[kind]
            )
            for kind in WORDS
        }
        found: dict[RailPort, frozenset[str]] = {}
        for column in rail:
            weak, contradicted = [], []
            for port in column.ports:
                if port in self._asked:
                    continue
                says = {kind for kind in WORDS if self._says_so(column, port, kind, seen[kind])}
                evidence = frozenset({*says, *(["slot"] if len(column.ports) > 1 else [])})
                against = set(column.astray.get(port, {})) | column.split.get(port, set())
                crossed = against == {"leaf"} and port not in column.split
                if against and not crossed:
                    contradicted.append(port)
                elif len(evidence) < 2:
                    weak.append(port)
                else:
                    found[port] = evidence
                    if crossed:
                        self._notice_a_crossed_cable(port, column.astray[port]["leaf"], column)
            self._ask_about_ports(column, contradicted, weak)
        return found

    def _says_so(self, column: _Column, port: RailPort, kind: Kind, seen: Counter[str]) -> bool:
        label = self._labels[kind].get(port)
        return (
            label is not None and kind not in column.blurred and label in column.homes.get(kind, ()) and seen[label] > 1
        )

    def _ask_about_ports(self, column: _Column, contradicted: list[RailPort], weak: list[RailPort]) -> None:
        name = column.ports[0].interface
        if contradicted:
            kinds = sorted(
                {
                    WORDS[kind]
                    for port in contradicted
                    for kind in (*column.astray.get(port, ()), *column.split.get(port, ()))
                }
            )
            text = (
                f"Which rail is {name} of {names(port.node for port in contradicted)} on? "
                f"By {' and '.join(kinds)} it is on another rail than its slot."
            )
            self._ask("contradiction", text, contradicted)
        if weak:
            where = "" if len(weak) == len(column.ports) else f" of {names(port.node for port in weak)}"
            blurred = ", ".join(WORDS[kind] for kind in sorted(column.blurred))
            why = f" ({blurred} is the same for several ports)" if blurred else ""
            self._ask("too-little", f"Is {name}{where} a rail, and which? Fewer than two kinds of evidence{why}.", weak)

    def _notice_a_crossed_cable(self, port: RailPort, leaf: str, column: _Column) -> None:
        peers = Counter(self._labels["leaf"][other] for other in column.ports if other in self._labels["leaf"])
        home = peers.most_common(1)[0][0]
        self._notices.append(
            Notice(
                code="cross-cabled",
                nodes=(port.node,),
                text=f"{port.interface} is plugged into {leaf}, its peers into {home}; it keeps the rail of its slot",
            )
        )

    # names

    def _named(self, accepted: list[tuple[list[_Column], dict[RailPort, frozenset[str]]]]) -> Inference:
        rails: dict[str, dict[str, RailPort]] = {}
        evidence: dict[str, frozenset[str]] = {}
        for number, (_, ports) in enumerate(accepted, 1):
            name = f"rail-{number}"
            rails[name] = {port.node: port for port in ports}
            evidence[name] = frozenset.intersection(*ports.values())
        for port, name in self._answered.items():
            if name == NONE:
                continue
            other = rails.setdefault(name, {}).setdefault(port.node, port)
            if other is not port:
                raise LabError(
                    f"answers: {port.node} has {other.interface} and {port.interface} on {name}, and a rail has one "
                    "port per node; answer another rail or none"
                )
            evidence.setdefault(name, frozenset({"answer"}))
        order = sorted(rails, key=_as_numbered)
        return Inference(
            rails=tuple(
                RailOfPorts(name=name, ports=rails[name], evidence=tuple(sorted(evidence[name]))) for name in order
            ),
            questions=tuple(self._questions),
            notices=tuple(self._notices),
            asked=frozenset(self._asked),
        )


def _how_to_set_up(ports: Mapping[str, Sequence[RailPort]]) -> Question:
    """Which of the ports that are not set up are rails, with lines that make each of them one."""
    evidence = Evidence()
    rails: dict[str, dict[str, str]] = {}
    for node, own in ports.items():
        in_order = sorted(own, key=lambda port: port.pci)
        rails[node] = {port.interface: f"rail-{n}" for n, port in enumerate(in_order, 1)}
        evidence.add(node, ", ".join(f"{port.interface} at {port.pci}" for port in in_order))
    subnets = ", ".join(f"rail-{n}: SUBNET" for n in range(1, max(map(len, rails.values())) + 1))
    return Question(
        code="not-set-up",
        nodes=tuple(ports),
        text="Which of these ports are rails? None is up or has an address: only slots are evidence.",
        evidence=evidence.lines(),
        answer=f"{port_answer(rails)}\nhost_subnets: {{{subnets}}}",
    )


def _answered(ports: Sequence[RailPort], answers: Mapping[tuple[str, str], str]) -> dict[RailPort, str]:
    by_key = {(port.node, key): port for port in ports for key in (port.interface, port.pci)}
    if unknown := sorted(f"{node} {key}" for node, key in answers if (node, key) not in by_key):
        raise LabError(
            f"answers: no such candidate: {some(unknown, 5)}; use the names of nodes and ports in questions.md"
        )
    return {by_key[place]: rail for place, rail in answers.items()}


def _subnets(ports: Sequence[RailPort]) -> Labels:
    """The subnet of each port; of links with two addresses the place that their order among the node's gives."""
    links = [port for port in ports if port.address and port.address.network.prefixlen >= 30]
    found = {port: str(port.address.network) for port in ports if port.address}
    return {**found, **link_labels(links)} if links else found


def _columns(ports: Iterable[RailPort]) -> list[_Column]:
    found: dict[tuple[str, str, int], _Column] = {}
    at_one_address: Counter[tuple[str, str]] = Counter()
    for port in ports:
        place = (port.node, port.pci)
        key = (port.server, port.pci, at_one_address[place])  # one function may have two ports
        at_one_address[place] += 1
        found.setdefault(key, _Column(port.server, port.pci)).ports.append(port)
    return list(found.values())


def _find_homes(columns: Sequence[_Column], kind: Kind, labels: Labels) -> None:
    """Which labels are which column's, and which ports have one that is another's."""
    places: dict[str, list[tuple[_Column, RailPort]]] = defaultdict(list)
    for column in columns:
        for port in column.ports:
            if port in labels:
                places[labels[port]].append((column, port))
    for label, found in places.items():
        per_node = Counter(port.node for _, port in found)
        several = sum(1 for count in per_node.values() if count > 1)
        per_column = Counter(id(column) for column, _ in found)
        if several * 2 >= len(per_node):
            for column, port in found:
                if per_column[id(column)] * 2 >= len(per_node):
                    column.blurred.add(kind)
                else:
                    column.astray.setdefault(port, {})[kind] = label
            continue
        home, count = per_column.most_common(1)[0]
        for column, port in found:
            if count * 2 <= len(found):
                column.split.setdefault(port, set()).add(kind)
            elif id(column) == home:
                column.homes.setdefault(kind, set()).add(label)
            else:
                column.astray.setdefault(port, {})[kind] = label


def _share(column: _Column, holds: Callable[[RailPort], bool]) -> float:
    return sum(1 for port in column.ports if holds(port)) / len(column.ports)


def _in_order(column: _Column) -> tuple[list[int], str]:
    """By the GPUs that most of its ports are near, else by slot."""
    gpus = Counter(port.gpu for port in column.ports if port.gpu).most_common(1)
    return ([int(place) for place in gpus[0][0].split()] if gpus else [1_000_000], column.pci)


def _as_numbered(rail: str) -> tuple[int, str]:
    number = rail.rpartition("-")[2]
    return (int(number) if number.isdecimal() else 1_000_000, rail)
