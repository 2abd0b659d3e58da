"""What the vendor's tools print, and the texts and decisions that follow from it."""

import os
import tomllib
from pathlib import Path

import pytest

from components.hosts.program import ofed
from components.hosts.program.containers import containerd_config, mirror_files
from components.hosts.program.look.gpu import report_in
from components.hosts.program.machine import Done, Machine
from components.hosts.program.modules_built import module_file
from components.hosts.program.software import same_version
from components.hosts.program.steps import firmware, runtime
from components.hosts.program.steps.gpu import architecture_of, gpus_in
from components.hosts.program.steps.gpudirect import gpudirect_way
from tests.components.hosts.vendor_kernel import smi_of
from tests.conftest import ROOT

WRITTEN = Path(__file__).with_name("written") / "vendor"
GOLDEN = ROOT / "tests" / "golden" / "hosts"
UPDATE = "UPDATE_GOLDEN"
H100, V100, OLD = (gpus_in(report_in(Done(0, smi_of(form), ""))) for form in ("h100", "v100", "old"))


def golden(name: str, text: str) -> None:
    """Compares with a golden file, and that it is TOML; UPDATE_GOLDEN=1 writes it."""
    path = GOLDEN / name
    tomllib.loads(text)
    if os.environ.get(UPDATE):
        path.write_text(text)
    assert text == path.read_text()


class Answering(Machine):
    """Every program prints this."""

    def __init__(self, out: str, code: int = 0) -> None:
        super().__init__("/nonexistent")
        self.answer = Done(code, out, "")

    def run(self, *_: str, stdin: str = "", timeout_s: float = 30) -> Done:
        return self.answer


def test_a_vpi_card_reports_its_settings_now_and_after_the_next_boot():
    found = firmware.query(Answering((WRITTEN / "mstconfig-vpi.txt").read_text()), "0000:05:00.0")

    assert found["NUM_OF_VFS"] == (4, 8), "the star before a line marks a change, and is no part of the name"
    assert found["SRIOV_EN"] == (0, 0)
    assert (found["LINK_TYPE_P1"], found["LINK_TYPE_P2"]) == ((1, 1), (2, 2))
    assert "HOST_CHAINING_DESCRIPTORS" not in found


def test_an_ethernet_card_has_no_link_type():
    found = firmware.query(Answering((WRITTEN / "mstconfig-en.txt").read_text()), "0000:84:00.0")

    assert (found["SRIOV_EN"], found["NUM_OF_VFS"]) == ((1, 1), (32, 32))
    assert not [name for name in found if name.startswith("LINK_TYPE")]


@pytest.mark.parametrize(
    ("form", "kernel", "states"),
    [
        ("dkms-2", "5.4.0-150-generic", ["installed"]),
        ("dkms-2", "5.4.0-1-generic", ["not built"]),
        ("dkms-3", "6.8.0-45-generic", ["installed"]),
        ("dkms-3", "6.8.0-31-generic", ["installed"]),
        ("dkms-3", "6.8.0-4", ["not built"]),
    ],
)
def test_dkms_of_both_versions_is_understood(form: str, kernel: str, states: list[str]):
    assert ofed.dkms_states((WRITTEN / f"{form}.txt").read_text(), kernel) == states


def test_dkms_that_knows_other_modules_only_says_nothing_of_ours():
    assert ofed.dkms_states("iser/25.07, 6.8.0-45-generic, x86_64: installed\n", "6.8.0-45-generic") == []


@pytest.mark.parametrize(
    ("printed", "code", "version"),
    [
        ("MLNX_OFED_LINUX-24.10-1.1.4.0:\n", 0, "24.10-1.1.4.0"),
        ("OFED-internal-25.07-0.9.7:\n", 0, "25.07-0.9.7"),
        ("MLNX_OFED_LINUX-4.7-3.2.9.0:\n", 0, "4.7-3.2.9.0"),
        ("", 127, ""),
    ],
)
def test_the_colon_of_ofed_info_is_no_part_of_the_version(printed: str, code: int, version: str):
    assert ofed.ofed_version(Answering(printed, code)) == version


@pytest.mark.parametrize(("form", "of_the_kernel"), [("modinfo-inbox", True), ("modinfo-ofed", False)])
def test_a_module_of_the_kernel_is_distinguished_from_an_added_one(form: str, of_the_kernel: bool):
    file = module_file(Answering((WRITTEN / f"{form}.txt").read_text()), "mlx5_core")

    assert file.of_the_kernel is of_the_kernel
    assert bool(file.version) is not of_the_kernel
    assert len(file.srcversion) == 23


