"""Rails from independent evidence: the GPU behind the same bridge, the leaf, the subnet, the slot.

A column is one PCI slot of all nodes of one server class. It becomes a rail when two kinds of
evidence say so on every node and none contradicts; everything else is a question. Names never
count: drivers and kernels change them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from components.discovery.candidates import RailPort, link_labels
from components.discovery.questions import NONE, Evidence, Notice, Question, names, port_answer
from stacks.base import LabError
from stacks.frozen import frozen
from stacks.words import plural, some

Kind = Literal["gpu", "leaf", "subnet"]
"""Evidence beside the slot."""
FEW = 3
"""Ports that a question shows with switch port and address; more are folded."""
LAST = 1_000_000
"""Sorts what has no number behind what has one."""
WORDS: Mapping[Kind, str] = {"gpu": "GPU", "leaf": "leaf", "subnet": "subnet"}
Labels = Mapping[RailPort, str]
"""What one kind of evidence says of ports; a port of which it says nothing is not there."""


@frozen
class RailOfPorts:
    """A rail with one port per node."""

    name: str
    ports: Mapping[str, RailPort]
    """By node."""
    evidence: tuple[str, ...]
    """What says so on every node."""


@frozen
class Inference:
    """What the evidence decides, and what it does not."""

    rails: tuple[RailOfPorts, ...]
    questions: tuple[Question, ...]
    notices: tuple[Notice, ...]
    in_question: frozenset[RailPort]
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

    @property
    def name(self) -> str:
        """As the first node names the port."""
        return self.ports[0].interface

    def against(self, port: RailPort) -> set[Kind]:
        """Kinds of evidence against a port's place in this column."""
        return {*self.astray.get(port, ()), *self.split.get(port, ())}

    def shares_a_home(self, other: "_Column") -> bool:
        """Whether leaf or subnet say that a column of another class is on the same rail."""
        kinds: tuple[Kind, ...] = ("leaf", "subnet")
        return any(self.homes.get(kind, set()) & other.homes.get(kind, set()) for kind in kinds)


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
        self._in_question: set[RailPort] = set()
        self._ask_about_unused([port for port in ports if port not in self._answered], ports)
        decided = self._answered.keys() | self._in_question
        open_ports = [port for port in ports if port not in decided]
        self._labels: dict[Kind, Labels] = {
            "gpu": {port: port.gpu for port in open_ports if port.gpu},
            "leaf": {port: port.leaf.name for port in open_ports if port.leaf},
            "subnet": _subnets(open_ports),
        }
        self._classes = _columns_by_class(open_ports)

    def run(self) -> Inference:
        for columns in self._classes.values():
            for kind in WORDS:
                _find_homes(columns, kind, self._labels[kind])
        for columns in self._classes.values():
            self._ask_about_cards(columns)
            self._ask_about_storage(columns)
        accepted = [self._accepted(rail) for rail in self._joined()]
        return self._named([ports for ports in accepted if ports])

    # questions about whole columns

    def _ask_about_unused(self, open_ports: list[RailPort], ports: Sequence[RailPort]) -> None:
        """Slots without cable and address on every node: a question where a node has no others."""
        used = {(port.server, port.pci) for port in ports if not port.is_unused}
        servers = {server for server, _ in used}
        unused: dict[str, list[str]] = defaultdict(list)
        not_set_up: dict[str, list[RailPort]] = defaultdict(list)
        for port in open_ports:
            if not port.is_unused or (port.server, port.pci) in used:
                continue
            self._in_question.add(port)
            if port.server not in servers and port.carrier is not False:
                not_set_up[port.node].append(port)
            else:
                unused[port.interface].append(port.node)
        if not_set_up:
            self._questions.append(_how_to_set_up(not_set_up))
        for interface, nodes in unused.items():
            text = f"{interface} has neither cable nor address"
            self._notices.append(Notice(code="unused", nodes=tuple(nodes), text=text))

    def _ask(self, code: str, text: str, ports: Iterable[RailPort]) -> None:
        open_ports = [port for port in ports if port not in self._in_question]
        if not open_ports:
            return
        evidence = Evidence()
        answers: dict[str, dict[str, str]] = defaultdict(dict)
        for port in open_ports:
            evidence.add(port.node, self._evidence_of(port, in_full=len(open_ports) <= FEW))
            answers[port.node][port.interface] = "rail-N"
        question = Question(
            code=code,
            nodes=tuple(answers),
            text=text,
            evidence=evidence.lines(),
            answer=port_answer(answers),
        )
        self._questions.append(question)
        self._in_question |= set(open_ports)

    def _evidence_of(self, port: RailPort, *, in_full: bool) -> str:
        """What is known of a port; of many ports only what several may have alike."""
        gpu, leaf = "GPU unknown", "leaf unknown"
        if port.gpu is not None:
            gpu = "no GPU below its bridge"
            if port.gpu:
                gpu = f"GPU {port.gpu}"
        if port.leaf:
            leaf = port.leaf.name
            if in_full:
                leaf = f"{leaf} {port.leaf.port}".strip()
        subnet = self._labels["subnet"].get(port, "")
        addresses = ", ".join(map(str, port.addresses))
        where = subnet or addresses
        if in_full and subnet and addresses:
            where = f"{addresses}, {subnet}"
        where = where or port.without_addresses
        return f"{port.interface} at {port.pci}: {gpu}, {leaf}, {where}"

    def _ask_about_cards(self, columns: list[_Column]) -> None:
        """Two ports of one card are two rails, or two planes of one: no host says which."""
        cards: dict[str, list[_Column]] = defaultdict(list)
        for column in columns:
            cards[column.pci.rpartition(".")[0]].append(column)
        for card, twins in cards.items():
            if len(twins) > 1:
                count = plural(len(twins), "port")
                text = f"Is the NIC at {card} with {count} one rail or {len(twins)}?"
                self._ask("one-card", text, [port for twin in twins for port in twin.ports])

    def _ask_about_storage(self, columns: list[_Column]) -> None:
        """A NIC that no GPU is near, where others have one, may well be for storage."""
        far = []
        any_near = False
        for column in columns:
            gpus = Counter(port.gpu for port in column.ports)
            without, unknown = gpus[""], gpus[None]
            any_near |= (len(column.ports) - without - unknown) * 2 > len(column.ports)
            if without * 2 > len(column.ports):
                far.append(column)
        for column in far if any_near else ():
            text = f"Is {column.name} ({column.pci}), with no GPU below its bridge, a rail?"
            self._ask("no-gpu", text, column.ports)

    # the same rail in several server classes

    def _joined(self) -> list[list[_Column]]:
        """Columns by rail: the largest class has the rails, and the others' columns find theirs."""
        rails: list[list[_Column]] = []
        for number, columns in enumerate(sorted(self._classes.values(), key=_largest_first)):
            open_columns = [column for column in columns if self._is_open(column)]
            if number == 0:
                rails = [[column] for column in sorted(open_columns, key=_in_order)]
                continue
            places = [_places_of(column, rails) for column in open_columns]
            for column, own in zip(open_columns, places, strict=True):
                if len(own) == 1 and places.count(own) == 1:
                    rails[own[0]].append(column)
                else:
                    self._ask_about_a_place(column, contradiction=bool(own))
        return rails

    def _is_open(self, column: _Column) -> bool:
        return any(port not in self._in_question for port in column.ports)

    def _ask_about_a_place(self, column: _Column, *, contradiction: bool) -> None:
        code, why = "other-model", "It shares no leaf or subnet with a decided rail."
        if contradiction:
            code, why = "contradiction", "Its leaf and its subnet belong to different rails."
        text = f"Which rail is {column.name} of {column.server} on? {why}"
        self._ask(code, text, column.ports)

    # acceptance, port by port

    def _accepted(self, rail: list[_Column]) -> dict[RailPort, frozenset[str]]:
        """The ports that two kinds of evidence put on a rail, with these; asks about the others."""
        accepted: dict[RailPort, frozenset[str]] = {}
        counts = {}
        for kind in WORDS:
            counts[kind] = self._label_counts(rail, kind)
        for column in rail:
            weak, contradicted = [], []
            for port in column.ports:
                if port in self._in_question:
                    continue
                evidence = self._evidence_for(column, port, counts)
                crossed = column.against(port) == {"leaf"} and port not in column.split
                if column.against(port) and not crossed:
                    contradicted.append(port)
                elif len(evidence) < 2:
                    weak.append(port)
                else:
                    accepted[port] = evidence
                    if crossed:
                        self._notice_a_crossed_cable(port, column.astray[port]["leaf"], column)
            self._ask_about_contradicted(column, contradicted)
            self._ask_about_weak(column, weak)
        return accepted

    def _label_counts(self, rail: list[_Column], kind: Kind) -> Counter[str]:
        counts: Counter[str] = Counter()
        for column in rail:
            counts.update(self._labels[kind].get(port, "") for port in column.ports)
        return counts

    def _evidence_for(
        self, column: _Column, port: RailPort, counts: Mapping[Kind, Counter[str]]
    ) -> frozenset[str]:
        """What puts a port on the rail of its column: labels of the column that others have too."""
        evidence = {"slot"} if len(column.ports) > 1 else set()
        for kind in WORDS:
            label = self._labels[kind].get(port)
            if label is None or kind in column.blurred:
                continue
            if label in column.homes.get(kind, ()) and counts[kind][label] > 1:
                evidence.add(kind)
        return frozenset(evidence)

    def _ask_about_contradicted(self, column: _Column, ports: list[RailPort]) -> None:
        against: set[Kind] = set()
        for port in ports:
            against |= column.against(port)
        kinds = " and ".join(sorted(WORDS[kind] for kind in against))
        text = (
            f"Which rail is {column.name} of {names(port.node for port in ports)} on? "
            f"By {kinds} it is on another rail than its slot."
        )
        self._ask("contradiction", text, ports)

    def _ask_about_weak(self, column: _Column, ports: list[RailPort]) -> None:
        where = why = ""
        if len(ports) < len(column.ports):
            where = f" of {names(port.node for port in ports)}"
        if column.blurred:
            kinds = ", ".join(WORDS[kind] for kind in sorted(column.blurred))
            why = f" ({kinds} is the same for several ports)"
        text = f"Is {column.name}{where} a rail, and which? Fewer than two kinds of evidence{why}."
        self._ask("too-little", text, ports)

    def _notice_a_crossed_cable(self, port: RailPort, leaf: str, column: _Column) -> None:
        labels = self._labels["leaf"]
        peers = Counter(labels[other] for other in column.ports if other in labels)
        home = peers.most_common(1)[0][0]
        text = f"{port.interface} is plugged into {leaf}, its peers into {home}"
        notice = Notice(
            code="cross-cabled", nodes=(port.node,), text=f"{text}; it keeps the rail of its slot"
        )
        self._notices.append(notice)

    # names

    def _named(self, accepted: list[dict[RailPort, frozenset[str]]]) -> Inference:
        rails: dict[str, dict[str, RailPort]] = {}
        evidence: dict[str, frozenset[str]] = {}
        for number, ports in enumerate(accepted, 1):
            name = f"rail-{number}"
            rails[name] = {port.node: port for port in ports}
            evidence[name] = frozenset.intersection(*ports.values())
        for port, name in self._answered.items():
            if name == NONE:
                continue
            other = rails.setdefault(name, {}).setdefault(port.node, port)
            if other is not port:
                raise LabError(
                    f"answers: {port.node} has {other.interface} and {port.interface} on {name}, "
                    "and a rail has one port per node; answer another rail or none"
                )
            evidence.setdefault(name, frozenset({"answer"}))
        by_name = []
        for name in sorted(rails, key=_as_numbered):
            kinds = tuple(sorted(evidence[name]))
            by_name.append(RailOfPorts(name=name, ports=rails[name], evidence=kinds))
        return Inference(
            rails=tuple(by_name),
            questions=tuple(self._questions),
            notices=tuple(self._notices),
            in_question=frozenset(self._in_question),
        )


