"""`rocelab judge`."""

from pathlib import Path

import click

from components.cli.exits import Exit, exit_of
from components.cli.options import FILE, Output, is_given, output_options, stack_options, verb
from components.inventory.document import load
from components.judge.assessment import Assessment
from components.judge.judge import judge
from components.judge.known import KnownHardware, nic_gbit_s, of_inventory, of_lab
from components.judge.reader import read_results, text_of
from components.judge.show import Placed, as_markdown, as_text, document_of
from components.stack import Stack

FRAMINGS = {"roce": "roce_v2", "roce-v1": "roce_v1", "infiniband": "infiniband"}
MOST_BYTES = 64 * 2**20


@verb(
    "rocelab judge run.log --nic 400G --nics-per-node 8 --nodes 2 --gpus-per-node 8",
    "ib_write_bw 192.0.2.12 --report_gbits | rocelab judge - --nic 100G --mtu 4096",
    "rocelab judge before.log after.log --nic 200G --html judged.html",
)
@click.argument(
    "logs", nargs=-1, required=True, type=click.Path(allow_dash=True, dir_okay=False, exists=True)
)
@click.option("--nic", metavar="RATE", help="Line rate of a NIC: 400G, or 2x200G for a bond.")
@click.option(
    "--nics-per-node", type=click.IntRange(1, 64), help="Number of NICs that carry the test."
)
@click.option(
    "--mtu", type=click.Choice(["256", "512", "1024", "2048", "4096"]), help="Path MTU of RDMA."
)
@click.option("--link", type=click.Choice(list(FRAMINGS)), help="What the NICs use.")
@click.option("--nodes", type=click.IntRange(1), help="Number of nodes.")
@click.option(
    "--gpus-per-node", type=click.IntRange(1, 256), help="Number of GPUs or ranks per node."
)
@click.option("--gpu", metavar="MODEL", help="Such as H100, H100 PCIe or GB200.")
@click.option(
    "--inventory",
    type=FILE,
    help="Take the hardware from this file of `rocelab look`.",
)
@stack_options
@output_options
def command(
    stack: Stack,
    logs: tuple[str, ...],
    nic: str | None,
    nics_per_node: int | None,
    mtu: str | None,
    link: str | None,
    nodes: int | None,
    gpus_per_node: int | None,
    gpu: str | None,
    inventory: Path | None,
    output: Output,
) -> Exit:
    """Judge the output of a benchmark by what physics allows. It needs no lab, only the log.

    It reads perftest, nccl-tests, rccl-tests, OSU and Intel MPI benchmarks, ucx_perftest, Horovod
    and tf_cnn: whole, shortened or pasted from an issue. A lab file counts only if you name it.
    Use - for stdin.

    Exit code 4 means that something could not be judged.
    """
    options = KnownHardware(
        nic_gbit_s=nic and nic_gbit_s(nic),  # type: ignore[arg-type]
        nics_per_node=nics_per_node,
        path_mtu_bytes=mtu and int(mtu),  # type: ignore[arg-type]
        framing=link and FRAMINGS[link],  # type: ignore[arg-type]
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        gpu=gpu,
    )
    placed = _judged(logs, options.over(_files(inventory, stack)))
    document = document_of(placed)
    output.write(as_text(placed), document, lambda: as_markdown(placed), lambda: _page(placed))
    return exit_of(
        findings=any(assessment.bad for _, assessment in placed),
        unreached=any(assessment.verdict == "cannot judge" for _, assessment in placed),
    )


def _page(placed: Placed) -> str:
    from components.judge.page import as_html  # noqa: PLC0415  # draws, which takes a second

    return as_html(placed)


def _judged(logs: tuple[str, ...], known: KnownHardware) -> list[tuple[str, Assessment]]:
    """Each result of each log with its place."""
    placed = []
    for log in logs:
        with click.open_file(log, "rb") as stream:
            results = read_results(text_of(stream.read(MOST_BYTES)))
        for number, result in enumerate(results, 1):
            place = "stdin" if log == "-" else log
            if len(results) > 1:
                place = f"{place} ({number} of {len(results)}, line {result.line})"
            placed.append((place, judge(result, known)))
    return placed


def _files(inventory: Path | None, stack: Stack) -> KnownHardware:
    """What an inventory and a lab file, if you name one, say; the inventory wins."""
    known = KnownHardware()
    if is_given(stack):
        known = of_lab(stack.lab())
    if inventory is not None:
        known = of_inventory(load(inventory)).over(known)
    return known
