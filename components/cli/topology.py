"""`rocelab topology`."""

from pathlib import Path

import click

from components.audit.fleet import AuditFleet
from components.cli.options import FILE, stack_options, verb
from components.inventory.document import load
from components.inventory.model import Inventory
from components.stack import Stack, ask_pulumi
from components.topology import FORMATS, Heard, Topology, topology_of
from stacks.lab import Lab
from stacks.words import some


def heard_in(inventory: Inventory, lab: Lab) -> Heard:
    """What an inventory knows by LLDP and by the MAC tables of switches, of NICs on rails."""
    fleet = AuditFleet(inventory, lab, None)
    heard: dict[str, dict[str, str]] = {}
    for port in fleet.ports:
        node = fleet.node(port.host)
        if node and port.declared and port.leaf:
            heard.setdefault(node.name, {})[port.declared.interface] = port.leaf.name
    return heard


@verb(
    "rocelab topology --stack dgx | kubectl apply --server-side --field-manager rocelab -f -",
    "rocelab topology --stack dgx --format slurm > /etc/slurm/topology.conf",
    "rocelab topology --stack dgx --from inventory.json --format kueue",
)
@stack_options
@click.option(
    "--from",
    "inventory",
    type=FILE,
    help="Take the cables from a file of `rocelab look` instead of the stack's outputs.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMATS]),
    default="labels",
    show_default=True,
    help="Labels of Kubernetes nodes, Kueue's levels, or Slurm's topology.conf.",
)
def command(stack: Stack, inventory: Path | None, form: str) -> None:
    """Print which nodes share their leaf switches, for schedulers.

    Only NICs on rails count. A cable that was moved changes the stack's output in the next up.
    """
    lab = stack.lab()
    if inventory:
        topology = topology_of(lab, heard_in(load(inventory), lab))
    else:
        words = ("stack", "output", "topology", "--json", "--stack", stack.name)
        topology = Topology.model_validate_json(ask_pulumi(*words))
    if topology.unknown:
        click.echo(f"cables unknown: {some(topology.unknown, 5)}", err=True)
    click.echo(FORMATS[form](topology), nl=False)
