"""`rocelab ports`."""

from collections.abc import Sequence

import click
from pydantic import JsonValue

from components.cli.exits import Exit, exit_of
from components.cli.options import json_option, show, stack_options, verb
from components.finding import Finding
from components.ports.check import NOT_TESTED, Trial, faults, table, try_all
from components.ports.matrix import as_json as matrix_as_json
from components.ports.matrix import as_markdown
from components.ports.targets import thinned
from components.stack import Stack
from stacks.lab import Lab
from stacks.words import plural


@verb("rocelab ports --stack dgx", "rocelab ports --stack dgx --check")
@stack_options
@click.option("--check", is_flag=True, help="Over SSH, try each connection from its source.")
@json_option
def command(stack: Stack, check: bool, as_json: bool) -> Exit:
    """Print the port matrix of a lab, or check that every port is reachable."""
    lab = stack.lab()
    if not check:
        text = matrix_as_json(lab) if as_json else as_markdown(lab)
        click.echo(text, nl=False)
        return Exit.CLEAN
    trial = try_all(lab, stack.root, stack.secret)
    findings = faults(trial.answers)
    lines = [*thinned(lab), *(f"FAULT {finding}" for finding in findings)]
    tried, count = plural(len(trial.answers), "way"), plural(len(findings), "fault")
    lines.append(f"{tried} tried, {count}, {len(trial.left)} not checkable")
    text = table(trial.answers, trial.left) + "\n".join(lines)
    show(text, _document(lab, trial, findings), as_json=as_json)
    not_tested = [finding for finding in findings if finding.code == NOT_TESTED]
    return exit_of(
        findings=len(findings) > len(not_tested),
        unreached=bool(not_tested) or trial.unreached,
    )


def _document(lab: Lab, trial: Trial, findings: Sequence[Finding]) -> dict[str, JsonValue]:
    ways: list[JsonValue] = []
    for answer in trial.answers:
        probe = answer.probe
        ways.append(
            {
                "from": probe.source or "here",
                "to": probe.target,
                "protocol": probe.row.protocol,
                "port": str(probe.port),
                "answer": answer.summary,
            }
        )
    not_checkable: list[JsonValue] = []
    for unproven in trial.left:
        row = unproven.row
        not_checkable.append(
            {"from": row.source, "to": row.target, "ports": row.ports, "why": unproven.why}
        )
    return {
        "lab": lab.name,
        "ways": ways,
        "faults": [finding.model_dump() for finding in findings],
        "not_checkable": not_checkable,
    }