def _how_to_set_up(ports: Mapping[str, Sequence[RailPort]]) -> Question:
    """Which of the ports that are not set up are rails, with lines that make each of them one."""
    evidence = Evidence()
    rails: dict[str, dict[str, str]] = {}
    for node, own in ports.items():
        in_order = sorted(own, key=lambda port: port.pci)
        rails[node] = {port.interface: f"rail-{n}" for n, port in enumerate(in_order, 1)}
        evidence.add(node, ", ".join(f"{port.interface} at {port.pci}" for port in in_order))
    most = max(map(len, rails.values()))
    subnets = ", ".join(f"rail-{n}: SUBNET" for n in range(1, most + 1))
    return Question(
        code="not-set-up",
        nodes=tuple(ports),
        text="Which of these ports are rails? None is up or has an address: only slots are "
        "evidence.",
        evidence=evidence.lines(),
        answer=f"{port_answer(rails)}\nhost_subnets: {{{subnets}}}",
    )


def _answered(
    ports: Sequence[RailPort], answers: Mapping[tuple[str, str], str]
) -> dict[RailPort, str]:
    by_key = {(port.node, port.interface): port for port in ports}
    by_key |= {(port.node, port.pci): port for port in ports}
    unknown = sorted(f"{node} {key}" for node, key in answers if (node, key) not in by_key)
    if unknown:
        raise LabError(
            f"answers: no such candidate: {some(unknown, 5)}; "
            "use the names of nodes and ports in questions.md"
        )
    return {by_key[place]: rail for place, rail in answers.items()}


