"""`rocelab`: what holds for every verb, whatever it does."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from components.cli.app import NAMES, main, rocelab
from components.cli.exits import EXIT_CODES, Exit, exit_of
from components.cluster.upstream import upstream_files
from components.inventory.document import dump
from components.jobs import registry
from components.jobs.registry import ImageStatus
from components.validation.store import append
from tests.components.fabric.ova import stub_ova
from tests.components.inventory.fabricate import fabricate
from tests.components.jobs.images import DEBIAN, as_folder
from tests.components.validation.history import entries
from tests.conftest import ROOT
from tests.messages import states

RUN = ROOT / "tests" / "samples" / "run"
BITFUSION = ROOT / "examples" / "bitfusion" / "Pulumi.bitfusion.yaml"
REVIEWED = ROOT / "tests" / "samples" / "review" / "reboots.json"
JUDGED = ROOT / "tests" / "samples" / "perftest" / "deepops.client.txt"
OVA, IMAGE, INVENTORY = "appliance.ova", "image", "inventory.json"
"""Made by `place`."""
CALLS = {
    "measure": ["--plan"],
    "report": ["--outputs", str(RUN / "outputs.json"), "--store", str(RUN)],
    "gate": [],
    "judge": [str(JUDGED), "--nic", "100G"],
    "history": [],
    "bitfusion": ["--plan", "--config-file", str(BITFUSION)],
    "ports": [],
    "switches": [],
    "expand": [],
    "ovf": [OVA],
    "image list": [],
    "image pin": [],
    "image show": [],
    "image build": [],
    "image push": [],
    "image check": [IMAGE],
    "image repair": [IMAGE, "--from", "registry.example/image", "--bitfusion", "--config-file", str(BITFUSION)],
    "job": ["nccl"],
    "look": [],
    "plan": [],
    "evidence": ["--yes"],
    "discover": ["--from", INVENTORY, "--name", "pod1"],
    "audit": ["--from", INVENTORY],
    "review": [str(REVIEWED)],
    "check": [str(REVIEWED)],
    "store": [],
    "schema": [],
    "sudoers": ["read", "--user", "ops"],
    "topology": ["--from", INVENTORY],
    "metrics rules": [],
    "metrics dashboard": [],
    "metrics verdict": [],
}
"""How each verb is called where only Python is installed."""
NEEDS_A_TOOL = {"image build", "image push", "look", "plan", "evidence", "gate", "metrics verdict"}
"""They find no docker, host or pulumi here; tests/components has tests of each, such as jobs/test_image.py."""
IN_A_FORMAT_OF_ITS_OWN = {
    *("schema", "image show", "image repair", "sudoers"),
    *("metrics rules", "metrics dashboard", "metrics verdict", "topology"),
}
"""They print JSON Schema, a Dockerfile, sudoers lines or files of Prometheus, Grafana and schedulers."""
HEAVY = ("pulumi", "matplotlib", "pyVmomi", "kubernetes", "asyncssh", "rich", "stacks.lab")


def leaves(group: click.Group = rocelab, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every verb that does something, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command, name
        if isinstance(command, click.Group):
            yield from leaves(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


LEAVES = dict(leaves())
OF_A_LAB = [name for name, command in LEAVES.items() if any("--stack" in one.opts for one in command.params)]
GROUPS = ["", *sorted({name.rpartition(" ")[0] for name in LEAVES if " " in name})]


def without_lab(words: list[str]) -> list[str]:
    """The words of a call but for those that name its lab."""
    at = next((n for n, word in enumerate(words) if word in ("--stack", "--config-file", "--outputs")), len(words))
    return [*words[:at], *words[at + 2 :]]


def no_network(*_: object, **__: object) -> None:
    raise urllib.error.URLError("no network")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two stacks and what the verbs read, and no program on PATH."""
    for name in ("Pulumi.yaml", "Pulumi.lab.yaml", "Pulumi.lab-pvrdma.yaml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    stub_ova(tmp_path / OVA)
    as_folder(DEBIAN, tmp_path / IMAGE)
    (tmp_path / INVENTORY).write_bytes(dump(fabricate(cluster=False)))
    for entry in entries():
        append(tmp_path / ".sim" / "runs" / "lab", entry)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ROCELAB_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    monkeypatch.setattr(registry, "look", lambda _: ImageStatus(outcome="present", digest=f"sha256:{'ef' * 32}"))
    return tmp_path


@pytest.mark.parametrize("words", [*GROUPS, *LEAVES])
def test_help_shows_usage_options_and_an_example(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), "--help"]) == 0
    out = capsys.readouterr().out

    assert out.startswith(f"Usage: rocelab {words}".rstrip())
    assert len(out.split("\n\n")[1].strip()) > 20, "a sentence on what it is for"
    example = out.partition("Example")[2]
    assert f"rocelab {words}".rstrip() in example
    assert max(map(len, out.partition("Example")[0].splitlines())) <= 110


@pytest.mark.parametrize("name", LEAVES)
def test_a_lab_and_json_are_asked_for_in_the_same_words_everywhere(name: str) -> None:
    options = {word: one for one in LEAVES[name].params for word in one.opts}

    assert ("--stack" in options) == ("--config-file" in options)
    assert ("--json" in options) == (name not in IN_A_FORMAT_OF_ITS_OWN)
    assert "--stack" not in options or options["--stack"].default == "lab"
    assert not {"--file", "--stack-file", "--lab"} & set(options)


