"""What discovery could not decide, what it noticed, and how both are written down."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ConfigDict, Field, ValidationError

from stacks.base import LabError, Name, Network, Section
from stacks.faults import reason
from stacks.frozen import frozen
from stacks.safe_yaml import load_yaml
from stacks.sets import NameSet, folded, names_of

NONE = "none"
"""The answer for a port that is on no rail."""
MOST_ROWS = 12
"""Lines of evidence per question."""
HOW_TO_ANSWER = (
    "{} open. The draft leaves out what they are about. Copy the lines that you answer into",
    "`answers.yaml`, with a rail's name instead of `rail-N`, or `none` for no rail, and run",
    "`rocelab discover` again with `--answers answers.yaml`.",
    "",
)


@frozen
class Question:
    """Something that the inventory leaves open; the draft leaves it out until you answer."""

    code: str
    nodes: tuple[str, ...] = ()
    """Empty: it is about the lab."""
    text: str
    evidence: tuple[str, ...] = ()
    answer: str = ""
    """Lines for answers.yaml; empty where nothing but another look or a change of the hosts
    helps."""


@frozen
class Notice:
    """Something that is decided and worth a look."""

    code: str
    nodes: tuple[str, ...] = ()
    """As of a question."""
    text: str


Entry = dict[str, Any]
"""A rail, node or switch as a lab file has it."""


@dataclass(slots=True)
class DraftPlan:
    """Rails and nodes one by one, and what came up on the way."""

    rails: list[Entry] = field(default_factory=list)
    nodes: list[Entry] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Name of the node by that of the host in the inventory."""
    servers: dict[str, str] = field(default_factory=dict)
    """Server class by name of the node."""
    rdma_namespaces: str | None = None
    """What most hosts have."""

    def notice(self, code: str, text: str, nodes: Iterable[str] = ()) -> None:
        self.notices.append(Notice(code=code, nodes=tuple(nodes), text=text))


class Answers(Section):
    """answers.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ports: Mapping[NameSet, Mapping[str, Name]] = Field(default_factory=dict)
    """By set of nodes and by interface or PCI address: the rail of the port, or `none`."""
    host_subnets: Mapping[Name, Network] = Field(default_factory=dict)
    """By rail without any address, the subnet that its ports get theirs from, in the order of the
    hosts."""
    cluster: Literal["adopt", "leave"] | None = None
    """adopt: `up` manages what carries the rails into the cluster's pods. leave: it does not touch
    the cluster."""
    pod_subnet: Network | None = None
    """Of an adopted cluster whose nodes have no pod CIDR."""
    service_subnet: Network | None = None
    """Of an adopted cluster whose API server serves no ServiceCIDR."""
    networks: Mapping[Name, str] = Field(default_factory=dict)
    """By rail, the NetworkAttachmentDefinition of its pods, as `namespace/name`."""

    def by_port(self) -> dict[tuple[str, str], str]:
        """The rail of each answered port, by node and by interface or PCI address."""
        rails: dict[tuple[str, str], str] = {}
        for nodes, ports in self.ports.items():
            for node in names_of(nodes):
                for port, rail in ports.items():
                    rails[(node, port)] = rail
        return rails


def read_answers(path: Path) -> Answers:
    """The answers in a file.

    Raises:
        LabError: when it holds anything else.
    """
    try:
        answers = load_yaml(path.read_text(encoding="utf-8"))
        if answers is None:
            return Answers()
        return Answers.model_validate(answers)
    except yaml.YAMLError as error:
        raise LabError(f"{path}: no YAML: {error}") from None
    except UnicodeDecodeError:
        raise LabError(f"{path}: not UTF-8; save it as UTF-8") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise LabError(
            f"{path}: {where}: {reason(first)}; questions.md has the lines to copy"
        ) from None


def names(nodes: Iterable[str]) -> str:
    """Nodes as sets: `gpu[01-03], old1`."""
    return ", ".join(folded(nodes))


def port_answer(rails: Mapping[str, Mapping[str, str]]) -> str:
    """Lines of answers.yaml with the rail of each port; nodes with the same rails share a line."""
    alike: dict[str, list[str]] = {}
    for node, ports in rails.items():
        pairs = []
        for port, rail in ports.items():
            key = f'"{port}"' if ":" in port else port
            pairs.append(f"{key}: {rail}")
        alike.setdefault(", ".join(pairs), []).append(node)
    lines = ["ports:"]
    for text, nodes in alike.items():
        lines += [f'  "{name}": {{{text}}}' for name in folded(nodes)]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Rows of a table: equal ones are one row, with their nodes."""

    rows: dict[str, list[str]] = field(default_factory=dict)

    def add(self, node: str, text: str) -> None:
        """One more node that says this."""
        self.rows.setdefault(text, []).append(node)

    def lines(self) -> tuple[str, ...]:
        """The rows that most nodes have first."""
        ranked = sorted(self.rows.items(), key=lambda row: (-len(row[1]), row[0]))
        shown = []
        for text, nodes in ranked[:MOST_ROWS]:
            shown.append(f"{names(nodes)}: {text}")
        left = len(ranked) - len(shown)
        if left:
            return (*shown, f"and {left} more rows")
        return tuple(shown)


def as_markdown(
    name: str,
    questions: Sequence[Question],
    notices: Sequence[Notice],
    unread: Sequence[str] = (),
) -> str:
    """questions.md."""
    lines = [f"# {name}: open questions", ""]
    lines += [line.format(len(questions)) for line in HOW_TO_ANSWER] if questions else ["None.", ""]
    if unread:
        lines += ["## Not read", ""]
        lines += [
            "The draft has nothing about these. Run `rocelab look` again when they answer.",
            "",
        ]
        lines += [*(f"- {reason}" for reason in unread), ""]
    for number, question in enumerate(questions, 1):
        nodes = names(question.nodes) or "the lab"
        lines += [f"## {number}. {question.text}", "", f"`{question.code}`, {nodes}", ""]
        if question.evidence:
            lines += [*(f"- {row}" for row in question.evidence), ""]
        if question.answer:
            lines += ["```yaml", question.answer, "```", ""]
    if notices:
        lines += ["## Noticed", ""]
    for notice in notices:
        lines.append(f"- `{notice.code}` {names(notice.nodes) or 'the lab'}: {notice.text}")
    if notices:
        lines.append("")
    return "\n".join(lines)
