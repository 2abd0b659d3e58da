"""`rocelab measure`."""

import click

from components.cli.exits import Exit, ended, exit_of
from components.cli.options import json_option, show, stack_options, verb
from components.stack import Stack
from components.validation.by_hand import described, measured, planned
from components.validation.measuring import shown


@verb(
    "rocelab measure --stack lab --plan",
    "rocelab measure --stack lab --only ib_write_bw --only rail-a --only gpu01 --only gpu02",
    "rocelab measure --stack lab --node gpu07",
    "rocelab measure --stack lab --json > run.json",
)
@stack_options
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    help="Print what would be measured and for how long, and stop.",
)
@click.option(
    "--only",
    "names",
    multiple=True,
    metavar="NAME",
    help="A test, rail or node. Repeat it to combine several.",
)
@click.option(
    "--node",
    metavar="NAME",
    help="One node alone, without any network: each NIC writes to itself, each GPU copies to and "
    "from the host's memory.",
)
@json_option
def command(
    stack: Stack, only_plan: bool, names: tuple[str, ...], node: str | None, as_json: bool
) -> Exit:
    """Measure a lab and print the verdict, without changing its state.

    Exit code 4 means that nothing was measured, because the fabric carries other traffic.
    """
    lab = stack.lab()
    plan = planned(lab, names, node)
    if only_plan:
        documents = dict(plan.documents())
        text = "".join(f"--- # {name}\n{text}" for name, text in documents.items())
        document = {"duration": shown(plan), "documents": documents}
        show(f"{text}--- # {shown(plan)}", document, as_json=as_json)
        return Exit.CLEAN
    with ended("both ends of the running tests were stopped"):
        run = measured(stack, lab, plan)
    if as_json:
        record, verdict = run.record.model_dump_json(), run.summary.model_dump_json()
        click.echo(f'{{"record":{record},\n"verdict":{verdict}}}')
    else:
        click.echo(described(run.summary), nl=False)
    click.echo(f"raw outputs: {run.raw}", err=as_json)
    if run.busy:
        return Exit.UNREACHED
    return exit_of(findings=run.summary.function != "pass")
