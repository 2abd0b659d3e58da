"""`rocelab look` as a user calls it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from components.cli import look as command
from components.cli.app import main
from components.inventory.document import load
from components.inventory.hosts import UNPINNED
from components.inventory.look import LookRequest
from components.inventory.model import Host, Inventory
from tests.components.inventory.fabricate import changed, fabricate
from tests.conftest import ROOT
from tests.messages import states

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8Ht8Z3j6yDWPBHQtOp/R9rjWvfMYo3MSA/K6q8D86r"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[LookRequest]:
    """What was looked at; the answer is a cluster of two hosts, of which the second is not pinned."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "known_hosts").write_text("")
    requests: list[LookRequest] = []
    unpinned = Host(name="gpu02", address="198.18.0.2", unread=UNPINNED, offered_key=KEY)

    def answered(request: LookRequest, _say: object) -> Inventory:
        requests.append(request)
        return changed(fabricate(), "gpu02", lambda _host: unpinned)

    monkeypatch.setattr(command, "look", answered)
    return requests


LOGIN = ("--user", "ops", "--known-hosts", "known_hosts")


def test_hosts_are_named_by_sets_with_or_without_addresses(asked: list[LookRequest]) -> None:
    main(["look", "--hosts", "gpu[01-02]=192.0.2.[11-12]", "--hosts", "old1", *LOGIN, "--port", "2222"])

    [request] = asked
    assert [(host.name, host.address, host.ssh_port) for host in request.hosts] == [
        ("gpu01", "192.0.2.11", 2222),
        ("gpu02", "192.0.2.12", 2222),
        ("old1", "old1", 2222),
    ]


@pytest.mark.parametrize(
    "words", [("look", "--out", "no/i.json"), ("audit", "--out", "no/i.json"), ("audit", "--html", "no/a.html")]
)
def test_a_missing_folder_is_reported_before_anything_is_looked_at(
    asked: list[LookRequest], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--hosts", "gpu01", *LOGIN]) == 2

    assert states(capsys.readouterr().err, words[-1], "no folder", Path.cwd() / "no")
    assert asked == []


@pytest.mark.parametrize("option", ["--known-hosts", "--key", "--kubeconfig"])
def test_a_file_that_is_not_utf_8_is_bad_input(
    asked: list[LookRequest], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("binary").write_bytes(b"ab\xff")

    assert main(["look", "--hosts", "gpu01", *LOGIN, option, "binary"]) == 2

    assert states(capsys.readouterr().err, "binary", "UTF-8", "byte 2")
    assert asked == []


@pytest.mark.parametrize(("place", "port"), [("192.0.2.201", 22), ("192.0.2.201:2222", 2222)])
def test_a_switch_is_named_with_its_system_and_the_port_of_its_ssh(
    asked: list[LookRequest], place: str, port: int
) -> None:
    main(["look", "--hosts", "gpu01", *LOGIN, "--switch", f"leaf1=sonic@{place}", "--switch-user", "ops"])

    [switch] = asked[0].switches
    assert (switch.name, switch.os, str(switch.address)) == ("leaf1", "sonic", "192.0.2.201")
    assert (switch.ssh_port, switch.user) == (port, "ops")


def test_without_hosts_the_nodes_and_switches_of_a_lab_are_looked_at(asked: list[LookRequest]) -> None:
    file = tree_of(Path.cwd())

    main(["look", "--config-file", str(file)])

    [request] = asked
    assert [(host.name, host.address, host.user) for host in request.hosts] == [
        ("gpu01", "127.0.12.1", "nvidia"),
        ("gpu02", "127.0.12.2", "nvidia"),
    ]
    assert [(switch.name, switch.os) for switch in request.switches] == [("sn2700", "onyx")]
    assert request.private_key is not None
    assert request.kubeconfig == "kind: Config"


def tree_of(folder: Path) -> Path:
    """The reference lab with its keys, as a checkout has it after the simulator was started."""
    (folder / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
    file = folder / "Pulumi.lab.yaml"
    file.write_text((ROOT / "Pulumi.lab.yaml").read_text())
    for name, text in {
        ".sim/nodes/id_ed25519": "-----BEGIN OPENSSH PRIVATE KEY-----",
        ".sim/nodes/known_hosts": "",
        ".sim/kubeconfig": "kind: Config",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return file


def test_the_inventory_is_written_and_what_was_not_read_ends_with_4(
    asked: list[LookRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["look", "--hosts", "gpu[01-02]", *LOGIN])
    said = capsys.readouterr()

    assert (len(asked), code) == (1, 4)
    assert load(Path("inventory.json")).hosts[0] == fabricate().hosts[0]
    assert states(said.out, 1, "2 hosts")
    assert f"198.18.0.2 {KEY}  # gpu02 SHA256:" in said.err, "a line for known_hosts, with the fingerprint"


def test_as_json_the_summary_is_one_document(asked: list[LookRequest], capsys: pytest.CaptureFixture[str]) -> None:
    main(["look", "--hosts", "gpu[01-02]", *LOGIN, "--out", "today.json", "--json"])

    document = json.loads(capsys.readouterr().out)
    assert document["file"] == "today.json"
    assert document["unread"] == [{"name": "gpu02", "reason": UNPINNED, "offered_key": KEY}]


def test_a_look_at_everything_ends_with_0(asked: list[LookRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "look", lambda _request, _say: replace(fabricate(), cluster=None))

    assert main(["look", "--hosts", "gpu[01-02]", *LOGIN]) == 0
    assert asked == []


@pytest.mark.parametrize(
    "words",
    [
        ("--hosts", "gpu01"),
        ("--hosts", "gpu[01-02]=192.0.2.1", *LOGIN),
        ("--hosts", "gpu[02-01]", *LOGIN),
        ("--hosts", "gpu01", "--hosts", "gpu01", *LOGIN),
        ("--hosts", "gpu01", *LOGIN, "--switch", "leaf1=ios@192.0.2.201"),
        ("--hosts", "gpu01", *LOGIN, "--switch", "leaf1=sonic@leaf1"),
        ("--hosts", "gpu01", *LOGIN, "--switch", "leaf1=sonic@192.0.2.201:99999"),
        ("--switch", "leaf1=sonic@192.0.2.201"),
    ],
    ids=["no login", "unequal sets", "no set", "twice", "system", "address", "port", "no hosts"],
)
def test_bad_words_end_with_2_and_nothing_is_asked(asked: list[LookRequest], words: tuple[str, ...]) -> None:
    assert main(["look", *words]) == 2
    assert asked == []
    assert not Path("inventory.json").exists()


def test_hosts_are_read_without_a_login_that_only_the_cluster_needs(
    asked: list[LookRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tree_of(tmp_path)
    (tmp_path / ".sim/kubeconfig").unlink()

    main(["look", "--config-file", str(file)])

    [request] = asked
    assert [host.name for host in request.hosts] == ["gpu01", "gpu02"]
    assert request.kubeconfig is None
    assert states(request.cluster_unread, ".sim/kubeconfig", "--kubeconfig")
