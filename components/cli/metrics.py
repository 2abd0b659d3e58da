"""`rocelab metrics`: alert rules, a board and the verdict, for Prometheus and Grafana."""

import click

from components.cli.options import examples, show, stack_options
from components.gate.state import measured_state
from components.metrics.prometheus import board_of, rules_of, verdict_text
from components.stack import Stack
from stacks.safe_yaml import to_yaml


@click.group(
    epilog=examples(
        "rocelab metrics rules --stack dgx > /etc/prometheus/rules/dgx.yml",
        "rocelab metrics dashboard --stack dgx > dgx.json",
    )
)
def command() -> None:
    """Print alert rules, a dashboard and the verdict, for Prometheus and Grafana."""


@command.command(epilog=examples("rocelab metrics rules --stack dgx | promtool check rules"))
@stack_options
def rules(stack: Stack) -> None:
    """Print the alert rules of the lab for Prometheus."""
    click.echo(to_yaml(rules_of(stack.lab())), nl=False)


@command.command(epilog=examples("rocelab metrics dashboard --stack dgx > dgx.json"))
@stack_options
def dashboard(stack: Stack) -> None:
    """Print a dashboard of the lab to import into Grafana."""
    show("", board_of(stack.lab()), as_json=True)


@command.command(
    epilog=examples("rocelab metrics verdict --stack dgx > NODE_EXPORTER/rocelab_verdict.prom")
)
@stack_options
def verdict(stack: Stack) -> None:
    """Print value and age of the stack's verdict as a text file of node_exporter."""
    lab = stack.lab()
    click.echo(verdict_text(lab.name, measured_state(stack, lab, None)), nl=False)