def _subnets(ports: Sequence[RailPort]) -> Labels:
    """The subnet of each port; of links with two addresses their place among the node's links."""
    subnets = {port: str(port.address.network) for port in ports if port.address}
    links = [port for port in ports if port.address and port.address.network.prefixlen >= 30]
    return subnets | link_labels(links)


def _columns_by_class(ports: Iterable[RailPort]) -> dict[str, list[_Column]]:
    columns: dict[tuple[str, str, int], _Column] = {}
    at_one_address: Counter[tuple[str, str]] = Counter()
    for port in ports:
        place = (port.node, port.pci)
        key = (port.server, port.pci, at_one_address[place])  # one function may have two ports
        at_one_address[place] += 1
        columns.setdefault(key, _Column(port.server, port.pci)).ports.append(port)
    classes: dict[str, list[_Column]] = defaultdict(list)
    for column in columns.values():
        classes[column.server].append(column)
    return classes


def _find_homes(columns: Sequence[_Column], kind: Kind, labels: Labels) -> None:
    """Which labels are which column's, and which ports have one that is another's."""
    by_label: dict[str, list[tuple[_Column, RailPort]]] = defaultdict(list)
    for column in columns:
        for port in column.ports:
            if port in labels:
                by_label[labels[port]].append((column, port))
    for label, places in by_label.items():
        ports_of = Counter(port.node for _, port in places)
        several = sum(1 for count in ports_of.values() if count > 1)
        if several * 2 >= len(ports_of):
            _blur(places, len(ports_of), kind, label)
        else:
            _give_a_home(places, kind, label)


