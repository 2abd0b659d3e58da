"""What holds for every step: apply makes a host conform, a repeat changes nothing, and undo restores what was there.

Each kind of host is made once as its lab asks, and every step that has something to do there is looked at by itself.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.program.host import Host
from components.hosts.program.main import perform
from components.hosts.program.step import Step
from components.hosts.program.steps import STEPS
from stacks.lab import Lab
from tests.components.hosts.kernel import FakeHost
from tests.components.hosts.kube_kernel import KubeHost
from tests.components.hosts.nics import DEVICES, NicHost
from tests.components.hosts.system_kernel import SystemHost
from tests.components.hosts.system_lab import ALL, document_of
from tests.components.hosts.vendor_kernel import VendorHost
from tests.components.hosts.vendor_lab import asks
from tests.labs import made_here

PROGRAM = b"program"
World = tuple[FakeHost, dict[str, Any]]


def of_network(folder: Path, lab: Lab) -> World:
    return FakeHost(folder), host_document(lab, lab.nodes[0])


def of_system(folder: Path, lab: Lab) -> World:
    return SystemHost(folder, "debian").with_grub(), document_of(lab, ALL)


def of_vendor(folder: Path, lab: Lab) -> World:
    host = VendorHost(folder, "debian")
    host.offered = {
        "nvidia-open": lambda: setattr(host, "gpu_module", "570.124.06"),
        "nvidia-container-toolkit": lambda: setattr(host, "ctk", "1.17.8"),
    }
    gpu = {
        "driver": {"source": "packaged", "version": "570.124.06", "packages": ["nvidia-open"]},
        "toolkit": {"source": "packaged", "version": "1.17.8", "packages": ["nvidia-container-toolkit"]},
        "gpudirect": "none",
    }
    containerd = {"source": "packaged", "version": "1.7.27", "packages": ["containerd.io"]}
    return host, asks(lab, firmware={"manage": True}, runtime={"containerd": containerd}, gpu=gpu)


def of_quality(folder: Path, lab: Lab) -> World:
    given = lab.model_dump(mode="json") | {"qos": {"mode": "lossless"}}
    for pf in given["nodes"][0]["pfs"]:
        pf.update(driver="mlx5_core", rdma_device=DEVICES[pf["interface"]], vfs=2)
    asked = Lab.model_validate(given)
    return NicHost(folder, "mlnx_qos"), host_document(asked, asked.nodes[0])


def of_cluster(folder: Path, repository: dict[str, str]) -> World:
    asked = Lab.model_validate_json(json.dumps(made_here(packages=repository)))
    return KubeHost(folder, "debian"), host_document(asked, asked.nodes[0])


WORLDS: dict[str, Callable[[Path, Lab], World]] = {
    "network": of_network,
    "system": of_system,
    "vendor": of_vendor,
    "quality": of_quality,
}
OTHER_FAKES = {
    "firmware_version": "test_steps_firmware.py::test_a_version_that_waits_in_flash_for_a_cold_boot_is_told",
    "routing": "test_steps_routing.py::test_undo_takes_ours_and_leaves_everybody_elses",
    "guest_network": "test_steps_guest_network.py::test_the_guest_keeps_the_address_and_a_second_run_finds_it_so",
    "pvrdma": "test_steps_pvrdma.py::test_an_active_port_is_left_alone",
    "driver_container": "test_driver_container.py::test_a_host_that_runs_the_containers_driver_is_not_asked_again",
    "bitfusion": "test_steps_guests.py::test_files_of_a_client_go_with_it_and_the_package_stays",
    "initramfs": "test_steps_guests.py::test_the_initramfs_is_written_after_the_drop_ins_and_only_when_they_change",
    "licence": "test_steps_guests.py::test_an_undo_gives_the_licence_back_and_the_file_its_old_lines",
}
"""Steps whose kernel is in the module that tests them, with the test of the same."""


@pytest.fixture(params=[*WORLDS, "cluster"])
def world(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    lab: Lab,
    repository: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    root = tmp_path / "root"
    root.mkdir()
    return of_cluster(root, repository) if request.param == "cluster" else WORLDS[request.param](root, lab)


def run(verb: str, machine: FakeHost, document: dict[str, Any]) -> dict[str, Any]:
    result = perform(verb, machine, json.dumps(document), PROGRAM)
    assert result["failed"] is None, result["failed"]
    return result


def reboot(machine: FakeHost) -> None:
    """What takes effect at the next boot; a host whose steps need none has no reboot."""
    getattr(machine, "reboot", lambda: None)()


def concerned(document: dict[str, Any]) -> list[Step]:
    return [step for step in STEPS if step.concerns(document)]


def before(machine: FakeHost, document: dict[str, Any]) -> dict[str, Any]:
    """What each step would put back, and what of each PF. Firmware stays: to put it back costs a reboot."""
    found: dict[str, Any] = {}
    for step in (step for step in concerned(document) if step.name != "firmware"):
        around = Host(machine, document, PROGRAM)
        found[step.name] = step.before(around)
        for pf in document["pfs"]:
            found[f"{step.name} {pf['interface']}"] = step.before_pf(around, pf["interface"])
    return found


def test_every_step_conforms_after_apply_repeats_nothing_and_is_undone(world: World) -> None:
    machine, document = world
    at_first = before(machine, document)

    if run("apply", machine, document)["needs_reboot"]:
        reboot(machine)
        run("apply", machine, document)
    run("confirm", machine, document)

    around = Host(machine, document, PROGRAM)
    for step in concerned(document):
        assert {key: step.observed(around)[key] for key in step.wanted(document)} == step.wanted(document), step.name
    machine.written.clear()
    again = run("apply", machine, document)
    assert (again["changed"], again["needs_reboot"], machine.written) == ([], [], [])
    run("undo", machine, document)
    reboot(machine)
    assert before(machine, document) == at_first


def test_every_step_is_under_this_contract_or_has_a_test_of_the_same(
    lab: Lab, repository: dict[str, str], tmp_path: Path
) -> None:
    folders = {name: tmp_path / name for name in (*WORLDS, "cluster")}
    for folder in folders.values():
        folder.mkdir()
    worlds = [*(make(folders[name], lab) for name, make in WORLDS.items()), of_cluster(folders["cluster"], repository)]
    covered = {step.name for _, document in worlds for step in concerned(document)}

    assert {step.name for step in STEPS} - covered == set(OTHER_FAKES)
    for place in OTHER_FAKES.values():
        file, _, test = place.partition("::")
        assert f"def {test}(" in Path(__file__).with_name(file).read_text()
