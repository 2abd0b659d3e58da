"""remote.Command: the contract of pulumi-command 1.2.1, on our build and on the official one where that is here."""

import shutil
import subprocess
import threading
from pathlib import Path

import asyncssh
import grpc
import pytest
from plugin_client import SECRET, SIGNATURE, Plugin, Properties, is_secret, reveal
from ssh_host import PASSWORD, SshHost, free_port, wait_until

pytestmark = pytest.mark.sim

COMMAND = "command:remote:Command"
PRINTED = "PULUMI_COMMAND_STDOUT"


def test_creating_runs_the_create_command_and_keeps_what_it_prints(plugin: Plugin, host: SshHost) -> None:
    created = plugin.create(
        COMMAND, {"connection": host.connection(), "create": "printf 'one\\n\\n'; echo two >&2", "delete": "false"}
    )

    assert (created["stdout"], created["stderr"]) == ("one\n", "two"), "of each stream only the last newline goes"
    assert created["id"].startswith("web"), "an ID begins with the resource's name"
    assert host.seen.commands == ["printf 'one\\n\\n'; echo two >&2"]


def test_a_preview_contacts_no_host(plugin: Plugin, host: SshHost) -> None:
    state = plugin.create(COMMAND, {"connection": host.connection(), "create": "id"}, preview=True)
    plugin.update(COMMAND, state | {"id": "x"}, {"connection": host.connection(), "create": "date"}, preview=True)

    assert host.seen.connections == 0


def test_without_a_command_nothing_connects(plugin: Plugin, host: SshHost) -> None:
    state = plugin.create(COMMAND, {"connection": host.connection()})
    state = plugin.update(COMMAND, state, {"connection": host.connection(), "stdin": "x"})
    plugin.delete(COMMAND, state)

    assert host.seen.connections == 0


def test_an_update_runs_update_else_create_again(plugin: Plugin, host: SshHost) -> None:
    inputs: Properties = {"connection": host.connection(), "create": "echo created"}
    state = plugin.create(COMMAND, inputs)

    again = plugin.update(COMMAND, state, inputs | {"stdin": "changed"})
    updated = plugin.update(COMMAND, state, inputs | {"update": "echo updated"})

    assert (again["stdout"], updated["stdout"]) == ("created", "updated")
    assert updated["id"] == state["id"]


def test_deleting_runs_the_delete_command_of_the_state(plugin: Plugin, host: SshHost) -> None:
    state = plugin.create(
        COMMAND,
        {"connection": host.connection(), "create": "echo left", "delete": f"printenv {PRINTED} > deleted"},
    )

    plugin.delete(COMMAND, state)

    assert (host.root / "deleted").read_text() == "left\n"


def test_a_command_sees_what_the_one_before_it_printed(plugin: Plugin, host: SshHost) -> None:
    inputs: Properties = {"connection": host.connection(), "create": "echo out; echo err >&2"}
    state = plugin.create(COMMAND, inputs)

    plugin.update(COMMAND, state, inputs | {"update": "true"})
    plugin.update(COMMAND, state, inputs | {"update": "true", "addPreviousOutputInEnv": False})

    assert host.seen.environments == [{}, {PRINTED: "out", "PULUMI_COMMAND_STDERR": "err"}, {}]


def test_the_environment_reaches_the_command(plugin: Plugin, host: SshHost) -> None:
    created = plugin.create(
        COMMAND,
        {"connection": host.connection(), "create": "echo $RAIL $MTU", "environment": {"RAIL": "a", "MTU": "9000"}},
    )

    assert created["stdout"] == "a 9000"


def test_standard_input_reaches_the_command(plugin: Plugin, host: SshHost) -> None:
    created = plugin.create(
        COMMAND, {"connection": host.connection(), "create": "sh -s", "stdin": "echo from stdin\nexit 0\n"}
    )

    assert created["stdout"] == "from stdin"


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        ({}, "none"),
        ({"create": "date"}, "update"),
        ({"update": "date"}, "update"),
        ({"delete": "date"}, "update"),
        ({"stdin": "x"}, "update"),
        ({"environment": {"A": "1"}}, "update"),
        ({"logging": "none"}, "update"),
        ({"addPreviousOutputInEnv": False}, "update"),
        ({"triggers": [1, "b"]}, "replace"),
        ({"triggers": [2], "create": "date"}, "replace"),
        ({"triggers": None}, "replace"),
    ],
    ids=str,
)
def test_a_change_of_triggers_replaces_and_any_other_updates(plugin: Plugin, change: Properties, effect: str) -> None:
    old: Properties = {"connection": {"host": "h"}, "create": "id", "triggers": [1]}
    new = {name: value for name, value in (old | change).items() if value is not None}

    assert plugin.diff(COMMAND, old, new) == (effect, set(change))


def test_a_change_of_the_connection_updates(plugin: Plugin) -> None:
    old: Properties = {"connection": {"host": "h"}, "create": "id"}

    assert plugin.diff(COMMAND, old, old | {"connection": {"host": "other"}}) == ("update", {"connection"})


def test_check_fills_in_the_defaults_of_host_and_bastion(plugin: Plugin) -> None:
    checked, failures = plugin.check(COMMAND, {"connection": {"host": "h", "proxy": {"host": "p"}}})

    defaults = {"user": "root", "port": 22, "dialErrorLimit": 10, "perDialTimeout": 15}
    assert failures == []
    assert reveal(checked["connection"]) == {"host": "h", **defaults, "proxy": {"host": "p", **defaults}}


