"""The way to hardware in docs/hardware.md, and docs/commands.md without make, proven mostly without network and engine.

`pulumi install` itself needs both. What it works from is checked here: the project file, the lock file, and the plugins
that the installed SDKs name. The last test runs the real engine as a terminal without `make env` does.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pulumi
import pytest
import yaml

from components.cluster.upstream import Store
from engine.environment import environment
from stacks.read import read_stack_file
from tests.components.cluster.conftest import small_definitions  # noqa: F401  # a fixture
from tests.conftest import ROOT
from tests.engine import Recorded
from tests.examples.previewed import previewed, secrets_of
from tests.integration.conftest import ENGINE, require_engine
from tests.labs import HOST_KEY
from tests.messages import lines_naming
from tests.sources import imports

README = ROOT / "README.md"
HARDWARE = ROOT / "docs" / "hardware.md"
WITHOUT_MAKE = (ROOT / "docs" / "commands.md").read_text().partition("## Without make")[2]
TEMPLATE = ROOT / "templates" / "roce" / "Pulumi.roce.yaml"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def locked() -> dict[str, str]:
    """Version of each package in the lock file."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return {normal(found[1]): found[2] for line in lines if (found := re.match(r"([\w.-]+)==(\S+)", line))}


def imported() -> Iterator[tuple[str, Path]]:
    """Every package that the program imports, wherever in a file."""
    for path in [ROOT / "__main__.py", *(ROOT / "components").rglob("*.py"), *(ROOT / "stacks").rglob("*.py")]:
        yield from ((name.partition(".")[0], path) for name in imports(path))


def known_hosts(folder: Path) -> None:
    """The file that the page's ssh-keyscan writes for the template's nodes."""
    scanned = re.search(r"^ssh-keyscan -t ed25519 ([\d. ]+) > (\S+)$", HARDWARE.read_text(), re.MULTILINE)
    assert scanned
    assert scanned[1].split() == [str(node.address) for node in read_stack_file(TEMPLATE).nodes]
    (folder / scanned[2]).write_text("".join(f"{host} ssh-ed25519 {HOST_KEY}\n" for host in scanned[1].split()))


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without `make env`, in a folder with the page's known_hosts."""
    for name in environment(None):
        if name != "PATH":
            monkeypatch.delenv(name, raising=False)
    known_hosts(folder)
    monkeypatch.chdir(folder)


def previewed_template() -> Recorded:
    return previewed(TEMPLATE, page=HARDWARE)


def test_the_plain_commands_are_shown_in_the_order_that_works() -> None:
    places = [WITHOUT_MAKE.index(f"\n{command}") for command in ("pulumi install", "rocelab store", "pulumi up")]
    assert places == sorted(places)


def test_the_project_tells_pulumi_to_install_the_lock_file_into_the_folder_that_rocelab_runs_from() -> None:
    options = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["runtime"]["options"]

    assert options == {"toolchain": "pip", "virtualenv": ".venv"}
    assert "alias rocelab='.venv/bin/python -m components.cli'" in WITHOUT_MAKE


def test_everything_that_the_program_imports_is_in_the_lock_file() -> None:
    files = [dist.read_text("RECORD") or "" for dist in metadata.distributions() if normal(dist.name) in locked()]
    provided = {re.split("[/.,]", file, maxsplit=1)[0] for file in "".join(files).splitlines()}
    known = {"components", "stacks"} | sys.stdlib_module_names | provided
    of_images = {("mpi4py", "components/jobs/mpi_all_reduce.py")}  # runs in the job's image

    missing = {
        (name, str(path.relative_to(ROOT)))
        for name, path in imported()
        if name not in known and "program" not in path.parts
    }

    assert missing == of_images


def test_the_plugins_that_pulumi_downloads_are_the_ones_named_for_a_blocked_network() -> None:
    """An SDK names its plugin in a file; from these files `pulumi install` knows what to download."""
    plugins = {}
    for name in locked():
        if name.startswith("pulumi-"):
            (file,) = (file for file in metadata.files(name) or () if file.name == "pulumi-plugin.json")
            plugin = json.loads(Path(str(file.locate())).read_text())
            plugins[plugin["name"]] = plugin["version"]

    assert plugins == {name: locked()[f"pulumi-{name}"] for name in ("command", "kubernetes", "vsphere")}
    for name, version in plugins.items():
        assert f"`{name} {version}`" in WITHOUT_MAKE


def test_before_the_store_is_filled_a_preview_stops_and_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(tmp_path, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ROCELAB_MIRROR", raising=False)
    assert Store.from_environment().cache.is_relative_to(tmp_path)

    with pytest.raises(pulumi.RunError, match=r"(rocelab|components\.cluster\.)\s*store"):
        previewed_template()


def test_with_the_store_filled_the_template_previews_with_the_secrets_of_the_page_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small_definitions: None,  # noqa: F811
) -> None:
    del small_definitions  # used for its effect
    prepared(tmp_path, monkeypatch)

    program = previewed_template()

    assert set(secrets_of(HARDWARE)) == {"rocelab:kubeconfig"}
    assert {"hosts-gpu01", "hosts-gpu02", "cluster", "validation"} <= set(program.resources)


def test_the_readme_shows_a_picture_first_and_then_three_commands() -> None:
    picture, _, rest = README.read_text().partition("](docs/images/")
    commands = re.findall(r"^make .*", rest, re.MULTILINE)

    assert len(picture.splitlines()) <= 8
    assert len(commands) == 3


def test_the_way_to_hardware_begins_with_reading() -> None:
    """Nothing that changes a machine comes before the commands that only read."""
    headings = re.findall(r"^## (.+)$", HARDWARE.read_text(), re.MULTILINE)

    assert headings[:3] == ["Step 0: read", "The first hour on a real ConnectX host", "A cluster"]


def test_the_readme_is_short_and_has_one_number_to_fill_in() -> None:
    text = README.read_text()

    assert len(text.splitlines()) <= 80
    assert len(re.findall(r"\*\*\d+ minutes\*\*", text)) == 1


@pytest.mark.sim
def test_the_real_engine_previews_the_template_without_anything_that_make_env_sets(tmp_path: Path) -> None:
    """Its nodes have addresses that no machine has (RFC 5737), so each is a warning and no more."""
    require_engine()
    for name in ("Pulumi.yaml", "__main__.py", "components", "stacks", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "Pulumi.dgx.yaml").write_text(TEMPLATE.read_text())
    (tmp_path / "state").mkdir()
    known_hosts(tmp_path)
    ours = {name for name in os.environ if name in environment("lab")}
    env = {name: value for name, value in os.environ.items() if name not in ours} | {
        "PATH": f"{ENGINE}{os.pathsep}{os.environ['PATH']}",
        # stands for the plugins that `pulumi install` downloads; a preview only asks them for their schema and defaults
        "PULUMI_HOME": str(ROOT / ".engine" / "home"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "of this test alone",
    }

    def pulumi(*words: str, given: str = "") -> str:
        command = ["pulumi", *words, "--non-interactive", "--color", "never"]
        done = subprocess.run(command, cwd=tmp_path, env=env, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    pulumi("stack", "init", "dgx")
    pulumi("config", "set", "--secret", "rocelab:kubeconfig", "--stack", "dgx", given="apiVersion: v1\nkind: Config\n")
    previewed = pulumi("preview", "--stack", "dgx")

    assert re.search(r"\+ \d+ to create", previewed)
    assert lines_naming(previewed, "192.0.2.11:22", "does not answer")
    assert "simulated: false" in previewed
