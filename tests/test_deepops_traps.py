"""What breaks in the guide's own automation (the role `roce_backend` of DeepOps, read at its commit 3957a42).

Each test below is one of its traps, held against what this program really renders and does. Its other traps are held
where the thing is tested: jobs, device plugins, images, undo, and the order of reboots.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.cluster.profiles import networks, programs
from components.cluster.upstream import upstream_files
from components.hosts import delivery
from components.hosts.calls import command_of
from components.hosts.document import host_document
from components.hosts.hosts import start_command
from components.hosts.pack import SOURCES, copied
from components.hosts.program.distribution import family
from components.hosts.program.machine import StepError
from components.hosts.program.places import DOCUMENT_FILE, STATE, UNIT_FILE, UNIT_LINK
from components.hosts.roll import REBOOT, UNIT_STATE, batches, reach_command
from components.inventory.hosts import command as look_command
from components.ssh.credentials import READ
from components.validation.benchmarks.verbs import commands as remote
from stacks.bill import OPERATOR_DEFINITIONS
from stacks.cluster import Cluster
from stacks.drivers import NicDriver
from stacks.hosts import HostPolicy
from stacks.lab import Lab
from tests.components.cluster.rendered import objects_of
from tests.components.hosts.host_runs import fewer_vfs, made, run
from tests.components.hosts.kernel import PFS, FakeHost
from tests.components.jobs.jobs import rendered
from tests.conftest import ROOT
from tests.messages import lines_naming


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return FakeHost(tmp_path)


@pytest.fixture
def document(lab: Lab) -> dict[str, Any]:
    return host_document(lab, lab.nodes[0])


def cluster_of(lab: Lab) -> Cluster:
    assert lab.cluster is not None
    return lab.cluster


# -- shell


@pytest.mark.parametrize("shell", ["dash", "sh", "bash"])
def test_what_a_login_shell_gets_needs_nothing_that_dash_lacks(tmp_path: Path, shell: str) -> None:
    """Its first task sets pipefail in /bin/sh, which is dash on Ubuntu and Debian, and ends there."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, "-c", start_command()],
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"]["step"] == "program"


