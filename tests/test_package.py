"""`pip install .`: what it brings, and that reading, judging and reporting need no Pulumi."""

import fnmatch
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SAMPLES = ROOT / "tests" / "samples"
FOR_PULUMI = re.compile(r"pulumi(-.*)?")
WITHOUT_PULUMI = """
import sys
for name in ("pulumi", "pulumi_command", "pulumi_kubernetes", "pulumi_vsphere", "pyVim", "pyVmomi"):
    sys.modules[name] = None
from components.cli.app import main
sys.exit(main(sys.argv[1:]))
"""


def rocelab(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """A verb in an empty folder, without the packages that only `pulumi up` needs, and without programs."""
    command = [sys.executable, "-c", WITHOUT_PULUMI, *map(str, words)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(folder), "LANG": "C.UTF-8"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_its_packages_are_those_of_a_checkout_without_pulumi() -> None:
    pins = re.findall(r"^([\w-]+==\S+)$", (ROOT / "requirements.in").read_text(), re.MULTILINE)
    project = PROJECT["project"]
    installed = {*project["dependencies"], *project["optional-dependencies"]["vsphere"]}

    assert installed == {pin for pin in pins if not FOR_PULUMI.fullmatch(pin.partition("==")[0])}


def test_every_file_that_a_layer_reads_is_installed() -> None:
    (patterns,) = PROJECT["tool"]["setuptools"]["package-data"].values()
    files = subprocess.run(
        ["git", "ls-files", "components", "stacks"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    beside = {Path(name).name for name in files.stdout.splitlines()}
    only_in_a_checkout = {"ruff.toml", "pulumi-resource-rocelab"}

    left_out = {name for name in beside if not any(fnmatch.fnmatch(name, pattern) for pattern in ["*.py", *patterns])}
    assert left_out == only_in_a_checkout


def test_the_script_is_the_command_line() -> None:
    module, _, function = PROJECT["project"]["scripts"]["rocelab"].partition(":")

    assert (module, function) == ("components.cli.app", "main")


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["judge", SAMPLES / "perftest" / "v45_duration.client.txt", "--nic", "100G"], ["ib_write_bw"]),
        (["review", SAMPLES / "review" / "changes.json"], ["pods lose VFs"]),
        (
            ["report", "--outputs", SAMPLES / "run" / "outputs.json", "--store", SAMPLES / "run", "--html", "r.html"],
            ["function: pass", "r.html"],
        ),
        (["look", "--hosts", "a=127.0.0.1", "--known-hosts", "/dev/null", "--user", "ops", "--json"], ["127.0.0.1"]),
    ],
    ids=lambda value: str(value[0]),
)
def test_a_verb_runs_without_pulumi_in_an_empty_folder(
    words: list[str | Path], facts: list[str], tmp_path: Path
) -> None:
    done = rocelab(*words, folder=tmp_path)

    assert "Traceback" not in done.stderr
    assert all(fact in done.stdout for fact in facts), done.stdout + done.stderr


def test_what_needs_the_engine_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.lab.yaml").write_text((ROOT / "Pulumi.lab.yaml").read_text())

    done = rocelab("report", folder=tmp_path)

    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "pulumi is not on PATH" in done.stderr