@pytest.mark.parametrize(
    ("found", "target", "same"),
    [
        ("25.07-0.9.7", "25.07-0.9.7.0", True),
        ("25.07-0.9.7.0", "25.07-0.9.7", True),
        ("25.07-0.9.70", "25.07-0.9.7", False),
        ("570.124.06", "570", True),
        ("", "570", False),
    ],
)
def test_versions_are_compared_by_their_parts(found: str, target: str, same: bool):
    assert same_version(found, target) is same


def test_nvidia_smi_is_understood_with_and_without_the_architecture():
    assert V100[:6] == ("535.230.02", "12.2", 8, "Tesla V100-SXM2-32GB", "Tesla", "Volta")
    assert (OLD.architecture, OLD.attached, OLD.driver) == ("Volta", 16, "450.119.04")
    assert (H100.architecture, H100.cuda, H100.attached) == ("Hopper", "13.0", 1)


@pytest.mark.parametrize(
    ("product", "architecture"),
    [
        ("Tesla P100-PCIE-16GB", "Pascal"),
        ("Tesla T4", "Turing"),
        ("NVIDIA A100-SXM4-80GB", "Ampere"),
        ("NVIDIA L40S", "Ada Lovelace"),
        ("NVIDIA GH200 480GB", "Hopper"),
        ("NVIDIA B200", "Blackwell"),
        ("NVIDIA Something", ""),
    ],
)
def test_a_data_centre_gpu_is_known_by_its_name(product: str, architecture: str):
    assert architecture_of(product) == architecture


WAYS = {
    # what: (gpu, open module, kernel, peer interface, way, why)
    "all that DMA-BUF needs": (H100, True, "6.8.0-45-generic", True, "dmabuf", "Hopper, open module"),
    "a closed module": (H100, False, "6.8.0-45-generic", True, "peermem", "proprietary kernel module"),
    "an old kernel": (H100, True, "5.4.0-150-generic", True, "peermem", "older than 5.12"),
    "an old driver": (H100._replace(driver="510.108.03"), True, "5.15.0", True, "peermem", "older than 515"),
    "the DeepOps guide's V100": (V100, False, "5.4.0-150-generic", True, "peermem", "Volta has no open kernel module"),
    "a V100 without OFED": (V100, False, "6.8.0-45-generic", False, "none", "which DOCA-OFED adds"),
    "a GeForce": (H100._replace(brand="GeForce"), True, "6.8.0", True, "none", "is a GeForce"),
    "no GPU": (H100._replace(attached=0), True, "6.8.0", True, "none", "no GPU"),
}


@pytest.mark.parametrize("what", WAYS)
def test_the_way_to_gpu_memory_follows_from_gpu_driver_and_kernel(what: str):
    gpu, open_module, kernel, peer_api, name, why = WAYS[what]
    way = gpudirect_way(gpu, open_module, kernel, peer_api)

    assert way.name == name
    assert why in way.why


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da\n", "1.7.27"),
        ("containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4\n", "2.1.4"),
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1\n", "1.6.20"),
        ("", ""),
    ],
)
def test_every_builds_containerd_version_is_understood(printed: str, version: str):
    assert runtime.containerd_version(Answering(printed)) == version


ASKED = {"sandbox_image": "registry.k8s.io/pause:3.10.1"}


@pytest.mark.parametrize(("name", "major"), [("containerd-1", 1), ("containerd-2", 2)])
def test_the_configuration_of_containerd_is_exactly_this(name: str, major: int):
    toolkit = {"source": "packaged", "default_runtime": True}

    golden(f"{name}.toml", containerd_config(ASKED, major, {}))
    golden(f"{name}-gpu.toml", containerd_config(ASKED, major, toolkit))


def test_mirrors_are_exactly_these():
    files = mirror_files(
        [
            {"host": "docker.io", "mirror": "registry.lab:5000"},
            {"host": "ghcr.io", "mirror": "registry.lab:5000/mirror"},
        ]
    )

    assert list(files) == ["/etc/containerd/certs.d/docker.io/hosts.toml", "/etc/containerd/certs.d/ghcr.io/hosts.toml"]
    golden("mirror-whole.toml", files["/etc/containerd/certs.d/docker.io/hosts.toml"])
    golden("mirror-folder.toml", files["/etc/containerd/certs.d/ghcr.io/hosts.toml"])