def test_every_verb_is_in_the_tables_of_this_page() -> None:
    assert set(CALLS) == set(LEAVES)


@pytest.mark.parametrize("name", OF_A_LAB)
def test_a_missing_stack_is_reported_with_the_nearest_one(
    place: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*name.split(), *without_lab(CALLS[name]), "--stack", "lab-pvrmda"]) == 2
    out, err = capsys.readouterr()

    assert out == ""
    assert len(err.splitlines()) == 1
    assert states(err, "--stack lab-pvrmda", place, "Pulumi.lab-pvrmda.yaml", "lab-pvrdma")


@pytest.mark.parametrize("name", OF_A_LAB)
def test_a_lab_file_that_is_not_there_is_bad_input(place: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), *without_lab(CALLS[name]), "--config-file", str(place / "nowhere.yaml")]) == 2
    assert "nowhere.yaml' does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in CALLS if {OVA, IMAGE} & set(CALLS[name])])
def test_a_file_that_is_not_there_is_bad_input(place: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(place / "nowhere")

    assert main([*name.split(), missing, *CALLS[name][1:]]) == 2
    assert "nowhere' does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in LEAVES if name not in {*IN_A_FORMAT_OF_ITS_OWN, *NEEDS_A_TOOL}])
@pytest.mark.usefixtures("place")
def test_json_is_one_document_on_stdout(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main([*name.split(), *CALLS[name], "--json"])

    out, err = capsys.readouterr()
    assert json.loads(out)
    assert status == {"store": 4, "check": 1}.get(name, 0), err


@pytest.mark.parametrize("name", sorted(IN_A_FORMAT_OF_ITS_OWN - NEEDS_A_TOOL))
@pytest.mark.usefixtures("place")
def test_a_format_of_its_own_is_all_of_stdout(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), *CALLS[name]]) == 0
    out, err = capsys.readouterr()

    assert err == ""
    json_of = ("schema", "metrics dashboard")
    assert out.startswith(
        "{\n" if name in json_of else ("# Rendered", "FROM", "# rocelab may", "groups:\n", "apiVersion")
    )


@pytest.mark.parametrize(("name", "option"), [("report", "--junit"), ("report", "--html"), ("audit", "--html")])
def test_a_link_in_the_place_of_a_file_stays(place: Path, name: str, option: str) -> None:
    (place / "link").symlink_to("target")

    assert main([name, *CALLS[name], option, "link"]) == 0

    assert (place / "link").is_symlink()
    assert (place / "target").is_file()


@pytest.mark.usefixtures("place")
def test_what_cannot_be_fetched_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "--json"]) == 4
    assert len(json.loads(capsys.readouterr().out)["errors"]) == len(upstream_files())


def test_an_unknown_verb_is_reported_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prots"]) == 2
    assert "ports" in capsys.readouterr().err


def test_no_verb_at_all_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    told = "".join(capsys.readouterr())
    assert [name for name in NAMES if f"\n  {name} " not in told] == []


@pytest.mark.usefixtures("place")
def test_without_an_engine_a_stack_s_outputs_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 4
    assert states(capsys.readouterr().err, "pulumi", "PATH", 'eval "$(make env)"')


@pytest.mark.parametrize(
    ("findings", "unreached", "code"), [(False, False, 0), (True, False, 1), (False, True, 4), (True, True, 1)]
)
def test_findings_win_over_what_could_not_be_reached(findings: bool, unreached: bool, code: int) -> None:
    assert exit_of(findings=findings, unreached=unreached) == code


def test_every_exit_code_is_explained_by_the_help_and_by_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out, page = capsys.readouterr().out, (ROOT / "docs" / "commands.md").read_text()

    assert set(EXIT_CODES) == set(Exit)
    for code, text in EXIT_CODES.items():
        assert f"{int(code):<4} {text}" in out
        assert f"| {int(code)} | {text} |" in page


def test_the_page_names_every_verb() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()

    assert [name for name in LEAVES if f"`rocelab {name}`" not in page] == []


def test_the_help_of_all_verbs_imports_none_of_them() -> None:
    program = (
        "import sys; from components.cli.app import main; main(['--help']);"
        f"print(*sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stderr == "\n"


@pytest.mark.parametrize("folder", ["docs/decisions", pytest.param(".", marks=pytest.mark.whole)])
def test_the_launcher_works_from_every_folder_of_the_checkout(folder: str) -> None:
    done = subprocess.run(
        [ROOT / "engine" / "rocelab", "ports", "--json"],
        cwd=ROOT / folder,
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["lab"] == "lab"


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f"{sys.executable} -m components.cli schema | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


@pytest.mark.parametrize("both", [False, True])
def test_output_that_finds_a_full_disk_is_no_traceback(tmp_path: Path, both: bool) -> None:
    with (tmp_path / "output").open("wb") as out:
        done = subprocess.run(
            ["/bin/sh", "-c", f"ulimit -f 1; exec {sys.executable} -m components.cli schema"],
            cwd=ROOT,
            stdout=out,
            stderr=out if both else subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 2
    assert done.stderr == (None if both else "the output cannot be written: File too large\n")


def test_a_fault_of_rocelab_is_no_failed_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise ValueError("never happens")

    monkeypatch.setattr(rocelab, "invoke", fail)

    assert main(["schema"]) == Exit.BUG
    assert capsys.readouterr().err.splitlines()[-1] == "ValueError: never happens"
