"""The NIC driver on a host of each family: kept, installed, built, loaded, and what is refused."""

import pytest

from components.hosts.program.machine import Done
from components.hosts.program.places import REBOOT_FILE
from components.hosts.program.software import planned
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.vendor_kernel import KERNEL, MODULE, WRITTEN, VendorHost
from tests.components.hosts.vendor_lab import (
    CHANGING,
    WANTED,
    applied,
    asks,
    commands_with,
    held_by,
    unchanged_by_a_second_run,
)
from tests.messages import states


@pytest.mark.row("A 32")
def test_a_driver_that_works_is_kept_and_reported(host, lab):
    host.with_ofed("24.10-1.1.4", {"mlnx-tools"})
    document = asks(lab)

    assert applied(host, document)["failed"] is None
    assert run("probe", host, document)["facts"]["driver"]["state"] == "as installed"
    assert commands_with(host, *CHANGING[:3]) == []


def test_a_kept_driver_of_another_version_fails_with_both_numbers(host, lab):
    host.with_ofed("24.10-1.1.4", set())

    failed = run("apply", host, asks(lab, driver={"source": "keep", "version": WANTED}))["failed"]

    assert failed["step"] == "driver"
    assert states(failed["reason"], "24.10-1.1.4", WANTED)


@pytest.mark.row("A 42")
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
    assert host.offered == {}
    assert list((host.folder / "var/cache/rocelab").iterdir()) == []


def test_a_file_that_cannot_be_fetched_leaves_the_working_driver(host, lab):
    host.with_ofed("24.10-1.1.4", {"mlnx-tools"})
    gone = {"url": f"file://{host.folder}/gone.deb", "sha256": "ab" * 32}
    driver = {"source": "doca_ofed", "version": WANTED, "download": gone, "replace": True}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert "cannot be fetched" in failed["reason"]
    assert "mlnx-tools" in host.installed


@pytest.mark.row("A 211")
def test_replacing_a_working_driver_needs_leave_and_names_what_would_go(host, lab, doca):
    host.with_ofed("24.10-1.1.4", {"mlnx-tools", "ofed-scripts"})
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert failed["step"] == "driver"
    assert states(failed["reason"], "24.10-1.1.4", "25.07-0.9.7")
    assert states(failed["hint"], "mlnx-tools", "ofed-scripts")
    assert {"mlnx-tools", "ofed-scripts"} <= host.installed

    document = asks(lab, driver={**driver, "replace": True})
    assert applied(host, document)["failed"] is None
    assert not {"mlnx-tools", "ofed-scripts"} & host.installed
    assert "libibverbs1" in host.installed, "a package of the distribution's own is nobody's to remove"
    host.reboot()
    assert differing(host, document) == {}


def test_another_version_than_the_one_installed_here_is_refused_and_changes_nothing(host, lab, doca):
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca, "replace": True}
    assert applied(host, asks(lab, driver=driver))["failed"] is None
    host.reboot()
    host.commands.clear()
    newer = asks(lab, driver={**driver, "version": "25.10-1.2.8"})

    failed = run("apply", host, newer)["failed"]

    assert failed["step"] == "upgrade"
    assert states(failed["reason"], "driver", "25.07-0.9.7", "25.10-1.2.8")
    assert commands_with(host, *CHANGING) == []
    host.with_ofed("25.10-1.2.8", {"mlnx-tools"})
    assert (run("apply", host, newer)["failed"] or {}).get("step") != "upgrade", "upgraded by hand"


def test_what_others_need_is_not_removed(tmp_path, lab, doca, monkeypatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    host = VendorHost(tmp_path, "debian")
    host.with_ofed("24.10-1.1.4", {"mlnx-tools"})
    host.dependents = ["ceph-common"]
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca, "replace": True}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert failed["step"] == "driver"
    assert states(failed["reason"], "ceph-common", "mlnx-tools")
    assert "mlnx-tools" in host.installed