def _blur(places: list[tuple[_Column, RailPort]], nodes: int, kind: Kind, label: str) -> None:
    """A label that most nodes have on several ports says nothing of a column with many of them."""
    counts = Counter(id(column) for column, _ in places)
    for column, port in places:
        if counts[id(column)] * 2 >= nodes:
            column.blurred.add(kind)
        else:
            column.astray.setdefault(port, {})[kind] = label


def _give_a_home(places: list[tuple[_Column, RailPort]], kind: Kind, label: str) -> None:
    home, count = Counter(id(column) for column, _ in places).most_common(1)[0]
    for column, port in places:
        if count * 2 <= len(places):
            column.split.setdefault(port, set()).add(kind)
        elif id(column) == home:
            column.homes.setdefault(kind, set()).add(label)
        else:
            column.astray.setdefault(port, {})[kind] = label


def _places_of(column: _Column, rails: list[list[_Column]]) -> list[int]:
    """The rails that leaf and subnet put a column of another class on: one where they agree."""
    places = []
    for place, rail in enumerate(rails):
        if any(column.shares_a_home(other) for other in rail):
            places.append(place)
    return places


def _largest_first(columns: list[_Column]) -> int:
    return -max(len(column.ports) for column in columns)


def _in_order(column: _Column) -> tuple[list[int], str]:
    """By the GPUs that most of its ports are near, else by slot."""
    gpus = Counter(port.gpu for port in column.ports if port.gpu)
    if not gpus:
        return [LAST], column.pci
    return [int(place) for place in gpus.most_common(1)[0][0].split()], column.pci


def _as_numbered(rail: str) -> tuple[int, str]:
    number = rail.rpartition("-")[2]
    return (int(number) if number.isdecimal() else LAST), rail
