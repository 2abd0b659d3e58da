"""A guest's vGPU driver that is of another branch than its host's is told before anything is made."""

import pytest

from components.fabric.preflight.facts import HostFacts
from components.fabric.preflight.judge import branch_of, other_branches
from stacks.gpus import Gpu
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.conftest import ROOT
from tests.messages import states


@pytest.fixture(scope="module")
def rdg() -> Lab:
    return read_stack_file(ROOT / "examples" / "rdg" / "Pulumi.rdg.yaml")


def host(name: str, driver: str) -> HostFacts:
    return HostFacts(name=name, vgpu_driver=driver)


def asking(lab: Lab, version: str | None) -> Lab:
    return lab.model_copy(update={"gpu": Gpu.model_validate({"driver": {"source": "keep", "version": version}})})


OLD = "NVIDIA-VMware_ESXi_6.7_Host_Driver 430.46-1OEM.670.0.0.8169922"
NEW = "NVD-VGPU-800 535.154.02-1OEM.800.1.0.20613240, nvdgpumgmtdaemon 535.154.02-1OEM.700.1.0.15843807"


def test_another_branch_is_one_warning_that_names_the_hosts_and_both_sides(rdg: Lab) -> None:
    hosts = [host("sc2esx24", OLD), host("sc2esx25", OLD), host("sc2esx26", NEW)]

    found = list(other_branches(asking(rdg, "535.154.05"), hosts))

    assert len(found) == 1
    assert states(found[0], 430, "sc2esx24", "sc2esx25", "gpu.driver.version", "535.154.05")
    assert "sc2esx26" not in found[0]


@pytest.mark.parametrize(
    ("version", "driver"),
    [
        ("535.129.03", NEW),  # the same branch, another update
        ("430.99", OLD),
        (None, OLD),  # whatever the template brings
        ("535.129.03", ""),  # our role may not read the host's packages
        ("535.129.03", "NVD-something without-a-version"),
    ],
)
def test_one_branch_and_an_unknown_one_are_no_warning(rdg: Lab, version: str | None, driver: str) -> None:
    assert list(other_branches(asking(rdg, version), [host("sc2esx24", driver)])) == []


def test_a_lab_without_vgpus_has_no_guest_driver_to_compare(rdg: Lab) -> None:
    without = [node.model_copy(update={"vgpu": None}) for node in rdg.nodes]

    assert list(other_branches(asking(rdg, "535.1.1").model_copy(update={"nodes": without}), [host("a", OLD)])) == []


def test_a_version_is_distinguished_from_a_name() -> None:
    assert [branch_of(text) for text in ("430.46-1OEM.670", "1580.65.06", "12.2", "driver")] == ["430", "1580", "", ""]
