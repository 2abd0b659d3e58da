"""Drivers, firmware, GPUs and the runtime on a host of each family: check, apply, verify, and what is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document, wanted_fields
from components.hosts.program.places import REBOOT_FILE
from components.hosts.program.steps.memlock import DROP_IN, LOGINS
from stacks.drivers import Firmware, NicDriver
from stacks.gpus import Gpu
from stacks.lab import Lab
from stacks.runtime import Runtime
from tests.components.hosts.test_host import run
from tests.components.hosts.vendor_kernel import KERNEL, MODULE, WRITTEN, VendorHost

WANTED = "25.07-0.9.7"


@pytest.fixture(params=["debian", "rhel"])
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VendorHost:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    (tmp_path / "root").mkdir()
    return VendorHost(tmp_path / "root", request.param)


@pytest.fixture
def doca(tmp_path: Path) -> dict[str, str]:
    """The vendor's repository package: a file whose text names what the repository has."""
    file = tmp_path / "doca-host.pkg"
    file.write_text("doca-ofed dkms")
    return {"url": f"file://{file}", "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def asks(lab: Lab, allow_reboot: bool = True, **sections: object) -> dict[str, Any]:
    """The document of a ConnectX host in a lab with these sections."""
    kinds = {"driver": NicDriver, "firmware": Firmware, "gpu": Gpu, "runtime": Runtime}
    made = {key: kinds[key].model_validate(value) for key, value in sections.items()}
    hosts = lab.hosts.model_copy(update={"allow_reboot": allow_reboot})
    node = lab.nodes[0]
    pfs = tuple(
        pf.model_copy(update={"driver": "mlx5_core", "rdma_device": f"mlx5_{i}", "vfs": 0})
        for i, pf in enumerate(node.pfs)
    )
    return host_document(lab.model_copy(update={"hosts": hosts, **made}), node.model_copy(update={"pfs": pfs}))


def applied(host: VendorHost, document: dict[str, Any]) -> dict[str, Any]:
    result = run("apply", host, document)
    run("confirm", host, document)
    return result


def differing(host: VendorHost, document: dict[str, Any]) -> dict[str, Any]:
    found = run("probe", host, document)["fields"]
    return {field: found[field] for field, value in wanted_fields(document).items() if found[field] != value}


def commands_with(host: VendorHost, *words: str) -> list[str]:
    return [command for command in host.commands if any(word in command for word in words)]


CHANGING = (
    " install ",
    " purge ",
    "rpm -e",
    "--install",
    "rpm -U",
    " set ",
    "modprobe",
    "openibd",
    "restart",
    "prlimit",
)


def unchanged_by_a_second_run(host: VendorHost, document: dict[str, Any]) -> None:
    host.commands.clear()
    result = run("apply", host, document)
    assert (result["failed"], result["changed"]) == (None, [])
    assert commands_with(host, *CHANGING) == []


# -- NIC driver


def test_a_driver_that_works_is_kept_and_told(host, lab):
    host.with_ofed("24.10-1.1.4", {"mlnx-tools"})
    document = asks(lab)

    assert applied(host, document)["failed"] is None
    assert run("probe", host, document)["facts"]["driver"]["state"] == "as installed"
    assert commands_with(host, *CHANGING[:3]) == []


def test_a_kept_driver_of_another_version_fails_with_both_numbers(host, lab):
    host.with_ofed("24.10-1.1.4", set())

    failed = run("apply", host, asks(lab, driver={"source": "keep", "version": WANTED}))["failed"]

    assert failed["reason"] == "the NIC driver is 24.10-1.1.4, not 25.07-0.9.7"


def test_the_vendors_driver_is_fetched_installed_and_loaded_by_a_reboot(host, lab, doca):
    document = asks(lab, driver={"source": "doca_ofed", "version": WANTED, "download": doca})

    first = applied(host, document)

    assert first["failed"] is None
    assert [reason for reason in first["needs_reboot"] if "25.07-0.9.7 is installed" in reason]
    assert differing(host, document).keys() == {"driver_loaded"}
    host.reboot()
    assert differing(host, document) == {}
    unchanged_by_a_second_run(host, document)


def test_headers_of_the_running_kernel_come_first_where_they_are_missing(host, lab, doca):
    (host.folder / f"lib/modules/{KERNEL}/build/Makefile").unlink()
    (host.folder / f"lib/modules/{KERNEL}/build").rmdir()
    headers = f"linux-headers-{KERNEL}" if host.family == "debian" else f"kernel-devel-{KERNEL}"

    failed = run("apply", host, asks(lab, driver={"source": "doca_ofed", "version": WANTED, "download": doca}))[
        "failed"
    ]

    assert headers in failed["reason"]
    assert not host.ofed, "dkms would have built nothing, and said little"


def test_another_file_than_the_lab_names_is_not_used(host, lab, doca):
    wrong = {**doca, "sha256": "ab" * 32}

    failed = run("apply", host, asks(lab, driver={"source": "doca_ofed", "version": WANTED, "download": wrong}))[
        "failed"
    ]

    assert doca["sha256"] in failed["reason"]
    assert "nothing of it was used" in failed["hint"]
    assert host.offered == {}
    assert list((host.folder / "var/cache/rocelab").iterdir()) == []


def test_a_file_that_cannot_be_fetched_leaves_the_working_driver(host, lab):
    host.with_ofed("24.10-1.1.4", {"mlnx-tools"})
    gone = {"url": f"file://{host.folder}/gone.deb", "sha256": "ab" * 32}
    driver = {"source": "doca_ofed", "version": WANTED, "download": gone, "replace": True}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert "cannot be fetched" in failed["reason"]
    assert "mlnx-tools" in host.installed


def test_replacing_a_working_driver_needs_leave_and_names_what_would_go(host, lab, doca):
    host.with_ofed("24.10-1.1.4", {"mlnx-tools", "ofed-scripts"})
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert failed["reason"] == "driver 24.10-1.1.4 is installed and works, 25.07-0.9.7 is wanted"
    assert failed["hint"].endswith("these packages would go: mlnx-tools, ofed-scripts")
    assert {"mlnx-tools", "ofed-scripts"} <= host.installed

    document = asks(lab, driver={**driver, "replace": True})
    assert applied(host, document)["failed"] is None
    assert not {"mlnx-tools", "ofed-scripts"} & host.installed
    assert "libibverbs1" in host.installed, "a package of the distribution's own is nobody's to remove"
    host.reboot()
    assert differing(host, document) == {}


def test_what_others_need_is_not_removed(tmp_path, lab, doca, monkeypatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    host = VendorHost(tmp_path, "debian")
    host.with_ofed("24.10-1.1.4", {"mlnx-tools"})
    host.dependents = ["ceph-common"]
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca, "replace": True}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert failed["reason"] == "ceph-common would go together with mlnx-tools"
    assert "mlnx-tools" in host.installed


def test_a_package_that_writes_firmware_is_never_installed(host, lab, doca):
    host.brought = ["mlnx-fw-updater"]
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert "mlnx-fw-updater, which writes firmware" in failed["reason"]
    assert not host.ofed


def test_without_leave_to_reboot_nothing_is_installed(host, lab, doca):
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}

    result = run("apply", host, asks(lab, allow_reboot=False, driver=driver))

    assert result["failed"] is None
    assert any("nothing was installed or removed" in reason for reason in result["needs_reboot"])
    assert not host.ofed
    assert host.offered == {}


