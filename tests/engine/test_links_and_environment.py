"""Where stand-ins lie, who can find them, and what the environment of a stack says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine import environment as env_module
from engine import links, store
from engine.environment import THROWAWAY_PASSPHRASE, environment, export_lines
from engine.errors import EngineError
from engine.parts import ETCD, PARTS, TEST_PARTS
from engine.places import BIN, HOME, ROOT, STANDINS, VENV
from stacks.read import KEY, read_stack_file
from tests.messages import stating

LOCATED = {"pulumi": "built", "kubernetes": "built", "command": "stand-in", "vsphere": "stand-in"}


@pytest.fixture
def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `.engine` of the test's own; every part lies in a folder of its name."""
    for name in ("BIN", "STANDINS", "HOME"):
        monkeypatch.setattr(links, name, tmp_path / name.lower())
    for part in PARTS:
        (tmp_path / "cache" / part.name).mkdir(parents=True)
        for binary in part.binaries:
            (tmp_path / "cache" / part.name / binary).write_text("x")
    return tmp_path


def place(folder: Path, origins: dict[str, str]) -> None:
    links.place({name: (origin, folder / "cache" / name) for name, origin in origins.items()})


def test_stand_ins_lie_apart_from_everything_else(placed: Path) -> None:
    place(placed, LOCATED)

    assert {path.name for path in (placed / "standins").iterdir()} == {
        "pulumi-resource-command",
        "pulumi-resource-vsphere",
    }
    assert {path.name for path in (placed / "bin").iterdir()} == {
        "pulumi",
        "pulumi-language-python",
        "pulumi-language-python-exec",
        "pulumi-resource-kubernetes",
        "rocelab",
        "sim",
    }


def test_an_official_plugin_takes_the_place_of_a_stand_in(placed: Path) -> None:
    place(placed, LOCATED)
    place(placed, LOCATED | {"command": "official"})

    assert (placed / "bin/pulumi-resource-command").exists()
    assert not (placed / "standins/pulumi-resource-command").is_symlink()
    plugin = placed / "home/plugins/resource-command-v1.2.1/pulumi-resource-command"
    assert plugin.readlink() == placed / "bin/pulumi-resource-command"


def test_the_own_language_host_is_used_only_beside_a_built_cli(placed: Path) -> None:
    place(placed, LOCATED)
    built = (placed / "bin/pulumi-language-python").resolve()
    place(placed, LOCATED | {"pulumi": "official"})
    official = (placed / "bin/pulumi-language-python").resolve()

    assert built == links.OWN_HOST
    assert official == placed / "cache/pulumi/pulumi-language-python"


def test_the_cli_is_no_symbolic_link_and_follows_a_new_build(placed: Path) -> None:
    place(placed, LOCATED)
    (placed / "cache/pulumi/pulumi").unlink()
    (placed / "cache/pulumi/pulumi").write_text("another one")
    place(placed, LOCATED)

    assert not (placed / "bin/pulumi").is_symlink(), "the CLI looks for its language host beside its own real path"
    assert (placed / "bin/pulumi").read_text() == "another one"


def test_a_simulator_stack_finds_the_stand_ins_and_has_a_backend_of_its_own() -> None:
    variables = environment("lab", {"PATH": "/usr/bin"})

    assert variables["PATH"] == f"{BIN}:{STANDINS}:{VENV / 'bin'}:/usr/bin"
    assert variables["PULUMI_HOME"] == str(HOME)
    assert variables["PULUMI_BACKEND_URL"] == f"file://{ROOT / '.sim/state'}"
    assert variables["PULUMI_CONFIG_PASSPHRASE"] == THROWAWAY_PASSPHRASE


@pytest.mark.parametrize("stack", ["lab", None])
def test_hosts_wait_for_no_others_turn_whatever_the_machine(stack: str | None) -> None:
    assert environment(stack, {})["PULUMI_PARALLEL"] == "64", "without it the engine takes four operations per core"


