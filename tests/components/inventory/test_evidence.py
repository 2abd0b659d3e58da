"""Bundles of evidence: readers read a recording as they read the host, and nothing identifies the host any more.

Each folder in tests/samples/hosts is an unpacked bundle, and a test of every reader.
"""

import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.cli.app import main
from components.hosts.program.look.leaves import Json
from components.hosts.program.look.record import Recorder, evidence
from components.hosts.program.look.run import look
from components.inventory.answer import host_of
from components.inventory.evidence import (
    HOST,
    MANIFEST,
    OF_THE_READER,
    Bundle,
    archive,
    bundle,
    inventory_of,
    recording_in,
)
from components.inventory.model import Host
from components.inventory.redact import Redactor
from tests.components.inventory.tree import SERIAL, Tree
from tests.conftest import ROOT

SAMPLES = ROOT / "tests" / "samples" / "hosts"
HOSTS = [
    (folder, path.name.removesuffix(".inventory.json"))
    for folder in sorted(SAMPLES.glob("*"))
    for path in sorted(folder.glob("*.inventory.json"))
]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setenv("SSH_CONNECTION", "198.51.100.1 5000 192.0.2.11 22")
    made = Tree(tmp_path)
    made.file("/proc/sys/kernel/hostname", "atlas7.corp.example\n")
    return made


def machine_of(tree: Tree) -> Recorder:
    return Recorder(str(tree.root), str(tree.programs), 20)


def packed(recording: Json) -> Bundle:
    redactor = Redactor(b"a key of this test")
    redactor.learn_names("host", ["gpu01"])
    return bundle({"gpu01": {**recording, "memlock_kib": "64"}}, redactor)


def test_the_readers_read_a_recording_as_they_read_the_host(tree: Tree) -> None:
    answer = look(Recorder(str(tree.root), str(tree.programs), 20), deadline_s=60)
    for leaf in OF_THE_READER:
        answer["system"].pop(leaf, None)

    recording = json.loads(json.dumps(evidence(machine_of(tree))))

    assert inventory_of(recording, "gpu01") == host_of(json.dumps(answer), Host(name="gpu01", address=""))


def test_a_recording_changes_nothing_on_the_host(tree: Tree) -> None:
    before = {path: path.stat().st_mtime_ns for path in tree.root.rglob("*") if path.exists()}

    evidence(machine_of(tree))

    assert {path: path.stat().st_mtime_ns for path in tree.root.rglob("*") if path.exists()} == before


def test_a_bundle_holds_nothing_that_identifies_the_host_and_says_how_much_was_replaced(tree: Tree) -> None:
    secrets = ["atlas7", "corp.example", SERIAL, "192.0.2.11", "leaf1", "aa:bb:cc:00:00:01"]
    recording = evidence(machine_of(tree))
    whole = json.dumps(recording)
    made = packed(recording)

    assert [secret for secret in secrets if secret in whole] == secrets
    assert [secret for secret in secrets if secret.lower() in made.text.lower()] == []
    assert json.loads(made.files[MANIFEST])["removed"] == {kind: len(values) for kind, values in made.removed.items()}


def test_a_redacted_host_has_the_same_values_known_and_the_same_cables(tree: Tree) -> None:
    recording = json.loads(json.dumps(evidence(machine_of(tree))))
    before = inventory_of(recording, "host1")

    after = HOST.validate_json(packed(recording).files["host1.inventory.json"])

    assert known_leaves(after) == known_leaves(before)
    for old, new in zip(before.pfs.or_else(()), after.pfs.or_else(()), strict=True):
        assert (new.pci, new.mtu_bytes, new.counters) == (old.pci, old.mtu_bytes, old.counters)


def known_leaves(host: Host) -> set[str]:
    return {path for path, known in leaves(HOST.dump_python(host, mode="json")) if known}


def leaves(value: Any, path: str = "") -> list[tuple[str, bool]]:
    """Every reading, and whether it has a value."""
    if isinstance(value, dict) and "unknown" in value:
        return [(path, not value["unknown"])]
    items: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        items = [(f"{path}.{key}", item) for key, item in value.items()]
    elif isinstance(value, list):
        items = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    return [leaf for where, item in items for leaf in leaves(item, where)]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "/etc/NetworkManager/system-connections/x.nmconnection",
            "[connection]\ninterface-name=ens1np0\n[802-1x]\npassword=Hunter2000\n",
        ),
        (
            "/etc/netplan/50.yaml",
            'network:\n  ethernets:\n    ens1np0:\n      auth: {}\n      password: "Hunter2000"\n',
        ),
        (
            "/etc/netplan/50.yaml",
            "network:\n  tunnels:\n    wg0:\n      peers:\n        - keys: {public: x, shared: Hunter2000}\n",
        ),
        (
            "/etc/netplan/50.yaml",
            "network:\n  ethernets:\n    ens1np0:\n      auth:\n        password: >-\n\n          Hunter2000\n",
        ),
        (
            "/etc/NetworkManager/system-connections/x.nmconnection",
            "[connection]\ntype=vpn\n[vpn-secrets]\ncookie=Hunter2000\n[macsec]\nmka-cak=Hunter2000\n",
        ),
        ("/etc/network/interfaces", "iface ens1np0 inet dhcp\n    wpa-psk Hunter2000\n"),
    ],
)
def test_a_password_never_leaves_the_host(tree: Tree, path: str, text: str) -> None:
    tree.file(path, text)

    recording = evidence(machine_of(tree))

    assert path in recording["files"]
    assert "Hunter2000" not in json.dumps(recording)