def test_openibd_loads_a_driver_that_nobody_holds(host, lab, doca):
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca, "restart": "openibd"}
    document = asks(lab, allow_reboot=False, driver=driver)

    result = applied(host, document)

    assert (result["failed"], result["needs_reboot"]) == (None, [])
    assert differing(host, document) == {}


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (lambda host: host.file("/sys/module/nvme_rdma/refcnt", "1"), "module nvme_rdma is loaded"),
        (
            lambda host: host.symlink("/sys/class/net/enp0s3/device/driver", host.folder / "drivers/mlx5_core"),
            "enp0s3 is refused as a rail: it is the management interface",
        ),
    ],
    ids=["storage", "management"],
)
def test_openibd_leaves_a_driver_that_somebody_holds_to_a_reboot(host, lab, doca, held, said):
    held(host)
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca, "restart": "openibd"}

    result = run("apply", host, asks(lab, driver=driver))

    assert any(said in reason for reason in result["needs_reboot"])
    assert commands_with(host, "openibd restart") == []


def test_modules_that_dkms_did_not_build_for_this_kernel_are_built(host, lab, doca):
    host.with_ofed(WANTED, set())
    host.dkms = f"mlnx-ofed-kernel/25.07, {KERNEL}, x86_64: added\n"
    document = asks(lab, driver={"source": "doca_ofed", "version": WANTED, "download": doca})

    assert differing(host, document)["driver_built"] == f"dkms for {KERNEL}: added"
    assert applied(host, document)["failed"] is None
    assert differing(host, document) == {}


