"""What holds for every step: apply makes a host conform, a repeat changes nothing, and undo restores what was there.

Each kind of host is made once as its lab asks, and every step that has something to do there is looked at by itself.
A new step fails the last test until one of these hosts has something to do for it.
"""

import copy
import json
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.program.carriers import ROUTES
from components.hosts.program.host import Host
from components.hosts.program.machine import Machine
from components.hosts.program.main import perform
from components.hosts.program.step import Step
from components.hosts.program.steps import STEPS
from stacks.lab import Lab
from tests.components.hosts.kernel import FakeHost
from tests.components.hosts.kube_kernel import KubeHost
from tests.components.hosts.licensed_guest import (
    CANARY,
    LicensedGuest,
    bitfusion_token,
    client_section,
    licence_section,
)
from tests.components.hosts.network_guest import NetworkGuest
from tests.components.hosts.nics import DEVICES, NicHost
from tests.components.hosts.pvrdma_guest import PvrdmaGuest, pvrdma_document
from tests.components.hosts.router import Router, routed
from tests.components.hosts.system_kernel import SystemHost
from tests.components.hosts.system_lab import ALL, document_of
from tests.components.hosts.vendor_kernel import VendorHost
from tests.components.hosts.vendor_lab import asks, with_gpu
from tests.labs import made_here

PROGRAM = b"program"
World = tuple[FakeHost, dict[str, Any]]


def of_network(folder: Path, lab: Lab) -> World:
    return FakeHost(folder), host_document(lab, lab.nodes[0])


def of_system(folder: Path, lab: Lab) -> World:
    return SystemHost(folder, "debian").with_grub(), document_of(lab, ALL)


def of_vendor(folder: Path, lab: Lab) -> World:
    host = VendorHost(folder, "debian")
    host.offered = {"nvidia-open": lambda: setattr(host, "gpu_module", "570.124.06")}
    driver = {"source": "packaged", "version": "570.124.06", "packages": ["nvidia-open"]}
    gpu = {"driver": driver, "gpudirect": "none"}
    containerd = {"source": "packaged", "version": "1.7.27", "packages": ["containerd.io"]}
    firmware = {"manage": True, "version": "16.35.4030"}
    return host, asks(lab, firmware=firmware, runtime={"containerd": containerd}, gpu=gpu)


def of_gpus(folder: Path, lab: Lab) -> World:
    host = VendorHost(folder, "debian")
    with_gpu(host, "v100", "535.230.02")
    host.file("/proc/kallsyms", "0 T ib_register_peer_memory_client\t[ib_core]\n")
    host.offered = {"nvidia-container-toolkit": lambda: setattr(host, "ctk", "1.17.8")}
    toolkit = {"source": "packaged", "version": "1.17.8", "packages": ["nvidia-container-toolkit"]}
    return host, asks(lab, gpu={"toolkit": toolkit, "gpudirect": "peermem"})


def of_quality(folder: Path, lab: Lab) -> World:
    given = lab.model_dump(mode="json") | {"qos": {"mode": "lossless"}}
    for pf in given["nodes"][0]["pfs"]:
        pf.update(driver="mlx5_core", rdma_device=DEVICES[pf["interface"]], vfs=2)
    asked = Lab.model_validate(given)
    return NicHost(folder, "mlnx_qos"), host_document(asked, asked.nodes[0])


def of_cluster(folder: Path, repository: dict[str, str]) -> World:
    asked = Lab.model_validate_json(json.dumps(made_here(packages=repository)))
    return KubeHost(folder, "debian"), host_document(asked, asked.nodes[0])


def of_routes(folder: Path, lab: Lab) -> World:
    asked = routed(lab, "10.10.11.1", "10.10.12.1")
    return Router(folder), {**host_document(asked, asked.nodes[0]), "rdma_namespaces": "exclusive"}


def of_guest_network(folder: Path, lab: Lab) -> World:
    document = host_document(lab, lab.nodes[0])
    section = {"tool": "auto", "peers": {"enp5s0": "10.10.11.12"}}
    return NetworkGuest(folder, "netplan-networkd"), {**document, "pfs": document["pfs"][:1], "guest_network": section}


def of_pvrdma(folder: Path, lab: Lab) -> World:
    return PvrdmaGuest(folder), pvrdma_document(lab)


def of_operator(folder: Path, lab: Lab) -> World:
    return VendorHost(folder, "debian"), asks(lab, driver={"source": "operator"})


def of_licences(folder: Path, lab: Lab) -> World:
    guest = LicensedGuest(folder)
    guest.brought("licence", CANARY)
    guest.brought("bitfusion", bitfusion_token())
    sections = {"licence": licence_section(), "bitfusion": client_section(folder.parent), "initramfs": True}
    return guest, {**host_document(lab, lab.nodes[0]), **sections}


