"""Drivers, firmware, GPUs and the runtime: what a lab may ask for, and the contradictions that it may not."""

import pytest

from stacks.lab import Lab
from tests.messages import states
from tests.stacks.refusals import Edit, has_fault, put, refusal

FILE = {"url": "https://mirror.lab/doca-host.deb", "sha256": "ab" * 32}
VENDOR = {"source": "doca_ofed", "version": "25.07-0.9.7.0"}


def test_by_default_nothing_is_installed_set_or_restarted(lab: Lab) -> None:
    assert (lab.driver.source, lab.driver.replace, lab.firmware.manage) == ("keep", False, False)
    assert lab.gpu is None
    assert lab.runtime is None


CASES: dict[str, tuple[Edit, str, list[str]]] = {
    "a vendor's driver of no version": (put("driver", {"source": "doca_ofed"}), "driver", ["version", "missing"]),
    "a file without checksum": (
        put("driver", {**VENDOR, "download": {"url": FILE["url"]}}),
        "driver.download.sha256",
        ["missing"],
    ),
    "a checksum that is none": (
        put("driver", {**VENDOR, "download": {**FILE, "sha256": "abc"}}),
        "driver.download.sha256",
        ["'abc'", "pattern"],
    ),
    "MLNX_OFED from nowhere": (
        put("driver", {"source": "mlnx_ofed", "version": "24.10-1.1.4.0"}),
        "driver",
        ["url", "sha256"],
    ),
    "a download for what is kept": (put("driver", {"source": "keep", "download": FILE}), "driver", ["remove download"]),
    "keep that replaces": (put("driver", {"source": "keep", "replace": True}), "driver", ["remove replace"]),
    "a version of the kernel's own": (
        put("driver", {"source": "inbox", "version": "6.8"}),
        "driver",
        ["remove version"],
    ),
    "an operator without a cluster": (
        lambda lab: (lab.pop("cluster"), lab.update(driver={"source": "operator"})),
        "driver.source",
        ["add cluster"],
    ),
    "a GPU operator without a cluster": (
        lambda lab: (lab.pop("cluster"), lab.update(gpu={"toolkit": {"source": "operator"}})),
        "gpu.toolkit.source",
        ["add cluster"],
    ),
    "firmware of a NIC that has none": (
        put("firmware", {"manage": True}),
        "nodes[0].pfs[0].driver",
        ["igb", "firmware settings"],
    ),
    "a firmware version of a NIC that has none": (
        put("firmware", {"version": "16.35.4030"}),
        "nodes[0].pfs[0].driver",
        ["igb", "remove rail-a", "firmware.version_by_rail"],
    ),
    "a firmware version of a rail that is none": (
        put("firmware", {"version_by_rail": {"rail-z": "16.35.4030"}}),
        "firmware.version_by_rail.rail-z",
        ["rail-z", "rail-a, rail-b"],
    ),
    "a firmware version that is none": (
        put("firmware", {"version": "latest"}),
        "firmware.version",
        ["'latest'", "pattern"],
    ),
    "packages that nobody names": (put("gpu", {"driver": {"source": "packaged"}}), "gpu.driver", ["packages"]),
    "packages for what is kept": (
        put("runtime", {"containerd": {"packages": ["containerd"]}}),
        "runtime.containerd",
        ["source: packaged"],
    ),
    "a package name with an option in it": (
        put("gpu", {"toolkit": {"source": "packaged", "packages": ["--purge"]}}),
        "gpu.toolkit.packages[0]",
        ["'--purge'", "pattern"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_by_path_with_a_remedy(name: str) -> None:
    edit, path, facts = CASES[name]

    assert has_fault(refusal(edit), path, *facts)


def test_more_vfs_than_the_firmware_is_to_allow_are_refused() -> None:
    def edit(lab: dict[str, object]) -> None:
        lab["kind"] = "hardware"
        lab["firmware"] = {"manage": True, "vfs_ceiling": 2}
        for node in lab["nodes"]:  # type: ignore[attr-defined]  # a plain lab file
            for pf in node["pfs"]:
                pf["driver"] = "mlx5_core"

    assert has_fault(refusal(edit), "nodes[1].pfs[1].vfs", 4, "firmware.vfs_ceiling 2")


def test_firmware_of_a_guest_s_paravirtual_nic_is_refused() -> None:
    def edit(lab: dict[str, object]) -> None:
        lab["kind"] = "hardware"
        lab["firmware"] = {"manage": True, "version": "16.35.4030"}
        for node in lab["nodes"]:  # type: ignore[attr-defined]  # a plain lab file
            for pf in node["pfs"]:
                pf.update(driver="vmxnet3", vfs=0)

    text = refusal(edit)

    assert has_fault(text, "nodes[0].pfs[0].driver", "vmxnet3", "firmware.manage: false")
    assert states(text, "vmxnet3", "remove rail-a")
