"""The program on the host, on a small kernel in a folder; the sim tests do the same to real nodes."""

import ast
import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from components.hosts.calls import parse_report
from components.hosts.pack import LOADER, SOURCES, START, on_stdin, packed, started
from components.hosts.program import main as program_main
from components.hosts.program.host import CHECKPOINT, Host, live_pods
from components.hosts.program.machine import Done, StepError
from components.hosts.program.main import announce
from components.hosts.program.places import BASELINE_FILE, MODPROBE_FILE, STATE, SYSCTL_FILE, UNIT_FILE, UNIT_LINK
from components.hosts.records import target_fields
from tests.components.hosts.host_runs import POD, POD_CGROUP, differing, fewer_vfs, given_to_a_pod, made, run
from tests.components.hosts.kernel import PFS, FakeHost, addresses
from tests.messages import states
from tests.sources import imported

STANDARD = {
    "base64",
    "ctypes",
    "errno",
    "fcntl",
    "fnmatch",
    "functools",
    "hashlib",
    "ipaddress",
    "importlib",
    "io",
    "json",
    "os",
    "pkgutil",
    "platform",
    "re",
    "shutil",
    "signal",
    "ssl",
    "subprocess",
    "sys",
    "tarfile",
    "threading",
    "time",
    "traceback",
    "typing",
    "urllib.error",
    "urllib.request",
    "xml.etree",
}
RECORDED = Path(__file__).with_name("recorded")


def test_a_slow_run_says_on_stderr_what_it_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program_main, "ANNOUNCE_S", 0.05)

    ended = announce(lambda: "apply: step driver")
    time.sleep(0.3)
    ended.set()

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("apply: step driver, ") for line in lines)


