"""GPU driver, container toolkit and GPUDirect on a host of each family."""

import pytest

from components.hosts.program.host import Document, Host
from components.hosts.program.look.read_only import ReadOnly
from components.hosts.program.places import STATE
from components.hosts.program.steps.gpudirect import path_facts, slow_path
from stacks.lab import Lab
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.vendor_kernel import KERNEL, VendorHost
from tests.components.hosts.vendor_lab import (
    applied,
    asks,
    commands_with,
    secure_boot_on,
    unchanged_by_a_second_run,
    with_gpu,
    with_module_file,
)
from tests.components.inventory.tree import Tree, acs
from tests.messages import states


def test_a_gpu_driver_that_works_is_kept_and_reported(host, lab):
    with_gpu(host, "v100", "535.230.02")
    host.file("/proc/kallsyms", "0 T ib_register_peer_memory_client\t[ib_core]\n")
    document = asks(lab, gpu={})

    assert applied(host, document)["failed"] is None
    facts = run("probe", host, document)["facts"]
    assert facts["gpu"] == {
        "driver": "535.230.02", "cuda": "12.2", "product": "Tesla V100-SXM2-32GB", "architecture": "Volta", "count": 8
    }  # fmt: skip
    assert states(facts["gpudirect"], "peermem", "Volta")
    assert states(facts["acs_bridges"], "unknown"), "this host has no readable PCI tree"
    assert "warnings" not in facts
    assert host.exists("/sys/module/nvidia_peermem")


def test_a_host_without_a_gpu_driver_fails_where_one_is_to_be_kept(host, lab):
    failed = run("apply", host, asks(lab, gpu={}))["failed"]

    assert failed["step"] == "gpu_driver"
    assert states(failed["reason"], "nvidia-smi")


@pytest.mark.row("B 314")
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


def test_another_gpu_driver_is_replaced_with_leave_only(host, lab):
    with_gpu(host, "h100", "550.54.15")
    host.installed |= {"nvidia-driver-550", "libnvidia-compute-550", "libnvidia-container1", "nvidia-container-toolkit"}
    host.offered = {"nvidia-open": lambda: with_module_file(host, "570.124.06")}
    driver = {"source": "packaged", "version": "570.124.06", "packages": ["nvidia-open"]}

    failed = run("apply", host, asks(lab, gpu={"driver": driver, "gpudirect": "none"}))["failed"]

    assert failed["step"] == "gpu_driver"
    assert states(failed["hint"], "libnvidia-compute-550", "nvidia-driver-550")
    document = asks(lab, gpu={"driver": {**driver, "replace": True}, "gpudirect": "none"})
    result = applied(host, document)
    assert result["failed"] is None
    assert any(states(reason, "550.54.15", "570.124.06") for reason in result["needs_reboot"])
    assert {"libnvidia-container1", "nvidia-container-toolkit"} <= host.installed


def test_an_iommu_that_translates_is_a_warning_where_nics_reach_gpus_and_only_there(host, lab):
    host.file("/sys/kernel/iommu_groups/7/type", "DMA-FQ")
    with_gpu(host, "v100", "535.230.02")
    slow = run("probe", host, asks(lab, gpu={}))["facts"]
    assert "warnings" not in slow, "no peer memory interface: nothing goes that way"

    host.file("/proc/kallsyms", "0 T ib_register_peer_memory_client\t[ib_core]\n")

    warnings = run("probe", host, asks(lab, gpu={}))["facts"]["warnings"]
    assert any("the IOMMU translates" in warning for warning in warnings)


def acs_of(tree: Tree, *, product: str = "PowerEdge XE9680") -> object:
    tree.file("/sys/class/dmi/id/product_name", product)
    rails = {"pfs": [{"interface": name} for name in ("ens1np0", "ens2np0")]}
    return path_facts(Host(ReadOnly(str(tree.root)), rails, b""))["acs_bridges"]