@pytest.mark.parametrize("stack", [None, "no-such-stack", "hardware"])
def test_any_other_stack_cannot_find_a_stand_in(
    stack: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = (ROOT / "Pulumi.lab-pvrdma.yaml").read_text().replace("kind: virtual", "kind: hardware")
    (tmp_path / "Pulumi.hardware.yaml").write_text(lab)
    monkeypatch.setattr(env_module, "ROOT", tmp_path)
    left_over = environment_of_a_simulator_stack(monkeypatch)

    variables = environment(stack, left_over | {"PULUMI_CONFIG_PASSPHRASE": "the user's own"})

    assert str(STANDINS) not in str(variables["PATH"]).split(os.pathsep)
    unset = {name for name, value in variables.items() if value is None}
    ours = {"PULUMI_HOME", "PULUMI_BACKEND_URL", "PULUMI_IGNORE_AMBIENT_PLUGINS", "PULUMI_SKIP_CHECKPOINTS"}
    assert unset == ours, "the passphrase is not ours"


@pytest.mark.parametrize(
    ("kind", "fabric", "expected"),
    [
        ("hardware", None, "true"),
        ("virtual", None, "true"),
        ("hardware", "vCenter", None),
        ("virtual", "vCenter", None),
    ],
)
def test_a_state_that_may_hold_virtual_machines_is_saved_after_each_step(
    kind: str, fabric: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_module, "traits_of", lambda _: {kind, "nodes"} | ({"fabric"} if fabric else set()))

    assert environment("lab", {}).get("PULUMI_SKIP_CHECKPOINTS") == expected


@pytest.mark.parametrize("text", ["config: {}", "config: [", "[]", "config: {'rocelab:lab': [1]}"])
def test_a_stack_file_without_a_lab_is_an_error_that_names_it(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_module, "ROOT", tmp_path)
    (tmp_path / "Pulumi.broken.yaml").write_text(text)

    with pytest.raises(EngineError, check=stating("Pulumi.broken.yaml", "stacks.virtual broken")):
        environment("broken", {})


@pytest.mark.parametrize("stack", ["lab", "lab-pvrdma"])
def test_what_is_read_without_the_models_is_what_they_read(stack: str) -> None:
    lab = read_stack_file(ROOT / f"Pulumi.{stack}.yaml")

    found = env_module.traits_of(stack)

    assert env_module.KEY == KEY
    assert ("virtual" in found, "fabric" in found) == (lab.kind == "virtual", lab.fabric is not None)


def environment_of_a_simulator_stack(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    with monkeypatch.context() as patched:
        patched.setattr(env_module, "traits_of", lambda _: {"virtual", "nodes"})
        return {name: value for name, value in environment("lab", {"PATH": "/usr/bin"}).items() if value}


def test_a_shell_evaluates_what_is_printed() -> None:
    text = export_lines({"A": "with 'quotes' and blanks", "B": None})

    done = subprocess.run(
        ["sh", "-c", f'B=x; {text}printf %s "$A${{B-gone}}"'], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "with 'quotes' and blanksgone"


def test_plugins_have_the_versions_of_the_sdks() -> None:
    pins = dict(re.findall(r"^(pulumi(?:-\w+)?)==(\S+)$", (ROOT / "requirements.in").read_text(), re.MULTILINE))
    versions = {part.name: part.version for part in PARTS}

    assert versions["pulumi"] == pins["pulumi"]
    assert {name: versions[name] for name in ("kubernetes", "vsphere", "command")} == {
        name: pins[f"pulumi-{name}"] for name in ("kubernetes", "vsphere", "command")
    }


def test_modules_are_pinned_to_the_versions_of_the_table() -> None:
    modules = {
        "pulumi": "github.com/pulumi/pulumi/pkg/v3 v{}",
        "plane": "k8s.io/kubernetes v{}",
        "kubeadm": "k8s.io/kubernetes v{}",
        "kwok": "sigs.k8s.io/kwok v{}",
        "mpi-operator": "github.com/kubeflow/mpi-operator v{}",
        "vcenter": "github.com/vmware/govmomi v{}",
    }
    for part in (*PARTS, *TEST_PARTS):
        text = (ROOT / "engine" / part.build.module / "go.mod").read_text()
        assert text.startswith(f"module rocelab/engine/{part.build.module}\n")
        if part.name in modules:
            assert modules[part.name].format(part.version) in text


def test_downloads_go_over_https_only() -> None:
    releases = [release for part in PARTS for release in part.releases]

    assert len(releases) == 9
    assert all(release.checksums or len(release.sha256) == 64 for release in releases)
    urls = [url for release in releases for url in (release.url, release.checksums) if url]
    assert [url for url in urls if not url.startswith("https://")] == []


def test_the_official_etcd_is_the_one_that_the_control_plane_is_built_with() -> None:
    assert f"go.etcd.io/etcd/server/v3 v{ETCD}\n" in (ROOT / "engine/go/go.mod").read_text()


@pytest.mark.sim
def test_a_plugin_reports_its_version() -> None:
    command = next(part for part in PARTS if part.name == "command")
    plugin = store.built_folder(command) / command.binaries[0]
    if not plugin.exists():
        pytest.skip("our command plugin is not built as its sources are now: run make setup")

    asked = [sys.executable, str(ROOT / "engine/plugin_version.py"), str(plugin)]

    assert subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout.strip() == command.version


def test_simulator_stacks_keep_no_engine_logs_and_lose_those_of_before(placed: Path) -> None:
    (placed / "home/logs").mkdir(parents=True)
    (placed / "home/logs/pulumi-1.log").write_text("x")
    place(placed, LOCATED)
    place(placed, LOCATED)

    assert (placed / "home/logs").readlink() == Path(os.devnull)