COMMANDS = {
    "start": start_command(),
    "program": delivery.receive_command(),
    "secret file": delivery.receive_secret("licence"),
    "verb": command_of("probe"),
    "plan": command_of("plan"),
    "look": look_command(sudo=True),
    "reboot": REBOOT,
    "unit": UNIT_STATE,
    "peer": reach_command("enp5s0", ["10.10.11.12", "10.10.11.13"]),
    "kubeconfig": READ,
    "bounded": remote.BOUNDED,
    "lease": remote.LEASE,
    "bench": copied("bench"),
    "reach": remote.REACH,
}
"""Everything that is given to a login shell of a host."""
MEANT = {
    "lease": "SC2016",  # flock's own shell expands it
    "reach": "SC1010",  # ping's word for "do not fragment"
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_login_shell_gets_passes_shellcheck_as_plain_sh(name: str) -> None:
    """Its scripts have words that split, and exit statuses that nobody looks at."""
    checker = [ROOT / ".venv" / "bin" / "shellcheck", "--shell=sh", "--severity=style"]
    meant = [f"--exclude={MEANT[name]}"] if name in MEANT else []
    done = subprocess.run(
        [*checker, *meant, "-"], input=f"{COMMANDS[name]}\n", capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


def test_on_the_host_no_line_is_built_for_a_shell() -> None:
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        assert "os.system" not in text, path
        assert "shell=True" not in text, path


# -- VFs


def test_a_changed_number_of_vfs_takes_effect_now_and_is_written_once(
    machine: FakeHost, document: dict[str, Any]
) -> None:
    """It changes nothing at run time, and appends a second line to rc.local that fails at the next boot."""
    made(machine, document)
    machine.written.clear()
    fewer = fewer_vfs(document)

    made(machine, fewer)

    counts = [value for path, value in machine.written if path.endswith("enp5s0/device/sriov_numvfs")]
    assert counts == ["0", "2"], "the kernel answers EBUSY to anything but zero first"
    kept = json.loads(machine.read(DOCUMENT_FILE))
    assert [pf["vfs"] for pf in kept["pfs"]] == [2, 4]
    assert machine.names("/etc/systemd/system") == ["multi-user.target.wants", "rocelab-rdma.service"]
    assert not machine.exists("/etc/rc.local")


@pytest.mark.row("C 303-305")
def test_a_boot_makes_the_vfs_before_kubelet_starts(machine: FakeHost, document: dict[str, Any]) -> None:
    """Its rc.local races the kubelet, and a device plugin that finds no VF never looks again."""
    made(machine, document)

    assert "Before=kubelet.service containerd.service" in machine.read(UNIT_FILE)
    assert machine.exists(UNIT_LINK)


@pytest.mark.parametrize("verb", ["apply", "boot"])
def test_a_pf_that_fails_does_not_take_the_others_with_it(
    machine: FakeHost, document: dict[str, Any], verb: str
) -> None:
    """One write that fails ends its script under `sh -e`: the PFs after it stay without VFs."""
    machine.file("/sys/devices/0000:05:00.0/sriov_totalvfs", "64")  # more than its driver makes
    first, *rest = document["pfs"]

    failed = run(verb, machine, {**document, "pfs": [{**first, "vfs": 8}, *rest]})["failed"]

    assert failed["step"] == "vfs"
    assert lines_naming(failed["reason"], "enp5s0", "8 VFs")
    assert machine.read("/sys/class/net/enp132s0/device/sriov_numvfs") == "4"
    assert (machine.vf("enp132s0", 3) / "net/enp132s0v3/address").is_file()


def test_a_name_that_is_part_of_another_is_another(machine: FakeHost, document: dict[str, Any]) -> None:
    """It looks for a PF by a part of its name: with ens11f0 set up, ens1 counts as done and gets no VFs."""
    first, second = document["pfs"]
    (machine.folder / "sys/class/net/enp5s0f1").mkdir(parents=True)
    machine.symlink("/sys/class/net/enp5s0f1/device", machine.folder / "sys/devices/0000:84:00.0")
    machine.links["enp5s0f1"] = machine.links.pop("enp132s0")
    for key in ("arp_ignore", "arp_announce", "rp_filter"):
        machine.file(f"/proc/sys/net/ipv4/conf/enp5s0f1/{key}", "0")
    PFS["enp5s0f1"] = PFS["enp132s0"]
    try:
        made(machine, {**document, "pfs": [{**second, "interface": "enp5s0f1"}]})
        assert machine.read("/sys/class/net/enp5s0/device/sriov_numvfs") == "0"
        made(machine, {**document, "pfs": [first, {**second, "interface": "enp5s0f1"}]})
    finally:
        del PFS["enp5s0f1"]

    assert machine.read("/sys/class/net/enp5s0/device/sriov_numvfs") == "4"


def test_each_vf_has_an_address_of_its_own_and_the_rails_mtu(machine: FakeHost, document: dict[str, Any]) -> None:
    """It sets neither: rdma_cm finds no way into a VF without address, and VFs stay at 1500 bytes."""
    made(machine, document)

    homes = [machine.vf(pf, vf) / "net" / f"{pf}v{vf}" for pf in ("enp5s0", "enp132s0") for vf in range(4)]
    assert len({(home / "address").read_text() for home in homes}) == 8
    assert {(home / "mtu").read_text() for home in homes} == {"9000"}


def test_undo_leaves_no_trace(machine: FakeHost, document: dict[str, Any]) -> None:
    """It has no way back."""
    before = sorted(path.name for path in (machine.folder / "etc").rglob("*"))
    made(machine, document)

    assert run("undo", machine, document)["failed"] is None

    left = [path for path in (machine.folder / "etc").rglob("*") if path.is_file() or path.is_symlink()]
    assert [path.name for path in left if path.name not in before] == []
    assert not machine.exists(STATE)


# -- hosts, drivers, reboots


def test_hosts_reboot_only_where_it_is_allowed_and_then_one_first() -> None:
    """It reboots each node as soon as its driver is in, all of them at once, pods or not."""
    assert HostPolicy().reboot == "never"
    assert list(batches([f"gpu{n:02}" for n in range(4)], HostPolicy(reboot="roll"))) == [
        *(["gpu00"], ["gpu01"], ["gpu02"], ["gpu03"])
    ]


def test_another_distribution_is_reported_and_not_skipped(machine: FakeHost) -> None:
    """It does nothing on anything but Ubuntu, and says nothing."""
    machine.file("/etc/os-release", 'ID=gentoo\nVERSION_ID="2.15"\n')

    with pytest.raises(StepError, match="this is gentoo"):
        family(machine)


def test_a_driver_is_downloaded_with_its_checksum_or_not_at_all() -> None:
    """It loop-mounts whatever the download left in /tmp."""
    url = "https://downloads.example/driver.tgz"

    with pytest.raises(ValidationError, match="sha256"):
        NicDriver.model_validate({"source": "mlnx_ofed", "version": "24.10-4.1.4.0", "download": {"url": url}})
    assert NicDriver().source == "keep", "and a driver that works stays, unless somebody asks"


def test_the_number_of_vfs_belongs_to_a_pf(lab: Lab) -> None:
    """It has one number, one device id and one driver for all nodes and NICs."""
    given = lab.model_dump(mode="json")
    given["nodes"][1]["pfs"][0]["vfs"] = 1
    changed = Lab.model_validate(given)

    documents: Any = [host_document(changed, node)["pfs"] for node in changed.nodes]
    assert [[pf["vfs"] for pf in pfs] for pfs in documents] == [[4, 4], [1, 4]]


# -- cluster


@pytest.mark.row("A 219-234")
def test_vfs_are_chosen_by_the_name_of_their_pf_never_by_a_device_id(lab: Lab) -> None:
    """101e is the VF of several ConnectX generations: chosen by it, two rails are mixed."""
    text = json.dumps([objects_of(program) for program in programs(lab, cluster_of(lab)).values()])

    assert "pfNames" in text
    assert "enp5s0" in text
    assert '\\"devices\\"' not in text


def test_upstream_files_are_pinned_by_release_and_content() -> None:
    """It applies files of moving branches, fetched when it runs; one of them is gone since 2023."""
    every = [*upstream_files(), *(file for files in OPERATOR_DEFINITIONS.values() for file in files)]

    for file in every:
        assert file.version.startswith("v"), file
        assert len(file.sha256) == 64, file
        assert "/master/" not in file.url
        assert "/main/" not in file.url


def test_networks_are_where_the_jobs_are_and_carry_vlan_and_rdma(lab: Lab) -> None:
    """Its networks stand in `default` alone, without MTU or the plugin that gives a pod its RDMA device."""
    given = lab.model_dump(mode="json")
    given["hosts"]["rdma_namespaces"] = "exclusive"
    given["cluster"]["namespaces"] = ["team-a", "team-b"]
    changed = Lab.model_validate(given)

    made_ = list(networks(changed, cluster_of(changed)).values())

    assert {manifest["metadata"]["namespace"] for manifest in made_} == {"team-a", "team-b"}
    for manifest in made_:
        chain = json.loads(manifest["spec"]["config"])
        plugins = chain.get("plugins", [chain])
        assert plugins[0]["vlan"] in (111, 112)
        assert "rdma" in [plugin["type"] for plugin in plugins]


def test_a_mpi_job_is_one_that_todays_operator_knows(lab: Lab) -> None:
    """Its operator file is gone, and its example is a v1 job whose policy stands where v2beta1 drops it silently."""
    job = rendered(lab, "horovod")

    assert job["apiVersion"] == "kubeflow.org/v2beta1"
    assert "cleanPodPolicy" not in job["spec"]
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] in ("Running", "All", "None")
