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
from simulator.plane.upstream import ENGINE, files_of
from stacks.bill import Bill, pause_image

SHELL_IMAGE = "localhost/rocelab/shell:1"
"""Debian's busybox: for a pod that looks around."""
MPI_IMAGE = "localhost/rocelab/mpi:1"
"""Open MPI, UCX, mpi4py and sshd of Debian 12: for launcher and workers of an MPIJob."""
GO_ENVIRONMENT = ("GOGC=400",)
"""Go programs collect garbage four times less often with it; emulation makes that slow."""
_BASE: dict[str, oci.File] = {
    # as in any system: a network namespace is named below the one, and mounted below the other
    "var/run": oci.Link("/run"),
    "etc/passwd": oci.Text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    "etc/group": oci.Text("root:x:0:\nnobody:x:65534:\n"),
}

_PLUMBING = "github.com/k8snetworkplumbingwg"
_INSTALL_SRIOV = """#!/bin/sh
set -e
cp -f /usr/bin/sriov /host/opt/cni/bin/
trap : TERM INT
sleep 2147483647 & wait
"""
_PCI_IDS = """8086  Intel Corporation
\t10c9  82576 Gigabit Network Connection
\t10ca  82576 Virtual Function

C 02  Network controller
\t00  Ethernet controller
"""
"""What the device plugin reads to name devices in its log, and does not start without: of all that is known, the
simulated NICs."""


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A script of a pinned upstream release, as its image has it."""

    module: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PodImage:
    """What an image is made of. Its files are one layer, which needs no overlay to be unpacked."""

    programs: Mapping[str, str] = field(default_factory=dict)
    """Programs of the engine, by their path in the image."""
    files: Mapping[str, oci.File | ModuleFile] = field(default_factory=dict)
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
        bill.multus: PodImage(
            programs={
                f"usr/src/multus-cni/bin/{name}": program
                for name, program in {
                    "multus-daemon": "multus-daemon",
                    "multus-shim": "multus-shim",
                    "install_multus": "install_multus",
                    "passthru": "passthru-cni",
                }.items()
            },
            entrypoint=["/usr/src/multus-cni/bin/multus-daemon"],
        ),
        # stand-in: engine/pods/sriov-cni
        bill.sriov_cni: PodImage(
            programs={"usr/bin/sriov": "sriov-cni"},
            files={"entrypoint.sh": oci.Text(_INSTALL_SRIOV, executable=True)},
            entrypoint=["/entrypoint.sh"],
        ),
        # older than the bill's, with an adapter: engine/pods/sriov-device-plugin
        bill.sriov_device_plugin: PodImage(
            programs={"usr/bin/sriovdp": "sriovdp"},
            files={
                "entrypoint.sh": ModuleFile(f"{_PLUMBING}/sriov-network-device-plugin", "images/entrypoint.sh"),
                "usr/share/misc/pci.ids": oci.Text(_PCI_IDS),
            },
            entrypoint=["/entrypoint.sh"],
        ),
        bill.rdma_cni: PodImage(
            programs={"usr/bin/rdma": "rdma-cni"},
            files={"entrypoint.sh": ModuleFile(f"{_PLUMBING}/rdma-cni", "images/entrypoint.sh")},
            entrypoint=["/entrypoint.sh"],
        ),
        bill.whereabouts: PodImage(
            programs={
                "whereabouts": "whereabouts",
                "ip-control-loop": "whereabouts-control-loop",
                "ip-reconciler": "whereabouts-reconciler",
            },
            files={
                name: ModuleFile(f"{_PLUMBING}/whereabouts", f"script/{name}")
                for name in ("install-cni.sh", "lib.sh", "token-watcher.sh")
            },
            entrypoint=["/install-cni.sh"],
        ),
        bill.mpi_operator: PodImage(
            programs={"opt/mpi-operator": "mpi-operator"}, entrypoint=["/opt/mpi-operator"], has_shell=False
        ),
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
    shell: dict[str, oci.File] = {
        "bin/busybox": busybox,
        **{f"bin/{name}": oci.Link("busybox") for name in _commands(busybox)},
        **_BASE,
    }
    found = {}
    for name, image in images.items():
        files: dict[str, oci.File] = {
            **(shell if image.has_shell else _BASE),
            **{path: programs[program] for path, program in image.programs.items()},
            **{path: _written(file) for path, file in image.files.items()},
        }
        layer: oci.Layer = image.tree or files
        environment = GO_ENVIRONMENT if image.programs else ()
        found[name] = oci.Image(layers=[layer], entrypoint=image.entrypoint, environment=environment)
    return found


def engine_programs(names: set[str], binaries: Path) -> dict[str, Path]:
    """Programs of the engine, in the folders whose names say what is in them.

    Raises:
        SimulatorError: naming those that are not built.
    """
    standins = binaries.with_name("standins")
    found = {name: (standins if (standins / name).exists() else binaries) / name for name in sorted(names)}
    found = {name: path.resolve() for name, path in found.items()}
    if missing := [name for name, path in found.items() if not path.exists()]:
        raise SimulatorError(f"{', '.join(missing)}: not built, and this lab's nodes need them. Run: make setup")
    return found


def _written(file: oci.File | ModuleFile) -> oci.File:
    if not isinstance(file, ModuleFile):
        return file
    [path] = files_of(file.module, ENGINE / "pods", [file.path]).values()
    return oci.Text(path.read_text(), executable=True)


def _commands(busybox: Path) -> list[str]:
    return [name for name in run(str(busybox), "--list").split() if name != "busybox"]
