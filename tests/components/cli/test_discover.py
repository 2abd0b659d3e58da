"""`rocelab discover`: its files, and what it ends with."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from components.cli import look
from components.cli.app import main
from components.hosts.records import HostRecord
from components.inventory.document import dump
from components.inventory.model import Host, Inventory
from components.inventory.reading import known
from stacks.read import read_stack_file
from tests.components.discovery.spoilt import bare, each_pf, one_pf
from tests.components.inventory.fabricate import changed, pci_of
from tests.messages import states

FILES = ["Pulumi.pod1.yaml", "first-up.md", "known_hosts.pod1", "questions.md"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def discover(here: Path, inventory: Inventory, *words: str) -> int:
    (here / "inventory.json").write_bytes(dump(inventory))
    return main(["discover", "--from", "inventory.json", "--name", "pod1", *words])


def with_twins() -> Inventory:
    return each_pf(bare(3, 3), lambda _, k, pf: replace(pf, pci=pci_of(2)[:-1] + "1") if k == 3 else pf)


def test_a_clean_inventory_gives_a_draft_that_loads(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert discover(here, bare(3, 2), "--folder", "labs") == 0

    assert sorted(path.name for path in (here / "labs").iterdir()) == FILES
    lab = read_stack_file(here / "labs" / "Pulumi.pod1.yaml")
    assert str(lab.access.known_hosts_file) == "labs/known_hosts.pod1"
    assert states(capsys.readouterr().out, "pod1", "2 rails", "3 nodes", "labs/Pulumi.pod1.yaml")


def test_open_questions_end_with_1_and_answers_close_them(here: Path) -> None:
    assert discover(here, with_twins()) == 1
    (here / "answers.yaml").write_text('ports:\n  "gpu[01-03]": {ens2np0: rail-2, ens3np0: none}\n')

    assert discover(here, with_twins(), "--answers", "answers.yaml", "--force") == 0
    assert [rail.name for rail in read_stack_file(here / "Pulumi.pod1.yaml").rails] == ["rail-1", "rail-2"]


def test_hosts_that_were_not_read_end_with_4(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silent = Host(name="gpu03", address="198.18.0.3", unread="no answer")

    assert discover(here, changed(bare(3, 2), "gpu03", lambda _: silent), "--json") == 4
    assert json.loads(capsys.readouterr().out)["unread"] == ["gpu03: no answer"]


def test_files_that_exist_are_kept_without_force(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "questions.md").write_text("mine")

    assert discover(here, bare(2, 2)) == 2
    assert "questions.md" in capsys.readouterr().err
    assert (here / "questions.md").read_text() == "mine"
    assert not (here / "Pulumi.pod1.yaml").exists(), "all or nothing"

    assert discover(here, bare(2, 2), "--force") == 0
    assert (here / "questions.md").read_text() != "mine"


@pytest.mark.parametrize(
    "words", [["--name", "Pod 1"], ["--answers", "nowhere.yaml"], ["--hosts", "gpu01"], ["--unknown"]]
)
def test_bad_input_ends_with_2_and_writes_nothing(here: Path, words: list[str]) -> None:
    assert discover(here, bare(2, 2), *words) == 2
    assert [path.name for path in here.iterdir()] == ["inventory.json"]


def test_an_invalid_inventory_is_bad_input(here: Path) -> None:
    (here / "inventory.json").write_text("{}")

    assert main(["discover", "--from", "inventory.json", "--name", "pod1"]) == 2


@pytest.mark.usefixtures("here")
def test_neither_hosts_nor_an_inventory_is_bad_input() -> None:
    assert main(["discover", "--name", "pod1"]) == 2


def test_without_an_inventory_it_looks_and_probes_the_active_nodes(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drained = one_pf(bare(3, 2), "gpu02", 1, mtu_bytes=known(1500, "sysfs"))
    asked: list[str] = []

    async def probed(records: dict[str, HostRecord], _key: str | None) -> dict[str, str]:
        asked.extend(records)
        return dict.fromkeys(records, "no answer in time")

    monkeypatch.setattr(look, "look", lambda *_: drained)
    monkeypatch.setattr("components.cli.discover.read_plans", probed)
    for name in ("known_hosts", "Pulumi.yaml"):
        (here / name).write_text("")

    hosts = ["--hosts", "gpu[01-03]", "--user", "ops", "--known-hosts", "known_hosts"]
    assert main(["discover", *hosts, "--name", "pod1", "--folder", "labs", "--json"]) == 0

    assert asked == ["gpu01", "gpu03"]
    assert json.loads(capsys.readouterr().out)["drained"] == ["gpu02"]
    assert (here / "labs" / "inventory.json").stat().st_mode & 0o777 == 0o600
    page = (here / "labs" / "first-up.md").read_text()
    assert [line for line in page.splitlines() if states(line, "gpu[01,03]", "no answer")]


def test_where_no_rail_is_decided_there_are_only_the_pages(here: Path) -> None:
    assert (
        discover(here, each_pf(bare(2, 2), lambda _n, _k, pf: replace(pf, addresses=replace(pf.addresses, value=()))))
        == 1
    )
    assert sorted(path.name for path in here.iterdir()) == ["first-up.md", "inventory.json", "questions.md"]
