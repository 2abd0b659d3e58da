"""`rocelab ports`."""

import click

from components.cli.exits import Exit, exit_of
from components.cli.options import examples, json_option, print_json, stack_options
from components.ports.check import Trial, faults, table, try_all, unasked
from components.ports.matrix import as_json as matrix_as_json
from components.ports.matrix import as_markdown
from components.ports.targets import thinned
from components.stack import Stack
from stacks.lab import Lab
from stacks.words import plural


@click.command(epilog=examples("rocelab ports --stack dgx", "rocelab ports --stack dgx --check"))
@stack_options
@click.option("--check", is_flag=True, help="Try each connection over SSH, from where it has to be open.")
@json_option
def command(stack: Stack, check: bool, as_json: bool) -> Exit:
    """Print the port matrix of a lab, or check that every port is reachable."""
    lab = stack.lab()
    if not check:
        click.echo(matrix_as_json(lab) if as_json else as_markdown(lab), nl=False)
        return Exit.CLEAN
    trial = try_all(lab, stack.root, stack.secret)
    wrong = faults(trial.answers)
    if as_json:
        print_json(_document(lab, trial, wrong))
    else:
        click.echo(table(trial.answers, trial.left), nl=False)
        for line in (*thinned(lab), *(f"FAULT {line}" for line in wrong)):
            click.echo(line)
        tried, found = plural(len(trial.answers), "way"), plural(len(wrong), "fault")
        click.echo(f"{tried} tried, {found}, {len(trial.left)} not checkable")
    unknown = unasked(trial.answers)
    return exit_of(findings=len(wrong) > len(unknown), unreached=bool(unknown) or trial.unreached)


def _document(lab: Lab, trial: Trial, wrong: list[str]) -> dict[str, object]:
    return {
        "lab": lab.name,
        "ways": [
            {
                "from": answer.probe.source or "here",
                "to": answer.probe.target,
                "protocol": answer.probe.row.protocol,
                "port": answer.probe.ports,
                "answer": answer.summary,
            }
            for answer in trial.answers
        ],
        "faults": wrong,
        "not_checkable": [
            {"from": one.row.source, "to": one.row.target, "ports": one.row.ports, "why": one.why} for one in trial.left
        ],
    }