def test_the_connection_is_a_secret_in_inputs_and_outputs(plugin: Plugin, host: SshHost) -> None:
    checked, _ = plugin.check(COMMAND, {"connection": host.connection()})
    created = plugin.create(COMMAND, {"connection": host.connection(), "create": "true"})

    assert is_secret(checked["connection"])
    assert is_secret(created["connection"])


def test_a_secret_command_stays_a_secret(plugin: Plugin, host: SshHost) -> None:
    secret = {SIGNATURE: SECRET, "value": "echo done"}

    created = plugin.create(COMMAND, {"connection": host.connection(), "create": secret})

    assert is_secret(created["create"])
    assert host.seen.commands == ["echo done"]


def test_inputs_of_the_wrong_kind_are_refused_by_check(plugin: Plugin) -> None:
    _, missing = plugin.check(COMMAND, {"create": "id"})
    _, wrong = plugin.check(COMMAND, {"connection": {"host": "h"}, "create": ["id"]})

    assert len(missing) == len(wrong) == 1


def test_a_failing_command_fails_with_its_status_and_its_output(plugin: Plugin, host: SshHost) -> None:
    with pytest.raises(grpc.RpcError, match=r"(?s)exited with status 3.*no such rail"):
        plugin.create(COMMAND, {"connection": host.connection(), "create": "echo no such rail >&2; exit 3"})


def test_a_wrong_host_key_sends_nothing(plugin: Plugin, host: SshHost) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()

    with pytest.raises(grpc.RpcError, match="host key mismatch"):
        plugin.create(COMMAND, {"connection": host.connection(hostKey=other), "create": "id"})

    assert (host.seen.logins, host.seen.commands) == (0, [])


def test_a_host_that_refuses_is_dialled_once_more_per_allowed_error(plugin: Plugin, host: SshHost) -> None:
    wrong = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    connection = host.connection(privateKey=wrong, dialErrorLimit=2)

    with pytest.raises(grpc.RpcError, match=r"after 2 failed attempts.*unable to authenticate"):
        plugin.create(COMMAND, {"connection": connection, "create": "id"})

    assert host.seen.connections == 3


def test_a_host_that_comes_up_later_is_reached_without_a_limit(plugin: Plugin, tmp_path: Path) -> None:
    late = SshHost(tmp_path, free_port())
    threading.Timer(1.0, late.start).start()
    try:
        created = plugin.create(COMMAND, {"connection": late.connection(dialErrorLimit=-1), "create": "echo up"})
    finally:
        late.stop()

    assert created["stdout"] == "up"


def test_a_password_opens_the_door(plugin: Plugin, host: SshHost) -> None:
    connection = host.connection(privateKey=None, password=PASSWORD)

    assert plugin.create(COMMAND, {"connection": connection, "create": "echo in"})["stdout"] == "in"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen on PATH")
def test_an_encrypted_key_opens_the_door(plugin: Plugin, host: SshHost, tmp_path: Path) -> None:
    key = write_key(host, tmp_path)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "locked", "-f", key], check=True)
    connection = host.connection(privateKey=key.read_text(), privateKeyPassword="locked")

    assert plugin.create(COMMAND, {"connection": connection, "create": "echo in"})["stdout"] == "in"


@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="no ssh-agent on PATH")
def test_a_key_of_an_agent_opens_the_door(plugin: Plugin, host: SshHost, tmp_path: Path) -> None:
    key = write_key(host, tmp_path)
    sock = Path(f"/tmp/rocelab-agent-{free_port()}")  # a socket's path may have 107 bytes
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL)
    try:
        wait_until(sock.exists)
        subprocess.run(["ssh-add", "-q", key], env={"SSH_AUTH_SOCK": str(sock), "PATH": "/usr/bin:/bin"}, check=True)
        connection = host.connection(privateKey=None, agentSocketPath=str(sock))
        created = plugin.create(COMMAND, {"connection": connection, "create": "echo in"})
    finally:
        agent.terminate()
        agent.wait()

    assert created["stdout"] == "in"


def test_a_bastion_is_gone_through(plugin: Plugin, host: SshHost, tmp_path: Path) -> None:
    bastion = SshHost(tmp_path).start()
    try:
        connection = host.connection(proxy=bastion.connection())
        created = plugin.create(COMMAND, {"connection": connection, "create": "echo behind"})
    finally:
        plugin.close()  # the official build keeps the bastion's connection open
        bastion.stop()

    assert created["stdout"] == "behind"
    assert bastion.seen.forwarded == [("127.0.0.1", host.port)]
    assert bastion.seen.commands == []


@pytest.mark.parametrize(
    ("logging", "logged"),
    [
        (None, {"out", "err"}),
        ("stdoutAndStderr", {"out", "err"}),
        ("stdout", {"out"}),
        ("stderr", {"err"}),
        ("none", set()),
    ],
)
def test_logging_chooses_streams_and_captures_both(
    plugin: Plugin, host: SshHost, logging: str | None, logged: set[str]
) -> None:
    inputs: Properties = {"connection": host.connection(), "create": "echo out; echo err >&2"}

    created = plugin.create(COMMAND, inputs | ({"logging": logging} if logging else {}))

    assert (created["stdout"], created["stderr"]) == ("out", "err")
    wait_until(lambda: logged <= set(plugin.log.messages))  # they come over a connection of their own
    assert set(plugin.log.messages) & {"out", "err"} == logged


def write_key(host: SshHost, folder: Path) -> Path:
    key = folder / "key"
    key.write_bytes(host.user_key.export_private_key())
    key.chmod(0o600)
    return key
