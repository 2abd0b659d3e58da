"""The image of nodes with real pods: what it is made of, and what it leaves alone."""

import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from engine.parts import PARTS, REAL_PODS
from simulator.nodes import image, kernel, oci, pod_images, pods_image
from simulator.nodes.pod_images import PodImage
from simulator.part import SimulatorError
from stacks.bill import Bill, pause_image
from stacks.read import read_stack_file
from tests.conftest import ROOT
from tests.messages import stating


def test_without_the_engines_programs_nothing_is_made_and_each_is_named(tmp_path: Path):
    (tmp_path / "kubelet").touch()

    with pytest.raises(SimulatorError, check=stating("make setup")) as refused:
        pods_image.build_pods_image(tmp_path, Bill(), lambda _: None)

    assert str(refused.value).partition(": ")[0].split(", ") == ["containerd", "containerd-shim-runc-v2", "ctr"]


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


def test_every_image_is_named_in_full_since_the_kubelet_completes_short_names():
    images = pod_images.pod_images(Bill())

    assert pause_image(None) in images
    assert all(re.fullmatch(r"[a-z0-9.-]+/[^:]+:[\w.-]+", name) for name in images)


def test_the_lab_asks_for_the_image_of_jobs_by_the_name_that_it_has():
    lab = read_stack_file(ROOT / "Pulumi.lab-pods.yaml")

    assert lab.benchmarks
    assert lab.benchmarks.mpi
    assert lab.benchmarks.mpi.image == pod_images.MPI_IMAGE


def test_the_operator_runs_as_a_pod_and_finds_no_shell_in_its_image(tmp_path: Path, busybox: Path):
    (tmp_path / "mpi-operator").write_text("the operator")
    name = Bill().mpi_operator
    found = pod_images.container_images({name: pod_images.pod_images(Bill())[name]}, tmp_path, busybox)

    assert found[name].entrypoint == ["/opt/mpi-operator"]
    assert {"opt/mpi-operator", "etc/passwd", "var/run"} <= files_of(found, tmp_path).keys()
    assert "bin/sh" not in files_of(found, tmp_path)


def test_an_image_holds_a_program_of_the_engine_a_shell_and_users_in_one_layer(tmp_path: Path, busybox: Path):
    (tmp_path / "agent").write_text("an agent")
    image = PodImage(programs={"usr/bin/agent": "agent"}, files={"start": oci.Text("go", executable=True)})

    assert files_of(pod_images.container_images({"a/b:1": image}, tmp_path, busybox), tmp_path) == {
        "usr/bin/agent": "an agent",
        "start": "go",
        "bin/busybox": busybox.read_text(),
        "bin/sh": "-> busybox",
        "bin/cat": "-> busybox",
        "var/run": "-> /run",
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        "etc/group": "root:x:0:\nnobody:x:65534:\n",
    }


def test_an_image_of_a_whole_system_is_its_archive(tmp_path: Path, busybox: Path):
    system = tmp_path / "system.tar"
    with tarfile.open(system, "w") as tar:
        tar.add(busybox, "sbin/init")

    found = pod_images.container_images({"a/b:1": PodImage(tree=system)}, tmp_path, busybox)

    assert list(files_of(found, tmp_path)) == ["sbin/init"]


def test_an_image_without_its_program_is_not_made(tmp_path: Path, busybox: Path):
    with pytest.raises(SimulatorError, match=r"^agent: not built"):
        pod_images.container_images({"a/b:1": PodImage(programs={"agent": "agent"})}, tmp_path, busybox)


@pytest.fixture
def busybox(tmp_path: Path) -> Path:
    """A program that lists its commands."""
    path = tmp_path / "busybox"
    path.write_text("#!/bin/sh\nprintf 'busybox\\nsh\\ncat\\n'\n")
    path.chmod(0o755)
    return path


def files_of(images: dict[str, oci.Image], folder: Path) -> dict[str, str]:
    """What the only layer of the only image holds, read from the archive that containerd imports."""
    archive = folder / "images.tar"
    oci.write_archive(archive, images)
    with tarfile.open(archive) as tar:
        content = {member.name: b"".join(tar.extractfile(member) or []) for member in tar}
    [manifest] = json.loads(content["index.json"])["manifests"]
    blob = {f"sha256:{name.rpartition('/')[2]}": data for name, data in content.items()}
    [layer] = json.loads(blob[manifest["digest"]])["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob[layer["digest"]])) as tar:
        assert {(member.uid, member.gid) for member in tar} == {(0, 0)}
        return {
            member.name: f"-> {member.linkname}" if member.issym() else b"".join(tar.extractfile(member) or []).decode()
            for member in tar
        }


def test_each_program_in_an_image_is_a_part_of_the_engine_that_a_lab_with_real_pods_has():
    built = {binary for part in PARTS if part.only_for <= REAL_PODS for binary in part.binaries}
    images = pod_images.pod_images(Bill())

    assert {name for image in images.values() for name in image.programs.values()} <= built


def test_a_stand_in_is_found_beside_the_other_programs(tmp_path: Path):
    for folder, name in (("bin", "agent"), ("standins", "plugin")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()

    assert pod_images.engine_programs({"agent", "plugin"}, tmp_path / "bin") == {
        "agent": tmp_path / "bin/agent",
        "plugin": tmp_path / "standins/plugin",
    }