def test_mlnx_ofed_is_unpacked_and_never_writes_firmware(host, lab, doca):
    driver = {"source": "mlnx_ofed", "version": "24.10-1.1.4", "download": doca, "kernel_modules": "add_kernel_support"}
    document = asks(lab, driver=driver)

    assert applied(host, document)["failed"] is None
    (installed,) = commands_with(host, "mlnxofedinstall")
    assert installed.endswith("--force --without-fw-update -q --add-kernel-support")
    host.reboot()
    assert differing(host, document) == {}


def test_going_back_to_the_kernels_own_driver_uses_the_uninstaller_that_came_with_the_other(host, lab):
    host.with_ofed("24.10-1.1.4", {"mlnx-tools", "ofed-scripts"})
    host.file("/usr/sbin/ofed_uninstall.sh", "")
    document = asks(lab, driver={"source": "inbox", "replace": True})

    result = applied(host, document)

    assert result["failed"] is None
    assert host.ofed == ""
    assert any("a module from outside the kernel" in reason for reason in result["needs_reboot"])
    host.modinfo = (WRITTEN / "modinfo-inbox.txt").read_text()
    host.remove(f"{MODULE}/taint")
    host.reboot()
    assert differing(host, document) == {}


def test_containers_with_gpus_are_not_put_at_risk_by_a_packages_scripts(host, lab, doca):
    host.file("/proc/driver/nvidia/version", "NVRM version")
    host.file("/run/containerd/io.containerd.runtime.v2.task/k8s.io/one/init.pid", "1")
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert "1 containers run" in failed["reason"]
    assert "kubectl drain" in failed["hint"]
    assert not host.ofed


# -- firmware


def test_firmware_settings_are_set_and_hold_after_a_reboot(host, lab):
    document = asks(lab, firmware={"manage": True})
    assert differing(host, document)["enp5s0.firmware"] == (
        "SRIOV_EN=0 NUM_OF_VFS=4 LINK_TYPE=1, from the next boot on SRIOV_EN=0 NUM_OF_VFS=8 LINK_TYPE=1"
    )

    result = applied(host, document)

    assert result["failed"] is None
    assert len(result["needs_reboot"]) == 2
    assert commands_with(host, " -y set ") == [
        f"mstconfig -d {device} -y set SRIOV_EN=1 NUM_OF_VFS=16 LINK_TYPE_P1=2"
        for device in ("0000:84:00.0", "0000:05:00.0")
    ]
    host.commands.clear()
    run("apply", host, document)
    assert commands_with(host, " -y set ") == [], "it is set already and only waits"
    host.reboot()
    assert differing(host, document) == {}
    unchanged_by_a_second_run(host, document)


def test_a_higher_ceiling_and_a_card_that_knows_only_ethernet_are_fine(host, lab):
    for settings in host.firmware.values():
        settings.update(SRIOV_EN=(1, 1), NUM_OF_VFS=(64, 64))
        del settings["LINK_TYPE_P1"]

    assert differing(host, asks(lab, firmware={"manage": True})).keys() & {"enp5s0.firmware"} == set()


def test_without_leave_to_reboot_firmware_stays(host, lab):
    result = run("apply", host, asks(lab, allow_reboot=False, firmware={"manage": True}))

    assert len(result["needs_reboot"]) == 2
    assert commands_with(host, " -y set ") == []


def test_a_setting_that_the_firmware_does_not_take_is_told(host, lab):
    host.frozen_firmware = True

    failed = run("apply", host, asks(lab, firmware={"manage": True}))["failed"]

    assert failed["step"] == "firmware"
    assert "SRIOV_EN=1 NUM_OF_VFS=16 LINK_TYPE_P1=2 was not taken" in failed["reason"]


def test_a_host_without_the_tool_is_told_which_package_has_it(host, lab):
    host.fw_tool = ""

    failed = run("apply", host, asks(lab, firmware={"manage": True}))["failed"]

    assert failed["reason"] == "neither mstconfig nor mlxconfig is installed"
    assert "mstflint" in failed["hint"]


