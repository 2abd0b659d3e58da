"""`rocelab plan`."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from components.cli.exits import Exit, exit_of
from components.cli.options import json_option, show, stack_options, verb
from components.hosts.calls import Report
from components.hosts.document import owner_of, target_record
from components.hosts.plan import (
    Answers,
    HostPlan,
    document_of,
    plan_of,
    read_plans,
    remarks,
    table,
)
from components.hosts.records import HostRecord
from components.ssh import credentials
from components.stack import Stack
from stacks.lab import Lab
from stacks.sets import folded
from stacks.words import plural


@verb("rocelab plan --stack dgx", "rocelab plan --config-file Pulumi.dgx.yaml --json")
@stack_options
@json_option
def command(stack: Stack, as_json: bool) -> Exit:
    """Show what `pulumi up` would change on each host, even before the first `up`.

    It reads the hosts over SSH, with sudo, and changes nothing: no lock, no file, no state. It
    needs no Pulumi login and no cluster. It shows settings and their effect, VFs that would be
    removed and who has them, addresses that a NIC loses, files, services, and what rocelab refuses.

    Exit code 1 means that rocelab refuses a host, 4 that a host was not read.
    """
    lab = stack.lab()
    records = _records(stack, lab)
    private_key = credentials.private_key(lab, stack.secret, stack.root)
    answers = asyncio.run(read_plans(records, private_key))
    plans, unread = {}, {}
    for name, answer in answers.items():
        if isinstance(answer, Report):
            plans[name] = plan_of(records[name], answer)
        else:
            unread[name] = answer
    hosts = {name: document_of(plan) for name, plan in plans.items()}
    show(_text(lab, plans, answers), {"hosts": hosts, "unread": unread}, as_json=as_json)
    refused = any(plan.refusals for plan in plans.values())
    return exit_of(findings=refused, unreached=bool(unread))


def _records(stack: Stack, lab: Lab) -> dict[str, HostRecord]:
    """Of each active node, with the owner that `pulumi up` would record."""
    keys = credentials.host_keys(lab, stack.root, stack.secret)
    owner = owner_of(lab, stack.name)
    return {
        node.name: target_record(lab, node, keys[node.name], owner) for node in lab.active_nodes
    }


def _text(lab: Lab, plans: Mapping[str, HostPlan], answers: Answers) -> str:
    rows = list(table(plans))
    notes = list(remarks(plans, answers))
    for state, count in Counter(node.state for node in lab.nodes if node.state != "active").items():
        names = folded(node.name for node in lab.nodes if node.state == state)
        effect = "left alone"
        if state != "drained":
            effect = "not read; `pulumi up` undoes what rocelab changed there"
        notes.append(f"- {plural(count, 'host')} with state {state}, {effect}: {', '.join(names)}")
    summary = f"{lab.name}: {plural(len(plans), 'host')} read; nothing was changed"
    body = rows or ["Nothing would change on these hosts."] * bool(plans)
    return "\n".join([summary, "", *body, *([""] if notes else []), *notes])
