"""The image of nodes with real pods: what it is made of, and what it leaves alone."""

import re
from pathlib import Path

import pytest

from simulator.nodes import image, kernel, pods_image
from simulator.part import SimulatorError
from stacks.bill import pause_image


def test_without_the_engines_programs_nothing_is_made_and_each_is_named(tmp_path: Path):
    (tmp_path / "kubelet").touch()

    with pytest.raises(SimulatorError, match=r"^containerd, containerd-shim-runc-v2, ctr: not built.* make setup"):
        pods_image.build_pods_image(tmp_path, lambda _: None)


def test_each_package_of_the_kernel_is_pinned():
    packages = [package for package in kernel.PACKAGES if package.startswith("linux-")]

    assert all(package.endswith(f"={kernel.VERSION}") for package in packages)
    assert kernel.RELEASE.startswith(kernel.VERSION.partition("-")[0])


def test_a_recipe_whose_command_fails_ends_the_build():
    for recipe in (kernel.BUILD, pods_image.PODS_RECIPE):
        assert "\nset -eu\n" in recipe.read_text()


def test_a_node_has_one_kernel():
    assert "linux-image-amd64" in image.PACKAGES
    assert not [package for package in pods_image.PODS_PACKAGES if package.startswith("linux-image")]


def test_every_image_is_named_in_full_since_the_kubelet_completes_short_names(tmp_path: Path):
    images = pods_image.container_images(tmp_path)

    assert pause_image(None) in images
    assert all(re.fullmatch(r"[a-z0-9.-]+/[^:]+:[\w.-]+", name) for name in images)
    assert all(len(found.layers) == 1 for found in images.values()), "a second layer takes an overlay to be unpacked"
