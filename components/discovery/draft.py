"""The draft: an inventory as a lab file that loads and changes nothing by itself."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from components.discovery.candidates import ports_of
from components.discovery.draft_cluster import cluster_of, leave_to_operators
from components.discovery.draft_nodes import plan_of
from components.discovery.draft_switches import switches_of
from components.discovery.folding import fold
from components.discovery.infer_rails import RailOfPorts, infer_rails
from components.discovery.questions import Answers, DraftPlan, Entry, Evidence, Notice, Question
from components.inventory.model import Host, Inventory
from stacks.access import known_hosts_name
from stacks.base import LabError
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.read import KEY, parse_lab
from stacks.words import plural

HEAD = """\
# yaml-language-server: $schema=stacks/lab.schema.json
# Drafted by rocelab discover. Open questions: questions.md. What the first `pulumi up` changes:
# first-up.md. Drivers, firmware, QoS, routes and switches are left as they are until you say
# otherwise: docs/lab-file.md.
"""
HOST_KEY = "ssh-ed25519 "
FIRST = ("one-subnet",)
"""Questions that others are only a consequence of."""
SMALL = {
    "repeats": 1,
    "verbs": {"iterations": 100, "latency_iterations": 100, "sizes": [], "queue_pairs": 1},
}
"""What emulated nodes transfer in a minute; the defaults would take them most of an hour."""
USER = "root"
"""Of a host of which the look kept no login name."""


@frozen
class Draft:
    """What discovery makes of an inventory."""

    name: str
    text: str
    """The stack file; empty when no rail is decided."""
    lab: Lab | None
    hosts: Mapping[str, Host]
    """The hosts of the draft by the name of their node."""
    questions: tuple[Question, ...]
    notices: tuple[Notice, ...]
    rails: tuple[RailOfPorts, ...]
    unread: tuple[str, ...]
    """What could not be read."""

    @property
    def in_short(self) -> str:
        """One line for people."""
        parts = ["no draft"]
        if self.lab:
            parts = [plural(len(self.lab.rails), "rail"), plural(len(self.lab.nodes), "node")]
        if self.drained:
            parts.append(f"{len(self.drained)} drained")
        if self.questions:
            parts.append(plural(len(self.questions), "open question"))
        if self.unread:
            parts.append(f"{len(self.unread)} not read")
        return f"{self.name}: {', '.join(parts)}"

    @property
    def drained(self) -> list[str]:
        """The nodes that are left alone."""
        nodes = self.lab.nodes if self.lab else ()
        return [node.name for node in nodes if node.state == "drained"]

    @property
    def known_hosts(self) -> str:
        """The keys that answered, for `access.known_hosts_file`."""
        lines = []
        for host in self.hosts.values():
            if host.host_key.startswith(HOST_KEY):
                place = known_hosts_name(host.address, host.ssh_port)
                lines.append(f"{place} {host.host_key}\n")
        return "".join(lines)


def draft_of(
    inventory: Inventory,
    name: str,
    known_hosts_file: str,
    answers: Answers | None = None,
    *,
    key_file: str | None = None,
) -> Draft:
    """Drafts a lab.

    Args:
        inventory: what was read.
        name: of the lab and its stack.
        known_hosts_file: where the draft says that the host keys are.
        answers: to the questions of an earlier draft.
        key_file: private key of the login, which only a lab of the simulator names.

    Raises:
        LabError: when an answer fits nothing.
    """
    answers = answers or Answers()
    read = [host for host in inventory.hosts if not host.unread]
    virtual = bool(read) and all(host.address.startswith("127.") for host in read)
    ports = ports_of(inventory, virtual=virtual)
    silent = {host.name for host in inventory.hosts if host.unread}
    answered = {}
    for place, rail in answers.by_port().items():
        if place[0] not in silent:
            answered[place] = rail
    inference = infer_rails(ports.ports, answered)
    rails = inference.rails
    plan = plan_of(inventory, rails, inference.in_question, answers.host_subnets)
    login = {"identity": "agent"}
    if virtual and key_file:
        login = {"identity": "file", "key_file": key_file}
    lab: dict[str, Any] = {
        "name": name,
        "kind": "virtual" if virtual else "hardware",
        "access": {"user": _user(read), **login, "known_hosts_file": known_hosts_file},
    }
    loaded = None
    if plan.nodes:
        lab |= _sections(inventory, rails, answers, plan)
        lab["benchmarks"] = {"rerun": "asked", **(SMALL if virtual else {})}
        lab, loaded = _that_loads(lab, plan)
    text = ""
    if loaded:
        text, loaded = _written(lab, loaded, plan)
    questions = [*inference.questions, *plan.questions]
    if read and not rails and not questions:
        questions = [_no_port(read)]
    return Draft(
        name=name,
        text=text,
        lab=loaded,
        hosts={plan.names[host.name]: host for host in read if host.name in plan.names},
        questions=tuple(sorted(questions, key=lambda question: question.code not in FIRST)),
        notices=(*ports.notices, *inference.notices, *plan.notices),
        rails=rails,
        unread=tuple(_unread(inventory)),
    )


def _no_port(hosts: Sequence[Host]) -> Question:
    evidence = Evidence()
    for host in hosts:
        if host.pfs.is_known:
            evidence.add(host.name, plural(len(host.pfs.or_else(())), "NIC port"))
        else:
            evidence.add(host.name, f"NIC ports unknown: {host.pfs.unknown}")
    return Question(
        code="no-port",
        nodes=tuple(host.name for host in hosts),
        text="Where are the NICs of the rails? No port qualifies: a rail needs an RDMA device of "
        "driver mlx5_core.",
        evidence=(*evidence.lines(), "the notices below say why ports were left out"),
    )


def _user(hosts: Sequence[Host]) -> str:
    users = Counter(host.user for host in hosts if host.user).most_common(1)
    return users[0][0] if users else USER


def _unread(inventory: Inventory) -> list[str]:
    unread = [(host.name, host.unread) for host in inventory.hosts]
    for switch in inventory.switches:
        unread.append((switch.name, switch.unread))
    if inventory.cluster:
        unread.append((inventory.cluster.server, inventory.cluster.unread))
    return [f"{name}: {why}" for name, why in unread if why]


def _sections(
    inventory: Inventory, rails: Sequence[RailOfPorts], answers: Answers, plan: DraftPlan
) -> Entry:
    """Everything below access, in the order in which people read it."""
    cluster = cluster_of(inventory, rails, answers, plan)
    leave_to_operators(inventory, cluster, plan)
    switches = switches_of(inventory, rails, plan)
    exclusive = plan.rdma_namespaces == "exclusive"
    return {
        **({"hosts": {"rdma_namespaces": "exclusive"}} if exclusive else {}),
        "rails": plan.rails,
        "nodes": plan.nodes,
        **({"switches": switches} if switches else {}),
        **({"cluster": cluster} if cluster else {}),
    }


def _that_loads(lab: Entry, plan: DraftPlan) -> tuple[Entry, Lab | None]:
    """The lab without what the loader refuses, such as subnets that overlap."""
    refusals: list[str] = []
    without: Entry = dict(lab)
    for dropped in ((), ("switches",), ("cluster",)):
        without = {key: value for key, value in without.items() if key not in dropped}
        if dropped == ("cluster",):
            without["rails"] = []
            for rail in lab["rails"]:
                flat = {key: value for key, value in rail.items() if key != "pod"}
                without["rails"].append(flat)
        try:
            loaded = parse_lab(json.dumps(without), "the draft")
        except LabError as error:
            refusals.append(str(error))
            continue
        if refusals:
            parts = " and ".join(sorted(lab.keys() - without.keys()))
            text = f"The draft has no {parts}: a lab file cannot describe them as they are."
            plan.questions.append(_refused(text, refusals[-1]))
        return without, loaded
    plan.questions.append(_refused("A lab file cannot describe these hosts.", refusals[-1]))
    return without, None


def _refused(text: str, refusal: str) -> Question:
    lines = tuple(line.strip() for line in refusal.splitlines()[1:])
    return Question(code="refused", text=text, evidence=lines)


def _written(lab: Entry, loaded: Lab, plan: DraftPlan) -> tuple[str, Lab]:
    """The text, with groups where they stand for exactly this lab; and the lab as it is written."""
    groups = fold(lab, plan.servers)
    grouped = parse_lab(json.dumps(groups), "the draft")
    if are_alike(grouped, loaded):
        return _stack_text(groups), grouped
    return _stack_text(lab), loaded


def _stack_text(lab: Entry) -> str:
    """The stack file, with a line for each PF or cable."""
    plain = json.loads(json.dumps(lab))  # what is shared would become an alias
    return HEAD + yaml.safe_dump(
        {"config": {KEY: plain}}, sort_keys=False, default_flow_style=None, width=1000
    )


def are_alike(lab: Lab, other: Lab) -> bool:
    """Whether two labs differ at most in the order of their nodes, which a group may change."""
    return _sorted(lab) == _sorted(other)


def _sorted(lab: Lab) -> Lab:
    nodes = tuple(sorted(lab.nodes, key=lambda node: node.name))
    return lab.model_copy(update={"nodes": nodes})