def test_of_another_process_only_the_ssh_session_is_recorded(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION")
    machine = machine_of(tree)
    tree.file("/proc/77/environ", "TOKEN=Hunter2000\0SSH_CONNECTION=1.2.3.4 5 192.0.2.11 22\0")

    assert machine.read("/proc/77/environ") == "SSH_CONNECTION=1.2.3.4 5 192.0.2.11 22"


def test_a_host_name_of_two_letters_goes_too(tree: Tree) -> None:
    tree.file("/proc/sys/kernel/hostname", "n1\n")

    files = packed(evidence(machine_of(tree))).files

    assert HOST.validate_json(files["host1.inventory.json"]).system.hostname.value == "host1"


def test_of_the_kernel_s_arguments_only_those_of_pci_and_iommu_are_recorded(tree: Tree) -> None:
    tree.file("/proc/cmdline", "root=/dev/vg-atlas7/root intel_iommu=on init=/opt/atlas7/init pci=realloc\n")

    assert machine_of(tree).read("/proc/cmdline") == "intel_iommu=on pci=realloc"


def test_a_host_without_a_nic_that_has_rdma_of_its_own_counts_as_simulated(tree: Tree) -> None:
    recording = evidence(machine_of(tree))
    hosts = json.loads(packed(recording).files[MANIFEST])["hosts"]
    recording["folders"] = {path: names for path, names in recording["folders"].items() if "infiniband" not in path}
    without = json.loads(packed(recording).files[MANIFEST])["hosts"]

    assert (hosts["host1"]["simulated"], without["host1"]["simulated"]) == (False, True)


def test_the_limit_of_the_login_is_in_front_of_the_recording() -> None:
    assert recording_in('memlock 64\nnoise\n{"schema": 1}') == {"schema": 1, "memlock_kib": "64"}
    assert recording_in("sudo: a password is required") is None
    assert recording_in('{"schema": 99}') is None


@pytest.fixture
def gathered(tree: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bundle:
    made = packed(evidence(machine_of(tree)))
    monkeypatch.setattr("components.cli.evidence.gather", lambda *_: made)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "known_hosts").write_text("")
    return made


WORDS = ("evidence", "--hosts", "gpu01", "--user", "ops", "--known-hosts", "known_hosts", "--out", "cx7.tar.gz")


@pytest.mark.usefixtures("gathered")
def test_without_a_terminal_nothing_is_written_unless_you_say_yes() -> None:
    assert main(WORDS) == 2
    assert not Path("cx7.tar.gz").exists()


def test_the_archive_is_one_folder_whose_checksums_hold(gathered: Bundle) -> None:
    assert main([*WORDS, "--yes"]) == 0

    assert Path("cx7.tar.gz").stat().st_mode & 0o777 == 0o600
    with tarfile.open("cx7.tar.gz") as tar:
        tar.extractall("unpacked", filter="data")
    sums = json.loads(Path("unpacked/cx7/manifest.json").read_text())["sha256"]
    assert set(sums) == set(gathered.files) - {MANIFEST}
    for name, digest in sums.items():
        assert hashlib.sha256(Path(f"unpacked/cx7/{name}").read_bytes()).hexdigest() == digest


def test_a_host_that_was_not_read_ends_with_4(gathered: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Host(name="gpu02", address="", unread="no answer")
    monkeypatch.setattr("components.cli.evidence.gather", lambda *_: replace(gathered, unread=[silent]))

    assert main([*WORDS, "--yes"]) == 4


def test_a_bundle_goes_into_one_folder_of_its_archive(gathered: Bundle) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(gathered, "cx7"))) as tar:
        assert {name.partition("/")[0] for name in tar.getnames()} == {"cx7"}


@pytest.mark.parametrize(("folder", "name"), HOSTS, ids=lambda value: getattr(value, "name", value))
def test_every_reader_reads_a_bundle_as_when_it_was_packed(folder: Path, name: str) -> None:
    recording = json.loads((folder / f"{name}.json").read_text())
    host = HOST.validate_json((folder / f"{name}.inventory.json").read_bytes())

    again = inventory_of(recording, host.name)

    before, after = (
        dict(leaves(HOST.dump_python(host, mode="json"))),
        dict(leaves(HOST.dump_python(again, mode="json"))),
    )
    lost = [path for path, known in before.items() if known and not after.get(path)]
    assert lost == []
    assert again == host, "a reader reads it differently: if that is right, write the inventory again"


@pytest.mark.parametrize("folder", sorted({folder for folder, _ in HOSTS}), ids=lambda folder: folder.name)
def test_a_bundle_is_complete_and_says_whether_it_is_simulated(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())

    for file, digest in manifest["sha256"].items():
        if not file.endswith(".inventory.json"):  # which changes with the readers
            assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest, file
    assert {host["simulated"] for host in manifest["hosts"].values()} <= {True, False}
