"""The image of nodes with real pods: the nodes' image with a newer kernel, a container runtime and a kubelet.

A node reaches no registry, so container images are made here and unpacked in containerd's store before the node boots.
"""

import tarfile
from collections.abc import Mapping
from pathlib import Path

from simulator.nodes import debian, oci
from simulator.nodes.cache import cache_folder, made_once, need_space
from simulator.nodes.image import GUEST_RECIPE, PACKAGES, UNWANTED_FILES, Image, Variant, fill_image
from simulator.nodes.kernel import build_kernel
from simulator.nodes.mpi_image import mpi_tree
from simulator.nodes.pod_images import MPI_IMAGE, PodImage, container_images, engine_programs, pod_images
from simulator.nodes.tree import handles
from simulator.part import Report
from stacks.bill import Bill, pause_image

PODS_RECIPE = Path(__file__).with_name("guest_pods.sh")
DNS = Path(__file__).with_name("guest_dns.py")
PODS_PACKAGES = (
    *(package for package in PACKAGES if package != "linux-image-amd64"),
    # cpio: for the initrd; otherwise Debian 12's kernel packages bring it
    *("runc", "containernetworking-plugins", "cpio"),
)
PROGRAMS = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr")
"""Built by the engine."""
ROOT_BYTES = 8 << 30
"""Size that the guest sees; the file is sparse."""
IMAGE_BYTES = 1800 << 20
"""Space that kernel, initrd and the used part of the root take, with room to spare."""


def build_pods_image(binaries: Path, bill: Bill, report: Report) -> Image:
    """The image of this recipe, made when the cache lacks it.

    Args:
        binaries: The engine's folder of programs.
        bill: The names of the lab's container images.
        report: Takes what is being made.

    Raises:
        SimulatorError: if the engine's programs are missing.
    """
    programs = engine_programs(set(PROGRAMS), binaries)
    kernel = build_kernel(report)
    busybox = debian.fetched(("busybox-static",), report) / "bin/busybox"
    wanted = {**pod_images(bill), MPI_IMAGE: PodImage(tree=mpi_tree(report))}
    images = container_images(wanted, binaries, busybox)
    recipe = [
        *(GUEST_RECIPE.read_text(), PODS_RECIPE.read_text(), DNS.read_text()),
        *(str(ROOT_BYTES), *PODS_PACKAGES, *UNWANTED_FILES),
        # folder names contain a hash of their content
        *(str(kernel), *map(str, programs.values()), repr(images)),
    ]

    def fill(folder: Path) -> None:
        need_space(cache_folder(), IMAGE_BYTES, "the image of nodes with real pods")
        layer = folder / "layer.tar"
        _write_layer(layer, programs, images)
        with handles(kernel, layer, PODS_RECIPE) as inputs:
            kernel_tar, layer_tar, script = inputs
            before = [f'--customize-hook=tar -xf {kernel_tar} -C "$1"']
            after = [
                f'--customize-hook=tar -xf {layer_tar} -C "$1"; cat {script} > "$1"/pods.sh',
                f'--customize-hook=chroot "$1" env PAUSE={pause_image(None)} sh /pods.sh',
            ]
            fill_image(Image(folder), Variant(ROOT_BYTES, PODS_PACKAGES, before, after, inputs), report)
        layer.unlink()

    return Image(made_once("pods-image", "\n".join(recipe), fill, report))


def _write_layer(file: Path, programs: Mapping[str, Path], images: Mapping[str, oci.Image]) -> None:
    archive = file.with_name("images.tar")
    oci.write_archive(archive, images)
    with tarfile.open(file, "w") as tar:
        for name, path in programs.items():
            tar.add(path, f"usr/local/bin/{name}", filter=oci.of_root)
        tar.add(DNS, "usr/local/lib/rocelab/dns.py", filter=oci.of_root)
        tar.add(archive, "opt/images.tar", filter=oci.of_root)
    archive.unlink()