def test_undo_leaves_firmware_and_the_baseline_has_what_was_before(host, lab):
    document = asks(lab, firmware={"manage": True})
    applied(host, document)
    baseline = json.loads(host.read("/var/lib/rocelab/baseline.json"))

    assert baseline["pfs"]["enp5s0"]["firmware"] == {"LINK_TYPE_P1": 1, "NUM_OF_VFS": 4, "SRIOV_EN": 0}
    assert run("undo", host, document)["failed"] is None
    assert host.firmware["0000:05:00.0"]["SRIOV_EN"] == (0, 1)


# -- GPU driver, toolkit, GPUDirect


def with_gpu(host: VendorHost, form: str, version: str) -> None:
    host.smi = (WRITTEN / f"nvidia-smi-{form}.txt").read_text()
    host.gpu_module = version
    host.file("/sys/module/nvidia/version", version)
    host.file("/proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}\n")


def test_a_gpu_driver_that_works_is_kept_and_told(host, lab):
    with_gpu(host, "v100", "535.230.02")
    host.file("/proc/kallsyms", "0 T ib_register_peer_memory_client\t[ib_core]\n")
    document = asks(lab, gpu={})

    assert applied(host, document)["failed"] is None
    facts = run("probe", host, document)["facts"]
    assert facts["gpu"] == {
        "driver": "535.230.02", "cuda": "12.2", "product": "Tesla V100-SXM2-32GB", "architecture": "Volta", "count": 8
    }  # fmt: skip
    assert facts["gpudirect"] == "peermem: Volta has no open kernel module"
    assert facts["acs_bridges"] == 1
    assert host.exists("/sys/module/nvidia_peermem")


def test_a_host_without_a_gpu_driver_fails_where_one_is_to_be_kept(host, lab):
    failed = run("apply", host, asks(lab, gpu={}))["failed"]

    assert failed["step"] == "gpu_driver"
    assert "nvidia-smi is not installed" in failed["reason"]


def test_a_packaged_gpu_driver_replaces_nouveau_by_a_reboot(host, lab):
    host.offered = {"nvidia-open": lambda: with_module_file(host, "570.124.06")}
    host.file("/sys/module/nouveau/refcnt", "0")
    gpu = {"driver": {"source": "packaged", "version": "570.124.06", "packages": ["nvidia-open"]}, "gpudirect": "none"}
    document = asks(lab, gpu=gpu)

    result = applied(host, document)

    assert result["failed"] is None
    assert any("nouveau is loaded" in reason for reason in result["needs_reboot"])
    (host.folder / "sys/module/nouveau/refcnt").unlink()
    host.reboot()
    assert differing(host, document) == {}
    unchanged_by_a_second_run(host, document)


def with_module_file(host: VendorHost, version: str) -> None:
    host.gpu_module = version


def test_another_gpu_driver_is_replaced_with_leave_only(host, lab):
    with_gpu(host, "h100", "550.54.15")
    host.installed |= {"nvidia-driver-550", "libnvidia-compute-550", "libnvidia-container1", "nvidia-container-toolkit"}
    host.offered = {"nvidia-open": lambda: with_module_file(host, "570.124.06")}
    driver = {"source": "packaged", "version": "570.124.06", "packages": ["nvidia-open"]}

    failed = run("apply", host, asks(lab, gpu={"driver": driver, "gpudirect": "none"}))["failed"]

    assert failed["hint"].endswith("these packages would go: libnvidia-compute-550, nvidia-driver-550")
    document = asks(lab, gpu={"driver": {**driver, "replace": True}, "gpudirect": "none"})
    result = applied(host, document)
    assert result["failed"] is None
    assert any("550.54.15 is loaded, 570.124.06 is installed" in r for r in result["needs_reboot"])
    assert {"libnvidia-container1", "nvidia-container-toolkit"} <= host.installed


def test_a_named_way_that_cannot_work_fails_with_the_reason(host, lab):
    with_gpu(host, "v100", "535.230.02")

    failed = run("apply", host, asks(lab, gpu={"gpudirect": "dmabuf"}))["failed"]

    assert "not dmabuf: Volta has no open kernel module" in failed["reason"]


def test_peermem_that_the_kernel_refuses_is_told_with_what_it_needs(host, lab):
    with_gpu(host, "v100", "535.230.02")
    host.peer_module = False

    failed = run("apply", host, asks(lab, gpu={"gpudirect": "peermem"}))["failed"]

    assert "Invalid argument" in failed["reason"]
    assert "DOCA-OFED" in failed["hint"]


