"""The container images in the store of nodes with real pods, by the names under which the lab's manifests ask for them.

A node reaches no registry, so what is not here cannot run. To add an image, add its `PodImage` to `pod_images`; a
program that it holds is a part of the engine (engine/parts.py, `only_for=REAL_PODS`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simulator.nodes import oci
from simulator.nodes.cache import run
from simulator.part import SimulatorError
from stacks.bill import Bill, pause_image

SHELL_IMAGE = "localhost/rocelab/shell:1"
"""Debian's busybox: for a pod that looks around."""
_USERS = {
    "etc/passwd": oci.Text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    "etc/group": oci.Text("root:x:0:\nnobody:x:65534:\n"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PodImage:
    """What an image is made of. Its files are one layer, which needs no overlay to be unpacked."""

    programs: Mapping[str, str] = field(default_factory=dict)
    """Programs of the engine, by their path in the image."""
    files: Mapping[str, oci.File] = field(default_factory=dict)
    entrypoint: Sequence[str] = ()
    has_shell: bool = True
    """Whether busybox and its commands are in it, as in an image made from Alpine."""
    tree: Path | None = None
    """A tar archive of a whole system, in place of all the above but the entrypoint."""


def pod_images(bill: Bill) -> dict[str, PodImage]:
    """The images that a lab's nodes have."""
    return {
        # stand-in: it holds the namespaces of a pod, and reaps no orphans
        pause_image(None): PodImage(entrypoint=["/bin/busybox", "sleep", "infinity"]),
        SHELL_IMAGE: PodImage(entrypoint=["/bin/busybox", "sh"]),
    }


def container_images(images: Mapping[str, PodImage], binaries: Path, busybox: Path) -> dict[str, oci.Image]:
    """The images as the archive takes them.

    Args:
        images: What is wanted, by name.
        binaries: The engine's folder of programs.
        busybox: The static program.

    Raises:
        SimulatorError: when the engine's programs are missing.
    """
    programs = engine_programs({name for image in images.values() for name in image.programs.values()}, binaries)
    shell = {"bin/busybox": busybox, **{f"bin/{name}": oci.Link("busybox") for name in _commands(busybox)}, **_USERS}
    found = {}
    for name, image in images.items():
        files = {
            **(shell if image.has_shell else _USERS),
            **{path: programs[program] for path, program in image.programs.items()},
            **image.files,
        }
        found[name] = oci.Image(layers=[image.tree or files], entrypoint=image.entrypoint)
    return found


def engine_programs(names: set[str], binaries: Path) -> dict[str, Path]:
    """Programs of the engine, in the folders whose names say what is in them.

    Raises:
        SimulatorError: naming those that are not built.
    """
    found = {name: (binaries / name).resolve() for name in sorted(names)}
    if missing := [name for name, path in found.items() if not path.exists()]:
        raise SimulatorError(f"{', '.join(missing)}: not built, and this lab's nodes need them. Run: make setup")
    return found


def _commands(busybox: Path) -> list[str]:
    return [name for name in run(str(busybox), "--list").split() if name != "busybox"]
