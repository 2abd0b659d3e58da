"""`rocelab image`: images that a lab pulls, that it builds, and whether one supports PVRDMA."""

from dataclasses import asdict
from pathlib import Path

import click

from components.cli.exits import Exit, exit_of
from components.cli.options import Verb, examples, json_option, say, show, stack_options
from components.cluster.profiles import images_of
from components.jobs import registry
from components.jobs.image.build import RESULTS, TOOLS, build, find_tool, pushed, target_of
from components.jobs.image.pvrdma import client_dockerfile, judge, read_image, repair_dockerfile
from components.jobs.registry import pins_of
from components.stack import Stack
from stacks.base import LabError
from stacks.safe_yaml import to_yaml

UNPACKED = click.Path(exists=True, path_type=Path)
"""An unpacked root is a folder, a tar is a file."""


@click.group(epilog=examples("rocelab image push --stack dgx", "rocelab image pin --stack dgx"))
def command() -> None:
    """List, pin, build, push and check container images."""


@command.command("list", epilog=examples("rocelab image list --stack dgx"))
@stack_options
@json_option
def list_(stack: Stack, as_json: bool) -> None:
    """List every image that the lab pulls.

    If the lab pulls an image from a mirror, the mirror's name follows a tab.
    """
    lab = stack.lab()
    pulled = {image: image for image in images_of(lab)}
    if lab.cluster:
        pulled = {image: lab.cluster.registry.resolve(image) for image in pulled}
    lines = []
    for names in pulled.items():
        lines.append("\t".join(dict.fromkeys(names)))
    rows = [{"image": image, "pulled_from": source} for image, source in pulled.items()]
    show("\n".join(lines), rows, as_json=as_json)


@command.command(epilog=examples("rocelab image pin --stack dgx"))
@stack_options
@json_option
def pin(stack: Stack, as_json: bool) -> Exit:
    """Print the lab's images by digest, as its stack file takes them.

    It asks each registry that the lab pulls from. Images that keep their tag are listed on stderr
    and are findings.
    """
    pins = pins_of(stack.lab(), registry.look)
    document = {"lab": pins.content, "without_digest": pins.lacking, "unknown": pins.unknown}
    text = to_yaml(pins.content) if pins.content else ""
    show(text, document, as_json=as_json)
    say(*pins.lacking, *pins.unknown)
    return exit_of(findings=bool(pins.lacking), unreached=bool(pins.unknown))


def _target_options(verb: Verb) -> Verb:
    which = click.option(
        "--which",
        type=click.Choice(("benchmark", "mpi", "training")),
        default="benchmark",
        show_default=True,
        help="Which of the lab's images.",
    )
    return stack_options(
        which(
            click.option("--to", metavar="IMAGE", help="Use this name, not the lab file's.")(verb)
        )
    )


tool_option = click.option("--tool", type=click.Choice(TOOLS), help="Default: the first on PATH.")


@command.command("show", epilog=examples("rocelab image show --stack dgx > Dockerfile"))
@_target_options
def show_(stack: Stack, which: str, to: str | None) -> None:
    """Print the Dockerfile of a benchmark image."""
    click.echo(target_of(stack.lab(), which, to).dockerfile, nl=False)


@command.command("build", epilog=examples("rocelab image build --stack dgx --which training"))
@_target_options
@tool_option
@json_option
def build_(stack: Stack, which: str, to: str | None, tool: str | None, as_json: bool) -> None:
    """Build a benchmark image."""
    target, tool = target_of(stack.lab(), which, to), find_tool(tool)
    build(tool, target.dockerfile, target.tag, say)
    show(target.tag, {"tag": target.tag, "tool": tool}, as_json=as_json)


@command.command(
    epilog=examples(
        "rocelab image push --stack dgx", "rocelab image push --to registry.example/nccl"
    )
)
@_target_options
@tool_option
@json_option
def push(stack: Stack, which: str, to: str | None, tool: str | None, as_json: bool) -> None:
    """Build a benchmark image, push it, and print its name with the digest."""
    lab = stack.lab()
    target, tool = target_of(lab, which, to), find_tool(tool)
    build(tool, target.dockerfile, target.tag, say)
    result = pushed(tool, target, stack.root / RESULTS / f"{lab.name}-{which}.json", say)
    show(str(result["image"]), result, as_json=as_json)


@command.command(
    epilog=examples("docker export CONTAINER > image.tar", "rocelab image check image.tar")
)
@click.argument("image", type=UNPACKED)
@json_option
def check(image: Path, as_json: bool) -> Exit:
    """Check whether an image supports PVRDMA.

    IMAGE is its unpacked root, the tar of one (docker export), or an OCI layout.
    """
    verbs = judge(read_image(image))
    lines = []
    for reason in verbs.reasons:
        lines.append(f"does not support PVRDMA: {reason}")
    if not lines:
        system = f"{verbs.distribution} {verbs.codename}"
        lines.append(f"supports PVRDMA: {system}, {verbs.packages['libibverbs1']}")
    show("\n".join(lines), asdict(verbs), as_json=as_json)
    return exit_of(findings=bool(verbs.reasons))


@command.command(
    epilog=examples(
        "rocelab image repair image.tar --from nvcr.io/nvidia/tensorflow:24.03-tf2-py3 > "
        "Dockerfile",
        "rocelab image repair image.tar --from nvcr.io/nvidia/tensorrt:20.12-py3 --bitfusion "
        "--stack bitfusion",
    )
)
@click.argument("image", type=UNPACKED)
@click.option("--from", "base", required=True, metavar="REF", help="Base image to build from.")
@click.option("--bitfusion", is_flag=True, help="Also install the Bitfusion client of the lab.")
@stack_options
def repair(stack: Stack, image: Path, base: str, bitfusion: bool) -> None:
    """Print a Dockerfile that adds PVRDMA support to an image.

    IMAGE is its unpacked root, the tar of one (docker export), or an OCI layout. The packages come
    from the image itself, so the Dockerfile fits its release. Only --bitfusion reads a lab.
    """
    verbs = judge(read_image(image))
    if not bitfusion:
        click.echo(repair_dockerfile(base, verbs), nl=False)
        return
    client = stack.lab().bitfusion_client
    if client is None:
        raise LabError(
            f"{stack.file} has no bitfusion_client, so there is nothing to install beside the verbs"
        )
    click.echo(client_dockerfile(base, verbs, client), nl=False)