def test_only_a_bridge_that_redirects_between_a_rails_nic_and_its_gpu_is_a_warning(tmp_path):
    tree = Tree(tmp_path)
    root_port, of_the_nic, of_the_gpu, elsewhere = "0000:15:01.0", "0000:18:00.0", "0000:18:01.0", "0000:3a:00.0"
    tree.binary(f"/sys/bus/pci/devices/{elsewhere}/config", acs(redirects=True))
    assert acs_of(tree) == [of_the_nic], "no GPU is behind the other one"

    tree.binary(f"/sys/bus/pci/devices/{of_the_gpu}/config", acs(redirects=True))
    tree.binary(f"/sys/bus/pci/devices/{root_port}/config", acs(redirects=True))
    assert acs_of(tree) == [root_port, of_the_nic, of_the_gpu]

    [warning] = slow_path({"iommu_groups": "off", "acs_bridges": acs_of(tree)})
    assert states(warning, of_the_nic, of_the_gpu, "disable_acs_redir", "4.19", "setpci", "VMs")
    for bridge in (root_port, of_the_nic, of_the_gpu):
        tree.binary(f"/sys/bus/pci/devices/{bridge}/config", acs(redirects=False))
    assert acs_of(tree) == []


def test_acs_is_unknown_where_it_cannot_be_read_and_in_a_virtual_machine(tmp_path):
    tree = Tree(tmp_path)
    assert states(str(acs_of(tree, product="KVM")), "unknown", "hypervisor")

    tree.binary("/sys/bus/pci/devices/0000:18:00.0/config", bytes(64))
    reason = str(acs_of(tree))

    assert states(reason, "unknown", "0000:18:00.0")
    assert slow_path({"iommu_groups": "off", "acs_bridges": reason}) == []


PACKAGED = {"source": "packaged", "version": "570.124.06", "packages": ["nvidia-open"]}


def test_a_driver_that_dkms_builds_gets_the_headers_of_the_running_kernel(host, lab):
    host.offered = {"nvidia-open": lambda: with_module_file(host, "570.124.06")}
    host.brought = ["nvidia-dkms-570-open"]
    (host.folder / f"lib/modules/{KERNEL}/build/Makefile").unlink()
    (host.folder / f"lib/modules/{KERNEL}/build").rmdir()
    (host.folder / f"lib/modules/{KERNEL}/build").symlink_to("/usr/src/gone")
    headers = f"linux-headers-{KERNEL}" if host.family == "debian" else f"kernel-devel-{KERNEL}"
    document = asks(lab, gpu={"driver": PACKAGED, "gpudirect": "none"})

    assert headers in run("apply", host, document)["failed"]["reason"]
    host.offered[headers] = lambda: None
    assert applied(host, document)["failed"] is None
    assert headers in host.installed


def test_what_comes_with_a_kernel_needs_no_headers(host, lab):
    host.offered = {"nvidia-open": lambda: with_module_file(host, "570.124.06")}
    (host.folder / f"lib/modules/{KERNEL}/build/Makefile").unlink()
    (host.folder / f"lib/modules/{KERNEL}/build").rmdir()

    assert applied(host, asks(lab, gpu={"driver": PACKAGED, "gpudirect": "none"}))["failed"] is None


def test_under_secure_boot_a_driver_that_dkms_would_build_is_not_installed(host, lab):
    secure_boot_on(host)
    with_gpu(host, "h100", "550.54.15")
    host.installed |= {"nvidia-driver-550"}
    host.offered = {"nvidia-open": lambda: with_module_file(host, "570.124.06")}
    host.brought = ["nvidia-dkms-570-open"]

    failed = run("apply", host, asks(lab, gpu={"driver": {**PACKAGED, "replace": True}, "gpudirect": "none"}))["failed"]

    assert failed["step"] == "gpu_driver"
    assert states(failed["reason"], "Secure Boot")
    assert "linux-modules-nvidia" in failed["hint"]
    assert "nvidia-driver-550" in host.installed, "the old one works"


@pytest.mark.parametrize(("package", "refused"), [("nvidia-dkms-570-open", True), ("linux-modules-nvidia-570", False)])
def test_secure_boot_is_asked_before_anything_changes_where_a_package_names_dkms(host, lab, package, refused):
    secure_boot_on(host)
    host.offered = {package: lambda: with_module_file(host, "570.124.06")}
    gpu = {"driver": {**PACKAGED, "packages": [package]}, "gpudirect": "none"}

    failed = run("apply", host, asks(lab, gpu=gpu))["failed"]

    assert (failed and failed["step"]) == ("preflight" if refused else None)