def test_a_full_disk_is_named_and_the_next_run_converges(
    machine: FakeHost, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        put = machine.put

        def without_space(path: str, content: str | bytes, mode: int = 0o644) -> None:
            if path == MODPROBE_FILE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            put(path, content, mode)

        full.setattr(machine, "put", without_space)
        failed = run("apply", machine, document)["failed"]

    assert "No space left on device" in failed["reason"]
    assert failed["hint"] == "free space there, then run again"
    made(machine, document)


def test_a_quick_run_says_nothing_on_stderr(
    machine: FakeHost, document: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run("apply", machine, document)

    assert capsys.readouterr().err == ""


def test_a_clean_host_becomes_what_its_document_says(machine, document):
    made(machine, document)

    assert machine.links["enp5s0"]["mtu"] == 9000
    assert addresses(machine.links["enp132s0"]) == ["10.10.12.11/24"]
    assert machine.soft == {"rxe0": "enp5s0", "rxe1": "enp132s0"}


def test_a_host_reports_its_facts_once_in_a_run_when_it_is_confirmed(machine, document):
    assert run("apply", machine, document)["facts"] == {}

    confirmed = run("confirm", machine, document)

    assert confirmed["facts"]["machine_id"] == machine.read("/etc/machine-id") != ""
    assert confirmed["fields"] == target_fields(document)


def test_facts_stay_in_the_report_when_a_field_cannot_be_read(machine, document, monkeypatch):
    def unreadable(_host: Host) -> None:
        raise StepError("no answer")

    monkeypatch.setattr(program_main, "probe", unreadable)

    report = run("probe", machine, document)

    assert report["failed"]["reason"] == "no answer"
    assert report["facts"]["machine_id"] == machine.read("/etc/machine-id")


def test_each_vf_starts_its_driver_once_and_with_its_own_address(machine, document):
    run("apply", machine, document)

    starts = [value for path, value in machine.written if path.endswith("drivers_probe")]
    assert len(starts) == len(set(starts)) == 8
    assert not [path for path, _ in machine.written if path.endswith("unbind")]


DRIFTS = [
    (lambda m: m.write("/sys/class/net/enp5s0/device/sriov_numvfs", "0"), "enp5s0.vfs", 0),
    (lambda m: m.links["enp132s0"].update(mtu=1500), "enp132s0.mtu_bytes", 1500),
    (lambda m: m.links["enp5s0"].update(flags=[]), "enp5s0.link", "down"),
    (lambda m: m.run("ip", "-batch", "-", stdin="address del 10.10.11.11/24 dev enp5s0"), "enp5s0.address", "none"),
    (lambda m: m.run("rdma", "link", "delete", "rxe1"), "enp132s0.rdma_device", "none"),
    (lambda m: m.run("modprobe", "-r", "ib_umad"), "modules", ["rdma_rxe", "rdma_ucm"]),
    (lambda m: m.remove(UNIT_LINK), "unit", "rocelab-rdma.service not enabled"),
    (lambda m: m.remove(SYSCTL_FILE), "unit", f"{SYSCTL_FILE} missing"),
    (lambda m: m.write("/proc/sys/net/ipv4/conf/enp5s0/arp_ignore", "0"), "enp5s0.arp", None),
    (lambda m: (m.vf("enp5s0", 1) / "net/enp5s0v1/mtu").write_text("1500"), "enp5s0.vf_mtu_bytes", 1500),
    (
        lambda m: (m.vf("enp5s0", 1) / "net/enp5s0v1/address").write_text("02:00:00:00:00:09"),
        "enp5s0.vf_macs",
        None,
    ),
]


def test_each_drifted_field_is_seen_alone_and_put_back(machine, document):
    made(machine, document)
    for drift, field, found in DRIFTS:
        drift(machine)

        seen = differing(machine, document)
        assert list(seen) == [field]
        assert found is None or seen[field] == found

        assert run("apply", machine, document)["failed"] is None, field
        run("confirm", machine, document)
        assert differing(machine, document) == {}, field


def test_only_the_fields_that_may_be_repaired_are_touched(machine, document):
    made(machine, document)
    machine.links["enp5s0"]["mtu"] = 1500
    machine.remove(SYSCTL_FILE)

    run("apply", machine, {**document, "only": ["unit"]})

    assert differing(machine, document) == {"enp5s0.mtu_bytes": 1500}


def in_a_namespace(machine: FakeHost) -> None:
    machine.to_namespace("enp5s0", 1)


def with_an_unreadable_list_of_pods(machine: FakeHost) -> None:
    machine.file(CHECKPOINT, "not json")


def bound_to_vfio(machine: FakeHost) -> None:
    driver = machine.vf("enp5s0", 1) / "driver"
    driver.unlink()
    driver.symlink_to(machine.folder / "sys/bus/pci/drivers/vfio-pci")


def under_a_bridge(machine: FakeHost) -> None:
    (machine.vf("enp5s0", 1) / "net/enp5s0v1/upper_br0").touch()


def opened_by_a_process(machine: FakeHost) -> None:
    machine.run("rdma", "link", "add", "rxe9", "type", "rxe", "netdev", "enp5s0v1")
    machine.opened.add("rxe9")


USES = [
    in_a_namespace,
    given_to_a_pod,
    with_an_unreadable_list_of_pods,
    bound_to_vfio,
    under_a_bridge,
    opened_by_a_process,
]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_a_vf_in_use_is_left_alone(machine, document, use):
    made(machine, document)
    use(machine)
    machine.written.clear()

    result = run("apply", machine, fewer_vfs(document))

    assert result["failed"]["step"] == "vfs"
    assert "in use" in result["failed"]["reason"]
    assert "drain the node" in result["failed"]["hint"]
    assert not [path for path, _ in machine.written if "sriov" in path or "unbind" in path]
    assert len(Host(machine, document, b"").vfs("enp5s0")) == 4


def test_a_vf_in_use_keeps_the_address_that_its_pod_gave_it(machine, document):
    made(machine, document)
    given_to_a_pod(machine)
    (machine.vf("enp5s0", 1) / "net/enp5s0v1/address").write_text("02:99:99:99:99:99")

    assert differing(machine, document) == {}
    assert run("apply", machine, document)["changed"] == []


def test_a_checkpoint_that_outlived_a_reboot_keeps_no_vf_without_its_driver(machine, document):
    """`removeContents` of the kubelet's device manager spares the file, and `readCheckpoint` reads it after a reboot.

    Source: kubernetes/kubernetes pkg/kubelet/cm/devicemanager/manager.go, and its maintainers in kubernetes#109595.
    """
    made(machine, document)
    given_to_a_pod(machine, alive=False)
    for pf in PFS:
        machine.write(f"/sys/class/net/{pf}/device/sriov_numvfs", "0")  # what a reboot does

    assert run("boot", machine, document)["failed"] is None

    assert [vf.netdev for vf in Host(machine, document, b"").vfs("enp5s0")] == [f"enp5s0v{n}" for n in range(4)]
    assert differing(machine, document) == {}


def test_a_vf_without_driver_never_conforms(machine, document):
    made(machine, document)
    given_to_a_pod(machine)  # alive, and yet it cannot use what has no driver
    machine.write("/sys/class/net/enp5s0/device/virtfn1/driver/unbind", "0000:05:10.1")

    assert states(differing(machine, document)["enp5s0.vf_macs"], "VF 1", "driver")

    assert run("apply", machine, document)["failed"] is None
    assert differing(machine, document) == {}


def test_drained_pods_free_their_vfs_although_the_kubelet_wrote_no_new_list(machine, document):
    """`UpdateAllocatedDevices` purges memory and does not write (devicemanager/manager.go)."""
    made(machine, document)
    given_to_a_pod(machine, alive=False)

    assert run("apply", machine, fewer_vfs(document))["failed"] is None

    assert len(Host(machine, document, b"").vfs("enp5s0")) == 2


def test_pods_are_found_in_every_layout_of_cgroups(machine):
    """Names of kubernetes `pkg/kubelet/cm` (cgroup_manager_linux.go, pod_container_manager_linux.go)."""
    mirror = "0123456789abcdef0123456789abcdef"  # a static pod's UID is a digest
    for folder in (
        POD_CGROUP,
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{mirror}.slice/cri-containerd-0a.scope",
        "pids/kubepods/besteffort/podaaaaaaaa-1111-2222-3333-bbbbbbbbbbbb/0b",
        "system.slice/podman.service",
    ):
        machine.file(f"/sys/fs/cgroup/{folder}/cgroup.procs", "")

    assert live_pods(machine) == {POD, mirror, "aaaaaaaa-1111-2222-3333-bbbbbbbbbbbb"}


def test_more_vfs_than_the_nic_has_are_refused_with_the_remedy(machine, document):
    first, *rest = document["pfs"]
    result = run("apply", machine, {**document, "pfs": [{**first, "vfs": 8}, *rest]})

    assert result["failed"]["step"] == "preflight"
    assert states(result["failed"]["reason"], "enp5s0", "7 VFs", 8)
    assert "lower vfs" in result["failed"]["hint"]


def test_a_count_that_the_kernel_refuses_leaves_the_drivers_starting_by_themselves(machine, document):
    machine.file("/sys/devices/0000:05:00.0/sriov_totalvfs", "64")
    first, *rest = document["pfs"]
    result = run("apply", machine, {**document, "pfs": [{**first, "vfs": 8}, *rest]})

    assert result["failed"]["step"] == "vfs"
    assert machine.read("/sys/class/net/enp5s0/device/sriov_drivers_autoprobe") == "1"


def test_a_driver_that_udev_loads_late_takes_no_vf_before_it_has_its_address(machine, document, monkeypatch):
    run_at_once, loaded = machine.run, []

    def run_while_udev_loads(*words, stdin="", **options):
        vfs = sorted(Path(machine.path("/sys/devices")).glob("*:10.*"))
        if vfs and not loaded and (words[1] == "settle" or " vf " in stdin):
            loaded.append(words)
            for vf in vfs:
                if (vf / "physfn/sriov_drivers_autoprobe").read_text() == "1":
                    machine.write("/sys/bus/pci/drivers_probe", vf.name)
        return run_at_once(*words, stdin=stdin, **options)

    monkeypatch.setattr(machine, "run", run_while_udev_loads)

    made(machine, document)

    assert loaded


def test_a_run_killed_while_vfs_were_without_driver_is_finished_by_the_next(machine, document):
    machine.write("/sys/class/net/enp5s0/device/sriov_drivers_autoprobe", "0")
    machine.write("/sys/class/net/enp5s0/device/sriov_numvfs", "4")

    made(machine, document)

    assert machine.read("/sys/class/net/enp5s0/device/sriov_drivers_autoprobe") == "1"


@pytest.mark.parametrize(("allowed", "mode"), [(False, 1), (True, 0)])
def test_a_busy_rdma_mode_is_a_needed_reboot_and_prepared_only_where_one_is_allowed(machine, document, allowed, mode):
    made(machine, document)
    machine.busy_namespaces = True
    target = {**document, "rdma_namespaces": "exclusive", **({"may_stage": True} if allowed else {})}

    result = run("apply", machine, target)

    assert result["failed"] is None
    reason = "rdma_namespaces shared => exclusive: the kernel changes it only before the first pod"
    refused = "; nothing was set, since hosts.reboot is never"
    assert result["needs_reboot"] == [reason + ("" if allowed else refused)]
    assert f"netns_mode={mode}" in machine.read(MODPROBE_FILE)
    assert differing(machine, target).keys() == {"rdma_namespaces"}, "the rest is as the document asks, the unit too"


def test_undo_leaves_nothing_of_ours_and_everything_of_before(machine, document):
    machine.links["enp5s0"]["addr_info"] = [{"family": "inet", "local": "10.1.1.1", "prefixlen": 24, "scope": "global"}]
    before = json.dumps(machine.links)
    made(machine, document)

    assert run("undo", machine, document)["failed"] is None

    assert json.dumps(machine.links) == before
    assert machine.soft == {}
    assert not [pf for pf in PFS if Host(machine, document, b"").vfs(pf)]
    assert [path for path in machine.folder.rglob("*") if "rocelab" in path.name] == []
    assert [path for path in machine.names("/sys/module") if path.startswith(("rdma", "ib_u"))] == []


def test_undo_leaves_a_vf_in_use_and_says_so_and_a_later_one_ends_the_work(machine, document):
    made(machine, document)
    in_a_namespace(machine)

    failed = run("undo", machine, document)["failed"]

    assert failed["step"] == "undo"
    assert states(failed["reason"], "VF 1", "in use")
    assert machine.exists(BASELINE_FILE), "what was before us must not be forgotten yet"
    assert not machine.exists(UNIT_LINK)
    netdev = machine.vf("enp5s0", 1) / "net/enp5s0v1"
    netdev.mkdir()
    (netdev / "address").write_text("02:00:00:00:00:00")
    (netdev / "mtu").write_text("9000")
    assert run("undo", machine, document)["failed"] is None
    assert not machine.exists(STATE)


def test_a_pf_that_leaves_the_document_is_given_back(machine, document):
    made(machine, document)

    assert run("apply", machine, {**document, "pfs": document["pfs"][:1]})["failed"] is None

    assert addresses(machine.links["enp132s0"]) == []
    assert machine.links["enp132s0"]["mtu"] == 1500
    assert Host(machine, document, b"").vfs("enp132s0") == []
    assert machine.links["enp5s0"]["mtu"] == 9000


def test_the_baseline_is_written_before_anything_changes_and_never_again(machine, document):
    made(machine, document)
    first = machine.read(BASELINE_FILE)
    machine.links["enp5s0"]["mtu"] = 4000
    run("apply", machine, document)

    assert machine.read(BASELINE_FILE) == first
    assert json.loads(first)["pfs"]["enp5s0"]["link"]["mtu_bytes"] == 1500


def test_the_program_runs_on_the_oldest_python_that_hosts_have() -> None:
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        modules = {*imported(ast.parse(text, path.name, feature_version=(3, 8)))}

        assert modules <= STANDARD, path
        assert "shell=True" not in text, path


def test_the_packed_program_runs_alone_and_is_always_the_same(tmp_path: Path) -> None:
    archive = tmp_path / "host.pyz"
    archive.write_bytes(packed())
    alone = [sys.executable, "-I", str(archive), "probe"]
    done = subprocess.run(alone, input="{}", stdout=subprocess.PIPE, text=True, check=True)
    same = subprocess.run(["sh", "-c", started("probe")], input=on_stdin("{}"), stdout=subprocess.PIPE, check=True)

    assert states(json.loads(done.stdout)["failed"]["reason"], "document", "schema")
    assert json.loads(same.stdout) == json.loads(done.stdout)
    packed.cache_clear()
    assert packed() == archive.read_bytes()


@pytest.mark.parametrize("text", [START, LOADER], ids=["as a file", "over stdin"])
@pytest.mark.parametrize("version", [(3, 4, 2), (3, 6, 8), (3, 7, 17)])
def test_a_python_that_is_too_old_is_named_with_what_to_do(text: str, version: tuple[int, int, int]) -> None:
    ast.parse(text, feature_version=(3, 4))  # it would not get to its own check otherwise
    pretended = f"import sys\nsys.version_info = {version}\n{text}"

    done = subprocess.run(
        [sys.executable, "-I", "-c", pretended, "5", "apply"], input=b"whole", capture_output=True, check=True
    )

    failed = parse_report(done.stdout.decode()).failed
    assert failed is not None
    assert failed["step"] == "program"
    assert states(failed["reason"], "python3", f"3.{version[1]}", "3.8")
    assert "alternatives --set python3" in failed["hint"]
    assert done.stderr == b""
    assert "\n" not in LOADER, "it is the first line on stdin"


def test_what_ip_and_rdma_print_is_understood(machine, document, monkeypatch):
    answers = {
        "ip": (RECORDED / "ip-addr.json").read_text(),
        "rdma": (RECORDED / "rdma-resource-opened.json").read_text(),
    }
    monkeypatch.setattr(machine, "run", lambda *words, **_: Done(0, answers[words[0]], ""))
    seen = Host(machine, document, b"")

    assert seen.addresses("enp5s0") == ["10.10.11.11/24"]
    assert seen.link_state("enp132s0") == {"mtu_bytes": 9000, "up": True, "addresses": ["10.10.12.11/24"]}
    assert seen.opened_devices() == {"rxe0"}


@pytest.mark.parametrize("verb", ["apply", "undo"])
def test_a_baseline_of_another_version_is_named_and_left_alone_with_all_else(machine, document, verb):
    made(machine, document)
    machine.put(BASELINE_FILE, json.dumps({"schema": 1, "pfs": {}}))
    unit = machine.read(UNIT_FILE)

    failed = run(verb, machine, document)["failed"]

    assert failed["step"] == verb
    assert states(failed["reason"], BASELINE_FILE, "version")
    assert json.loads(machine.read(BASELINE_FILE)) == {"schema": 1, "pfs": {}}
    assert unit == machine.read(UNIT_FILE) != ""
