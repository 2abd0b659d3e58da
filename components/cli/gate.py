"""`rocelab gate`."""

from dataclasses import replace
from pathlib import Path

import click

from components.audit.audit import audit
from components.cli.audit import AuditOptions, audit_options
from components.cli.exits import Exit, exit_of
from components.cli.look import LookOptions, request_of
from components.cli.options import FILE, FOLDER, json_option, say, show, stack_options, verb
from components.gate.decision import GateMaterial, LabGate, decide
from components.gate.publish import publish, write_results
from components.gate.state import measured_state
from components.inventory.document import load, save
from components.inventory.kube import KubeNodes
from components.inventory.look import look
from components.inventory.model import Inventory
from components.kubernetes.client import KubernetesApi
from components.ssh import credentials
from components.stack import Stack
from components.validation.store import store_of
from stacks.base import LabError
from stacks.lab import Lab
from stacks.sets import folded

FORMATS = {"slurm": "slurm.sh", "nhc": "nhc.conf", "job": "job.yaml"}
TEMPLATES = Path(__file__).parents[1] / "gate" / "formats"
KEPT_LOOK = "gate.json"
"""The last look of a gate over all nodes, beside the lab's runs: the next one compares counters."""


@verb(
    "rocelab gate --stack dgx",
    "rocelab gate --stack dgx --node gpu07 --json",
    "rocelab gate --stack dgx --results /shared/rocelab --publish",
    "rocelab gate --format slurm --results /shared/rocelab > /etc/slurm/rocelab-gate.sh",
)
@stack_options
@click.option(
    "--node", "names", multiple=True, metavar="NAME", help="Only this node. Repeat it for more."
)
@click.option(
    "--state",
    "state_file",
    type=FILE,
    help="Output of `pulumi stack export`, instead of the stack's state.",
)
@audit_options
@click.option("--allow-stale", is_flag=True, help="Close no node because its verdict is stale.")
@click.option("--results", type=FOLDER, help="Write one line per node into this folder.")
@click.option(
    "--publish",
    "publishes",
    is_flag=True,
    help="Set the Node condition RocelabGate, and with `cluster.gate: taint` the taint.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(FORMATS)),
    help="Print how a scheduler asks the gate, and stop: a HealthCheckProgram of Slurm, lines for "
    "NHC, or a Kubernetes Job with an init container.",
)
@click.option(
    "--minutes",
    type=click.IntRange(1, 1440),
    default=30,
    show_default=True,
    help="With --format: minutes after which a result is unknown, or for which a Job waits.",
)
@json_option
def command(
    stack: Stack,
    names: tuple[str, ...],
    state_file: Path | None,
    audit_options: AuditOptions,
    allow_stale: bool,
    results: Path | None,
    publishes: bool,
    kind: str | None,
    minutes: int,
    as_json: bool,
) -> Exit:
    """Say in one line whether jobs may start: verdict, what changed since, and a fresh audit.

    It reads hosts, switches and cluster, and changes nothing; only --publish writes to the cluster.
    It never drains a node. Exit code 0: open, 1: closed, 4: unknown, a deciding part is unread.
    """
    if kind:
        click.echo(_scheduler_text(kind, results, minutes), nl=False)
        return Exit.CLEAN
    lab = stack.lab()
    nodes = _states(lab, names)
    measured = measured_state(stack, lab, state_file)
    inventory, earlier = _inventories(stack, lab, audit_options, names)
    gate = decide(
        GateMaterial(
            lab=lab,
            nodes=nodes,
            inventory=inventory,
            audit=audit(inventory, lab, earlier, audit_options.waivers()),
            measured=measured,
            fail_on=audit_options.fail_on,
            stale_closes=not allow_stale,
        )
    )
    if results:
        write_results(gate, results)
    if publishes:
        _publish(stack, lab, gate, inventory)
    show(gate.line, gate.document(), as_json=as_json)
    return exit_of(findings=gate.state == "closed", unreached=gate.state == "unknown")


def _scheduler_text(kind: str, results: Path | None, minutes: int) -> str:
    if results is None and kind != "job":
        raise click.UsageError(f"--format {kind} needs --results: the folder that nodes read")
    text = (TEMPLATES / FORMATS[kind]).read_text()
    folder = str(results.absolute()) if results else ""
    return text.replace("@FOLDER@", folder).replace("@MINUTES@", str(minutes))


def _states(lab: Lab, names: tuple[str, ...]) -> dict[str, str]:
    """The nodes at the gate, with their state in the lab file."""
    states = {node.name: node.state for node in lab.nodes}
    for name in names:
        if name not in states:
            known = ", ".join(folded(states))
            raise click.BadParameter(
                f"{name} is not a node of {lab.name}; nodes: {known}", param_hint="--node"
            )
    return {name: states[name] for name in names or states}


def _inventories(
    stack: Stack, lab: Lab, options: AuditOptions, names: tuple[str, ...]
) -> tuple[Inventory, Inventory | None]:
    """The lab as it is now, and the earlier look whose counters are compared."""
    kept = store_of(lab, stack.root) / KEPT_LOOK
    earlier = options.earlier()
    if options.source:
        return load(options.source), earlier
    if earlier is None and kept.is_file():
        earlier = load(kept)
    request = request_of(LookOptions(), stack)
    if names:
        request = replace(request, hosts=[host for host in request.hosts if host.name in names])
    inventory = look(request, say)
    if not names:
        kept.parent.mkdir(parents=True, exist_ok=True)
        save(inventory, kept)
    return inventory, earlier


def _publish(stack: Stack, lab: Lab, gate: LabGate, inventory: Inventory) -> None:
    if lab.cluster is None:
        raise LabError("--publish: the lab has no cluster; use --results")
    kube = KubeNodes(inventory.cluster)
    kube_names = {}
    for host in inventory.hosts:
        node = kube.of(host)
        if node:
            kube_names[host.name] = node.name
    kubeconfig = credentials.kubeconfig(lab, stack.secret, stack.root)
    if kubeconfig is None:
        raise LabError("--publish: the stack has no kubeconfig; use --results")
    with KubernetesApi(kubeconfig) as api:
        publish(api, gate, kube_names, taint=lab.cluster.gate == "taint")