def test_the_toolkit_is_installed_and_entered_into_a_containerd_that_is_kept(host, lab):
    with_gpu(host, "h100", "570.124.06")
    host.offered = {"nvidia-container-toolkit": lambda: setattr(host, "ctk", "1.17.8")}
    toolkit = {"source": "packaged", "version": "1.17.8", "packages": ["nvidia-container-toolkit"]}
    document = asks(lab, gpu={"toolkit": toolkit, "gpudirect": "none"})

    assert applied(host, document)["failed"] is None
    assert commands_with(host, "nvidia-ctk runtime", "restart") == [
        "nvidia-ctk runtime configure --runtime=containerd",
        "systemctl restart containerd.service",
    ]
    unchanged_by_a_second_run(host, document)
    assert run("undo", host, document)["failed"] is None
    assert host.read("/etc/containerd/config.toml") == "version = 2"
    assert host.ctk == "1.17.8", "packages stay"


# -- containerd and memlock


RUNTIME = {"containerd": {"source": "packaged", "version": "1.7.27", "packages": ["containerd.io"]}, "memlock": "keep"}


def test_containerds_configuration_is_ours_until_undo(host, lab):
    document = asks(lab, runtime=RUNTIME)

    assert applied(host, document)["failed"] is None
    assert "SystemdCgroup = true" in host.read("/etc/containerd/config.toml")
    assert commands_with(host, "restart") == ["systemctl restart containerd.service"]
    unchanged_by_a_second_run(host, document)
    host.file("/etc/containerd/config.toml", "version = 2\n# by hand\n")
    assert differing(host, document) == {"containerd_config": "another"}
    assert applied(host, document)["failed"] is None
    assert run("undo", host, document)["failed"] is None
    assert host.content("/etc/containerd/config.toml") == b"version = 2\n"


def test_another_containerd_is_replaced_with_leave_only(host, lab):
    host.offered = {
        "containerd.io": lambda: setattr(host, "containerd", "github.com/containerd/containerd/v2 v2.1.4 75")
    }
    newer = {**RUNTIME["containerd"], "version": "2.1.4"}

    failed = run("apply", host, asks(lab, runtime={**RUNTIME, "containerd": newer}))["failed"]

    assert failed["reason"] == "containerd 1.7.27 is installed and 2.1.4 is wanted"
    document = asks(lab, runtime={**RUNTIME, "containerd": {**newer, "replace": True}})
    assert applied(host, document)["failed"] is None
    assert "version = 3" in host.read("/etc/containerd/config.toml")


def test_memlock_is_lifted_without_restart_and_put_back(host, lab):
    document = asks(lab, runtime={})
    assert differing(host, document)["memlock"] == "8388608 bytes"

    assert applied(host, document)["failed"] is None

    assert host.read(DROP_IN) == "[Service]\nLimitMEMLOCK=infinity"
    assert host.reloads == 1
    assert commands_with(host, "restart") == []
    unchanged_by_a_second_run(host, document)
    host.limit("65536", "65536")
    assert differing(host, document) == {"memlock": "65536 bytes"}
    applied(host, document)
    assert run("undo", host, document)["failed"] is None
    assert not host.exists(DROP_IN)
    assert not host.exists(LOGINS)
    assert "8388608" in host.read("/proc/812/limits")


def test_systemd_is_not_reloaded_while_a_container_runs(host, lab):
    host.file("/run/containerd/io.containerd.runtime.v2.task/k8s.io/one/init.pid", "1")

    assert applied(host, asks(lab, runtime={}))["failed"] is None
    assert host.reloads == 0
    assert "unlimited" in host.read("/proc/812/limits")


def test_a_host_without_containerd_gets_the_limit_for_later(host, lab):
    host.containerd = ""
    document = asks(lab, runtime={})

    assert applied(host, document)["failed"] is None
    assert differing(host, document) == {}


def test_what_the_lab_no_longer_asks_for_is_undone(host, lab):
    applied(host, asks(lab, runtime={}))

    assert run("apply", host, asks(lab))["failed"] is None
    assert not host.exists(DROP_IN)


def test_every_reason_for_a_reboot_is_gone_after_one(host, lab, doca):
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}
    document = asks(lab, driver=driver, firmware={"manage": True})
    assert len(applied(host, document)["needs_reboot"]) == 3

    host.reboot()

    assert not host.exists(REBOOT_FILE)
    assert run("probe", host, document)["needs_reboot"] == []
