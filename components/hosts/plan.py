"""What an up would change on the hosts of a lab, host by host, and folded into few rows."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field
from datetime import UTC, datetime

from pydantic import JsonValue

from components.hosts.calls import HostCalls, Report, each
from components.hosts.changes import WORDS, Change, changes
from components.hosts.records import HostRecord, Records, as_list, as_mapping, kept
from stacks.base import LabError
from stacks.frozen import frozen
from stacks.sets import folded, folded_places
from stacks.words import plural

Answers = Mapping[str, Report | str]
"""What each host reports, or why it was not read."""
Fields = Mapping[str, JsonValue]
RANKS = ("replace", "reboot", "pods", "link", "unread", "joins", "leaves", "none")
"""Effects, worst first."""
UNIT = "unit"
"""The field of the unit with its files, which a plan lists by name."""
ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?\b")
HOST_OWN = ("/var/lib/rocelab/", "/usr/local/lib/rocelab/")
"""Folders that nobody but rocelab uses."""


@frozen
class HostPlan:
    """What would change on one host."""

    changes: tuple[Change, ...] = ()
    files: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    vfs_in_use: Mapping[str, str] = field(default_factory=dict)
    """By PF and number, such as `enp5s0 VF 3`: who has it."""
    refusals: tuple[Mapping[str, str], ...] = ()
    """Step, reason and hint of each."""

    @property
    def removed_vfs(self) -> tuple[str, ...]:
        """The PFs that lose all their VFs before they get new ones."""
        return tuple(
            change.what.removesuffix(".vfs") for change in self.changes if _removes_vfs(change)
        )


@frozen
class Row:
    """A change that hosts share, except for their addresses."""

    effect: str
    cost: str
    what: str
    values: str
    """With `{}` for each address."""


async def read_plans(records: Records, private_key: str | None) -> dict[str, Report | str]:
    """What each host reports about its document, or why it does not. Takes no lock and changes
    nothing.
    """
    hosts = HostCalls(private_key)
    answers: dict[str, Report | str] = {}

    async def read(name: str, record: HostRecord) -> None:
        try:
            answers[name] = await hosts.call(record.endpoint, "plan", record.document)
        except LabError as error:
            answers[name] = str(error)

    await each(records, read)
    return answers


def plan_of(record: HostRecord, report: Report) -> HostPlan:
    """The plan of a host that answered."""
    name = str(record.document["host"])
    if report.failed:
        return HostPlan(refusals=(report.failed,))
    facts = report.facts
    return HostPlan(
        changes=tuple(changes_of(name, record, report.fields, kept(report))),
        files=tuple(map(str, as_list(facts.get("files")))),
        services=tuple(map(str, as_list(facts.get("services")))),
        vfs_in_use=_texts(facts.get("vfs_in_use")),
        refusals=tuple(_texts(refusal) for refusal in as_list(facts.get("refusals"))),
    )


def changes_of(
    name: str, record: HostRecord, fields: Fields, facts: Mapping[str, JsonValue]
) -> Iterator[Change]:
    """The fields of a host that differ from its document, without the unit."""
    before = record.model_copy(update={"fields": {**fields, UNIT: record.fields.get(UNIT)}})
    yield from changes({name: before}, {name: record}, {name: facts}, datetime.now(UTC))


def document_of(plan: HostPlan) -> dict[str, JsonValue]:
    """A plan as JSON."""
    rows: list[JsonValue] = []
    for change in plan.changes:
        fields = asdict(change)
        rows.append({key: fields[key] for key in ("what", "values", "effect")})
    return {
        "changes": rows,
        "files": list(plan.files),
        "services": list(plan.services),
        "vfs_in_use": dict(plan.vfs_in_use),
        "refusals": [dict(refusal) for refusal in plan.refusals],
    }


def table(plans: Mapping[str, HostPlan]) -> Iterator[str]:
    """Effect, place and change as a table in Markdown, the worst effect first."""
    places: dict[Row, dict[tuple[str, str], Sequence[str]]] = defaultdict(dict)
    for host, plan in plans.items():
        for change in plan.changes:
            row, interface, addresses = _row(change)
            places[row][host, interface] = addresses
        for row in _rows_of_files(plan):
            places[row][host, ""] = ()
    if not places:
        return
    yield "| Effect | Where | Change |"
    yield "|---|---|---|"
    for row in sorted(places, key=lambda row: (RANKS.index(row.effect), row.what, row.values)):
        columns = zip(*places[row].values(), strict=True)
        values = row.values.format(*(", ".join(folded(column)) for column in columns))
        yield f"| {row.cost} | {folded_places(places[row])} | {row.what} {values} |".replace(
            "=>", "→"
        )


def remarks(plans: Mapping[str, HostPlan], answers: Answers) -> Iterator[str]:
    """VFs in use, refusals, and hosts that were not read; equal ones are folded."""
    hosts: dict[str, list[str]] = defaultdict(list)
    for name, plan in plans.items():
        for vf, use in plan.vfs_in_use.items():
            if vf.partition(" ")[0] in plan.removed_vfs:
                hosts[f"{vf} is in use and would be removed: {use}"].append(name)
        for refusal in plan.refusals:
            hosts[f"**refused**: {refusal.get('reason')}; {refusal.get('hint')}"].append(name)
    for name, answer in answers.items():
        if isinstance(answer, str):
            hosts[f"**not read**: {answer}"].append(name)
    for text, names in hosts.items():
        yield f"- {', '.join(folded(names))}: {text}"


def _row(change: Change) -> tuple[Row, str, Sequence[str]]:
    """The row of a change, its interface, and the addresses in its values."""
    interface, _, what = change.what.rpartition(".")
    values = change.values if not change.values.startswith(" =>") else f"none{change.values}"
    if what == "address":
        values = _with_losses(values)
    cost = change.cost.replace(interface, "it") if interface else change.cost
    if what == "vfs" and " in use, " in cost:
        cost = f"{WORDS['pods']}; refused while VFs are in use"
    braced = values.replace("{", "{{").replace("}", "}}")
    return (
        Row(effect=change.effect, cost=cost, what=what, values=ADDRESS.sub("{}", braced)),
        interface,
        ADDRESS.findall(values),
    )


def _with_losses(values: str) -> str:
    """An address change with what the NIC loses: rocelab owns a rail's NIC, so other IPv4 addresses
    go.
    """
    before, _, after = values.partition(" => ")
    kept_or_new = after.split()
    gone = [address for address in before.split() if address not in kept_or_new]
    lost = list(filter(ADDRESS.match, gone))
    return f"{values}, loses {' '.join(lost)}" if lost else values


def _rows_of_files(plan: HostPlan) -> Iterator[Row]:
    files = [path for path in plan.files if not path.startswith(HOST_OWN)]
    own = {folder for folder in HOST_OWN for path in plan.files if path.startswith(folder)}
    if plan.files:
        listed = ", ".join([*files, *sorted(own)])
        yield Row(
            effect="none",
            cost=WORDS["none"],
            what="files",
            values=listed.replace("{", "{{").replace("}", "}}"),
        )
    if plan.services:
        cost = f"{plural(len(plan.services), 'service')} may restart"
        yield Row(effect="none", cost=cost, what="services", values=", ".join(plan.services))


def _removes_vfs(change: Change) -> bool:
    return change.what.endswith(".vfs") and not change.values.startswith(("0 ", "none "))


def _texts(value: JsonValue) -> dict[str, str]:
    return {key: str(text) for key, text in as_mapping(value).items()}
