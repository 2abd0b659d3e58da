"""local.Command: the contract of pulumi-command 1.2.1."""

import time
from pathlib import Path

import grpc
import pytest
from plugin_client import ASSET, SIGNATURE, Plugin, Properties
from ssh_host import wait_until

pytestmark = pytest.mark.sim

COMMAND = "command:local:Command"


def test_create_update_and_delete_run_where_the_program_is(plugin: Plugin, tmp_path: Path) -> None:
    inputs: Properties = {"create": "pwd; echo e >&2", "delete": "printenv PULUMI_COMMAND_STDOUT > deleted"}
    state = plugin.create(COMMAND, inputs)
    updated = plugin.update(COMMAND, state, inputs | {"update": "printf $PULUMI_COMMAND_STDERR"})
    plugin.delete(COMMAND, updated)

    assert (state["stdout"], state["stderr"]) == (str(tmp_path), "e")
    assert (updated["stdout"], updated["id"]) == ("e", state["id"])
    assert (tmp_path / "deleted").read_text() == "e\n"


def test_a_preview_runs_nothing(plugin: Plugin, tmp_path: Path) -> None:
    plugin.create(COMMAND, {"create": "touch here"}, preview=True)

    assert not (tmp_path / "here").exists()


def test_folder_interpreter_environment_and_input_are_honoured(plugin: Plugin, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()

    created = plugin.create(
        COMMAND,
        {
            "create": "import os, sys; print(os.getcwd(), os.environ['RAIL'], sys.stdin.read())",
            "interpreter": ["python3", "-c"],
            "dir": str(tmp_path / "inside"),
            "environment": {"RAIL": "a"},
            "stdin": "fed",
        },
    )

    assert created["stdout"] == f"{tmp_path}/inside a fed"


def test_the_previous_output_can_be_kept_out_of_the_environment(plugin: Plugin) -> None:
    inputs: Properties = {"create": "echo first"}
    state = plugin.create(COMMAND, inputs)

    updated = plugin.update(
        COMMAND, state, {"create": "echo ${PULUMI_COMMAND_STDOUT-nothing}", "addPreviousOutputInEnv": False}
    )

    assert updated["stdout"] == "nothing"


@pytest.mark.parametrize(
    ("change", "effect"),
    [({}, "none"), ({"create": "date"}, "update"), ({"dir": "/"}, "update"), ({"triggers": ["b"]}, "replace")],
    ids=str,
)
def test_a_change_of_triggers_replaces_and_any_other_updates(plugin: Plugin, change: Properties, effect: str) -> None:
    old: Properties = {"create": "id", "triggers": ["a"]}

    assert plugin.diff(COMMAND, old, old | change) == (effect, set(change))


def test_files_that_the_patterns_name_become_assets_and_an_archive(plugin: Plugin, tmp_path: Path) -> None:
    script = "mkdir -p out/deep; echo 1 > out/a.txt; echo 2 > out/deep/b.txt; echo 3 > out/secret.txt"

    created = plugin.create(
        COMMAND, {"create": script, "assetPaths": ["out/*.txt", "!**secret*"], "archivePaths": ["out/**", "!**secret*"]}
    )

    assert list(created["assets"]) == ["out/a.txt"], "* stops at a slash, and a later rule takes files away"
    assert created["assets"]["out/a.txt"][SIGNATURE] == ASSET
    assert created["assets"]["out/a.txt"]["path"] == str(tmp_path / "out/a.txt")
    assert set(created["archive"]["assets"]) == {"out/a.txt", "out/deep/b.txt"}, "** does not stop at a slash"


def test_a_failing_command_fails_with_its_status_and_its_output(plugin: Plugin) -> None:
    with pytest.raises(grpc.RpcError, match=r"(?s)exit status 4.*broken"):
        plugin.create(COMMAND, {"create": "echo broken >&2; exit 4"})


def test_logging_none_logs_nothing_and_captures_all(plugin: Plugin) -> None:
    created = plugin.create(COMMAND, {"create": "echo quiet", "logging": "none"})
    plugin.create(COMMAND, {"create": "echo loud"})

    assert created["stdout"] == "quiet"
    wait_until(lambda: "loud" in plugin.log.messages)
    assert [message for message in plugin.log.messages if message in {"quiet", "loud"}] == ["loud"]


def test_a_line_of_any_length_ends(ours: Plugin) -> None:
    created = ours.create(COMMAND, {"create": "head -c 300000 /dev/zero | tr '\\0' x"})

    assert len(created["stdout"]) == 300_000


def test_cancelling_ends_the_children_too(ours: Plugin, tmp_path: Path) -> None:
    noted = tmp_path / "child"
    ours.cancel_when(lambda: noted.exists() and noted.read_text().endswith("\n"))
    start = time.monotonic()

    with pytest.raises(grpc.RpcError):
        ours.create(COMMAND, {"create": "sleep 55 & echo $! > child; wait"})

    wait_until(lambda: has_ended(noted.read_text().strip()), timeout_s=20)
    assert time.monotonic() - start < 50


def has_ended(pid: str) -> bool:
    """Whether a process is gone, or waits for nothing but its parent."""
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except (FileNotFoundError, ProcessLookupError):
        return True