WORLDS: dict[str, Callable[[Path, Lab], World]] = {
    "network": of_network,
    "system": of_system,
    "vendor": of_vendor,
    "GPUs": of_gpus,
    "quality": of_quality,
    "routes": of_routes,
    "guest network": of_guest_network,
    "pvrdma": of_pvrdma,
    "operator": of_operator,
    "licences": of_licences,
}


@pytest.fixture(params=[*WORLDS, "cluster"])
def world(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    lab: Lab,
    repository: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setenv("SUDO_USER", "nvidia")
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


STAYS = {
    "/proc/sys/kernel/random/boot_id": "each boot has its own",
    # as docs/system.md, docs/drivers.md and docs/guests.md say
    "installed": "software stays",
    "packages": "software stays",
    "/etc/chrony/chrony.conf": "came with its package, which stays",
    "/sys/module/nvidia/version": "came with its package, which stays",
    "/var/cache/rocelab/*": "a package that was downloaded",
    "/etc/systemd/network/70-rocelab-*.link": "a driver stays, and so do the names that another one might change",
    "firmware": "to put it back costs a reboot",
    "/sys/class/net/*/type": "a PF shows its kind of link after the reboot of the firmware's change",
    "/boot/grub/grub.cfg": "a GPU driver or a virtual machine may rely on kernel arguments by then",
    "/etc/default/grub.d/99-rocelab.cfg": "likewise",
    "/proc/cmdline": "likewise",
    "/etc/passwd": "files on shared filesystems belong to an account's number",
    "/home/ops/.bashrc": "likewise",
    "/home/nvidia/.rocelab-secret-*": "a secret goes, though it was there before the host program ran",
    "/run/*": "goes with the next boot",
    "/sys/class/infiniband/*/ports/1/state": "a PVRDMA port that found its address once",
}
"""What is not as it was before, by what an undo leaves there on purpose."""


def state(machine: FakeHost) -> dict[str, Any]:
    """All that a run can change on a host: its files with their modes, and what its fake kernel and tools hold."""
    files = {
        f"/{path.relative_to(machine.folder)}": (path.stat().st_mode, path.read_bytes().rstrip())
        for path in machine.folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    held = ("links", "soft", "routes", "rules", "ports", "firmware", "installed", "packages", "licensed")
    found = {**files, **{name: copy.deepcopy(getattr(machine, name)) for name in held if hasattr(machine, name)}}
    return {name: value for name, value in found.items() if not any(fnmatch(name, kept) for kept in STAYS)}


def test_every_step_conforms_after_apply_repeats_nothing_and_is_undone(world: World) -> None:
    machine, document = world
    at_first = state(machine)

    if run("apply", machine, document)["needs_reboot"]:
        reboot(machine)
        run("apply", machine, document)
    machine.commands.clear()
    run("confirm", machine, document)
    reads = set(machine.commands)

    around = Host(machine, document, PROGRAM)
    for step in concerned(document):
        assert {key: step.observed(around)[key] for key in step.target(document)} == step.target(document), step.name
    made = state(machine)
    assert made != at_first
    machine.written.clear()
    machine.commands.clear()
    again = run("apply", machine, document)
    assert (again["changed"], again["needs_reboot"], machine.written) == ([], [], [])
    reads.update(" ".join(words) for words in ROUTES.values())
    assert set(machine.commands) <= reads, "it only reads, and arms no revert"
    assert state(machine) == made
    run("undo", machine, document)
    reboot(machine)
    assert state(machine) == at_first


OURS = ("/var/lib/rocelab/*", "/run/*", "/home/*", "/etc/*/.ssh/*")
"""Files that a plan does not list one by one."""


def test_a_plan_lists_every_file_that_the_apply_writes_and_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, document = world
    at_first, put = state(machine), Machine.put
    written: list[str] = []

    def recorded(self: Machine, path: str, *content: Any, **mode: Any) -> None:
        written.append(path)
        put(self, path, *content, **mode)

    monkeypatch.setattr(Machine, "put", recorded)
    machine.written.clear()
    planned = perform("plan", machine, json.dumps(document), PROGRAM)["facts"]
    assert (state(machine), written, machine.written) == (at_first, [], [])

    run("apply", machine, document)
    unlisted = [path for path in written if not any(fnmatch(path, known) for known in (*planned["files"], *OURS))]
    assert unlisted == []


def test_every_step_is_under_this_contract(lab: Lab, repository: dict[str, str], tmp_path: Path) -> None:
    folders = {name: tmp_path / name / "root" for name in (*WORLDS, "cluster")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    worlds = [*(make(folders[name], lab) for name, make in WORLDS.items()), of_cluster(folders["cluster"], repository)]

    assert {step.name for step in STEPS} == {step.name for _, document in worlds for step in concerned(document)}