def test_a_package_that_writes_firmware_is_never_installed(host, lab, doca):
    host.brought = ["mlnx-fw-updater"]
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert failed["step"] == "driver"
    assert states(failed["reason"], "mlnx-fw-updater")
    assert not host.ofed


def test_a_package_that_writes_firmware_is_found_before_the_old_driver_goes(host, lab, doca):
    host.with_ofed("24.10-1.1.4", {"mlnx-tools", "doca-host"})
    host.brought = ["mlnx-fw-updater"]
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}

    unasked = run("apply", host, asks(lab, driver=driver))["failed"]
    assert unasked["step"] == "driver"
    assert states(unasked["reason"], "24.10-1.1.4")
    assert host.offered == {}, "nothing happens without leave"

    failed = run("apply", host, asks(lab, driver={**driver, "replace": True}))["failed"]

    assert failed["step"] == "driver"
    assert states(failed["reason"], "mlnx-fw-updater")
    assert "24.10-1.1.4" in host.ofed
    assert {"mlnx-tools", "doca-host"} <= host.installed


def test_a_repository_that_goes_with_the_old_driver_is_added_again(host, lab, doca):
    host.with_ofed("24.10-1.1.4", {"doca-host"})
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca, "replace": True}

    assert applied(host, asks(lab, driver=driver))["failed"] is None

    changes = commands_with(host, "doca-host", "/var/cache/rocelab", "purge", "rpm -e")
    steps = ["added" if "/var/cache" in one else "gone" for one in changes if "imulate" not in one]
    assert steps == ["added", "gone", "added"]
    assert list((host.folder / "var/cache/rocelab").iterdir()) == []


def test_a_name_that_dnf_wraps_is_planned_too(tmp_path, monkeypatch):
    host = VendorHost(tmp_path, "rhel")
    head = " Package        Arch    Version  Repository   Size\nInstalling:\n doca-ofed      x86_64  3.2.1  doca  1 k\n"
    table = f"{head}Installing dependencies:\n mlnx-fw-updater\n                x86_64  25.07  doca  99 M\n"
    monkeypatch.setattr(host, "_install", lambda *_: Done(1, table, ""))

    assert {"doca-ofed", "mlnx-fw-updater"} < {*planned(host, ["doca-ofed"])}
    assert "x86_64" not in planned(host, ["doca-ofed"])


def test_without_leave_to_reboot_nothing_is_installed(host, lab, doca):
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}

    result = run("apply", host, asks(lab, reboot="never", driver=driver))

    assert result["failed"] is None
    assert all(states(reason, "hosts.reboot: roll") for reason in result["needs_reboot"])
    assert not host.ofed
    assert host.offered == {}


def test_openibd_loads_an_idle_driver(host, lab, doca):
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca, "restart": "openibd"}
    document = asks(lab, reboot="never", driver=driver)
    for module in ("ib_core", "ib_uverbs", "mlx5_core"):
        host.file(f"/sys/module/{module}/holders/mlx5_ib/refcnt", "1")

    result = applied(host, document)

    assert (result["failed"], result["needs_reboot"]) == (None, [])
    assert differing(host, document) == {}


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (lambda host: host.file("/sys/module/nvme_rdma/refcnt", "1"), ["nvme_rdma", "loaded"]),
        (
            lambda host: host.symlink("/sys/class/net/enp0s3/device/driver", host.folder / "drivers/mlx5_core"),
            ["enp0s3", "management interface"],
        ),
        (lambda host: held_by(host, "nvidia_peermem", "ib_uverbs"), ["nvidia_peermem", "ib_uverbs"]),
        (lambda host: held_by(host, "bnxt_re", "ib_core", "ib_uverbs"), ["bnxt_re", "ib_core ib_uverbs"]),
    ],
    ids=["storage", "management", "peer memory", "another NIC's driver"],
)
def test_openibd_leaves_a_driver_in_use_to_a_reboot(host, lab, doca, held, said):
    held(host)
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca, "restart": "openibd"}

    result = run("apply", host, asks(lab, driver=driver))

    assert any(states(reason, *said) for reason in result["needs_reboot"])
    assert commands_with(host, "openibd restart") == []