def test_packages_without_a_module_for_this_kernel_are_reported_as_such(host, lab):
    host.offered = {"nvidia-open": lambda: None}
    host.file("/sys/module/nouveau/refcnt", "0")

    result = run("apply", host, asks(lab, gpu={"driver": PACKAGED, "gpudirect": "none"}))

    assert result["failed"]["step"] == "gpu_driver"
    assert states(result["failed"]["reason"], "nvidia-open", KERNEL)
    assert result["needs_reboot"] == [], "a reboot would mend nothing"


def test_a_driver_of_an_older_kernel_is_built_for_the_one_that_runs(host, lab, monkeypatch):
    host.installed |= {"nvidia-open", "nvidia-dkms-570-open"}
    host.offered = {"nvidia-open": lambda: None}
    answer = host._nic_tool
    monkeypatch.setattr(
        host,
        "_nic_tool",
        lambda words: (
            with_module_file(host, "570.124.06") or answer(words)
            if words[:2] == ("dkms", "autoinstall")
            else answer(words)
        ),
    )
    document = asks(lab, gpu={"driver": PACKAGED, "gpudirect": "none"})

    assert applied(host, document)["failed"] is None
    assert commands_with(host, "dkms autoinstall") == [f"dkms autoinstall -k {KERNEL}"]


def test_a_named_way_that_cannot_work_fails_with_the_reason(host, lab):
    with_gpu(host, "v100", "535.230.02")

    failed = run("apply", host, asks(lab, gpu={"gpudirect": "dmabuf"}))["failed"]

    assert failed["step"] == "gpudirect"
    assert states(failed["reason"], "dmabuf", "Volta")


def test_peermem_that_the_kernel_refuses_is_reported_with_what_it_needs(host, lab):
    with_gpu(host, "v100", "535.230.02")
    host.peer_module = False

    failed = run("apply", host, asks(lab, gpu={"gpudirect": "peermem"}))["failed"]

    assert "Invalid argument" in failed["reason"]
    assert "DOCA-OFED" in failed["hint"]


@pytest.mark.row("A 33-37", "B 396-404")
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


CONFIG = "/etc/containerd/config.toml"
DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"


def with_toolkit(host: VendorHost, lab: Lab, version: str) -> Document:
    """The toolkit put into a containerd that is kept; returns the document that asked for it."""
    with_gpu(host, "h100", "570.124.06")
    host.offered = {"nvidia-container-toolkit": lambda: setattr(host, "ctk", version)}
    toolkit = {"source": "packaged", "version": version, "packages": ["nvidia-container-toolkit"]}
    document = asks(lab, gpu={"toolkit": toolkit, "gpudirect": "none"})
    assert applied(host, document)["failed"] is None
    assert host.exists(DROP_IN) == (version == "1.18.0")
    return document


@pytest.mark.parametrize("version", ["1.17.8", "1.18.0"])
def test_a_configuration_that_came_with_the_toolkit_goes_with_it(host, lab, version):
    host.remove(CONFIG)
    document = with_toolkit(host, lab, version)
    host.commands.clear()

    assert run("undo", host, document)["failed"] is None

    assert not host.exists(CONFIG), "there was none before"
    assert not host.exists(DROP_IN)
    assert not host.exists(STATE)
    assert commands_with(host, "restart") == ["systemctl restart containerd.service"]


@pytest.mark.parametrize("version", ["1.17.8", "1.18.0"])
def test_a_configuration_that_was_edited_after_the_toolkit_stays(host, lab, version):
    host.remove(CONFIG)
    document = with_toolkit(host, lab, version)
    host.file(CONFIG, f"{host.read(CONFIG)}\nSystemdCgroup = true\n")
    theirs = host.content(CONFIG)

    assert run("undo", host, document)["failed"] is None

    assert host.content(CONFIG) == theirs
    assert not host.exists(DROP_IN)
    assert not host.exists(STATE)


def test_an_empty_configuration_is_empty_again_when_the_toolkit_goes(host, lab):
    host.file(CONFIG, "")
    document = with_toolkit(host, lab, "1.17.8")

    assert run("undo", host, document)["failed"] is None

    assert host.exists(CONFIG)
    assert host.content(CONFIG) == b""
