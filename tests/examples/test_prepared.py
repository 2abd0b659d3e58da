"""What every example has to bring so that a reader who follows its README can start it."""

import re
from ipaddress import ip_interface
from pathlib import Path

import pytest

from stacks.machines import Machine
from stacks.nodes import VsphereVm
from stacks.read import read_stack_file
from tests.conftest import ROOT
from tests.examples.previewed import secrets_of

FILES = sorted((ROOT / "examples").glob("*/Pulumi.*.yaml"))
VSPHERE = [file for file in FILES if read_stack_file(file).fabric is not None]


def name_of(path: Path) -> str:
    return path.parent.name


def readme(file: Path) -> str:
    return file.with_name("README.md").read_text()


def test_there_are_three_examples_two_of_them_on_vsphere() -> None:
    assert [name_of(file) for file in FILES] == ["bitfusion", "deepops", "rdg"]
    assert [name_of(file) for file in VSPHERE] == ["bitfusion", "rdg"]


@pytest.mark.parametrize("file", VSPHERE, ids=name_of)
def test_every_vm_has_a_gateway_in_its_own_subnet_and_a_dns_server(file: Path) -> None:
    """Addresses are static: without these a VM reaches no repository, no registry and no licence server."""
    for node in read_stack_file(file).nodes:
        assert isinstance(node, VsphereVm)
        machine = node.machine
        assert isinstance(machine, Machine)
        assert machine.gateway in ip_interface(f"{node.address}/{machine.prefix_length}").network, node.name
        assert machine.gateway != node.address
        assert machine.dns_servers, node.name


@pytest.mark.parametrize("file", VSPHERE, ids=name_of)
def test_the_readme_sets_every_secret_that_a_vsphere_lab_needs(file: Path) -> None:
    lab = read_stack_file(file)
    needed = {"rocelab:vcenterPassword", "rocelab:hostKeySeed"} | ({"rocelab:licenceToken"} if lab.licence else set())

    assert set(secrets_of(file.with_name("README.md"))) == needed


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_the_readme_prepares_the_login_of_the_file(file: Path) -> None:
    user = read_stack_file(file).access.user

    assert f"{user} ALL=(ALL) NOPASSWD: ALL" in readme(file)
    assert f"/etc/sudoers.d/{user}" in readme(file)


@pytest.mark.parametrize("file", [file for file in FILES if read_stack_file(file).cluster], ids=name_of)
def test_an_example_that_makes_a_cluster_says_which_packages_have_to_be_installed(file: Path) -> None:
    lab = read_stack_file(file)
    bootstrap = lab.cluster.bootstrap if lab.cluster else None

    assert bootstrap
    assert bootstrap.packages == "preinstalled"
    assert f"kubeadm, kubelet and kubectl {bootstrap.version}, and containerd 2" in readme(file)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_an_image_of_the_lab_is_pushed_before_the_first_up(file: Path) -> None:
    lab = read_stack_file(file)
    pushes = [at.start() for at in re.finditer(r"^rocelab image push ", readme(file), re.MULTILINE)]
    wanted = bool(lab.benchmarks and lab.benchmarks.nccl) + bool(lab.images and lab.images.training)

    assert len(pushes) == wanted
    assert all(push < readme(file).index("\npulumi up ") for push in pushes)