def test_a_driver_in_use_is_not_replaced_without_permission_to_reboot(host, lab, doca):
    host.file("/sys/module/nvme_rdma/refcnt", "1")
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca, "restart": "openibd"}

    result = run("apply", host, asks(lab, reboot="never", driver=driver))

    assert (result["failed"], host.ofed, host.offered) == (None, "", {})
    assert not [field for field in result["changed"] if field.startswith("driver")]
    assert result["needs_reboot"]
    assert all(states(reason, "nvme_rdma") for reason in result["needs_reboot"])


def test_the_kernels_own_driver_comes_back_by_a_reboot_since_openibd_goes(host, lab):
    host.with_ofed("24.10-1.1.4", {"mlnx-tools"})
    driver = {"source": "inbox", "replace": True, "restart": "openibd"}

    result = run("apply", host, asks(lab, driver=driver))

    assert result["failed"] is None
    assert any(states(reason, "openibd") for reason in result["needs_reboot"])
    assert commands_with(host, "openibd restart") == []


def test_modules_that_dkms_did_not_build_for_this_kernel_are_built(host, lab, doca):
    host.with_ofed(WANTED, set())
    host.dkms = f"mlnx-ofed-kernel/25.07, {KERNEL}, x86_64: added\n"
    document = asks(lab, driver={"source": "doca_ofed", "version": WANTED, "download": doca})

    assert differing(host, document)["driver_built"] == f"dkms for {KERNEL}: added"
    assert applied(host, document)["failed"] is None
    assert differing(host, document) == {}


def test_a_newer_kernel_gets_its_headers_before_modules_are_built_for_it(host, lab, doca):
    host.with_ofed(WANTED, set())
    host.dkms = f"mlnx-ofed-kernel/25.07, {KERNEL}, x86_64: added\n"
    (host.folder / f"lib/modules/{KERNEL}/build/Makefile").unlink()
    (host.folder / f"lib/modules/{KERNEL}/build").rmdir()
    headers = f"linux-headers-{KERNEL}" if host.family == "debian" else f"kernel-devel-{KERNEL}"
    document = asks(lab, driver={"source": "doca_ofed", "version": WANTED, "download": doca})

    assert headers in run("apply", host, document)["failed"]["reason"]
    assert commands_with(host, "dkms autoinstall") == []
    host.offered[headers] = lambda: None
    assert applied(host, document)["failed"] is None
    assert headers in host.installed


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
    assert any(states(reason, "kernel") for reason in result["needs_reboot"])
    host.modinfo = (WRITTEN / "modinfo-inbox.txt").read_text()
    host.remove(f"{MODULE}/taint")
    host.reboot()
    assert differing(host, document) == {}


def test_containers_with_gpus_are_not_put_at_risk_by_a_packages_scripts(host, lab, doca):
    host.file("/proc/driver/nvidia/version", "NVRM version")
    host.file("/run/containerd/io.containerd.runtime.v2.task/k8s.io/one/init.pid", "1")
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}

    failed = run("apply", host, asks(lab, driver=driver))["failed"]

    assert "1 running containers" in failed["reason"]
    assert "kubectl drain" in failed["hint"]
    assert not host.ofed


def test_every_reason_for_a_reboot_is_gone_after_one(host, lab, doca):
    driver = {"source": "doca_ofed", "version": WANTED, "download": doca}
    document = asks(lab, driver=driver, firmware={"manage": True})
    assert len(applied(host, document)["needs_reboot"]) == 3

    host.reboot()

    assert not host.exists(REBOOT_FILE)
    assert run("probe", host, document)["needs_reboot"] == []
