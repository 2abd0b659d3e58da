"""remote.Command: what our build does better than the official 1.2.1, and the contract does not demand."""

import socket
import time
from pathlib import Path

import grpc
import pytest
from plugin_client import Plugin
from ssh_host import USER, SshHost, wait_until

pytestmark = [pytest.mark.sim, pytest.mark.whole]
COMMAND = "command:remote:Command"
SLEEP_S = 50


def test_a_line_of_any_length_ends(ours: Plugin, host: SshHost) -> None:
    created = ours.create(COMMAND, {"connection": host.connection(), "create": "head -c 300000 /dev/zero | tr '\\0' x"})

    assert len(created["stdout"]) == 300_000, "the official build stops reading at 64 KiB and waits for ever"


def test_a_connection_is_closed_when_its_command_has_ended(ours: Plugin, host: SshHost) -> None:
    ours.create(COMMAND, {"connection": host.connection(), "create": "true"})

    wait_until(lambda: host.seen.open == 0)


def test_a_command_that_leaves_its_input_unread_succeeds(ours: Plugin, host: SshHost) -> None:
    unread = {"create": "exec 0<&-; sleep 0.3; echo done", "stdin": "x" * 1_000_000}

    assert ours.create(COMMAND, {"connection": host.connection(), **unread})["stdout"] == "done"


def test_output_that_is_not_utf_8_arrives(ours: Plugin, host: SshHost) -> None:
    created = ours.create(COMMAND, {"connection": host.connection(), "create": "printf 'MTU \\377 9000'"})

    assert created["stdout"] == "MTU \ufffd 9000"


def test_a_pinned_rsa_key_is_accepted(ours: Plugin, tmp_path: Path) -> None:
    old = SshHost(tmp_path, key_type="ssh-rsa").start()
    try:
        assert ours.create(COMMAND, {"connection": old.connection(), "create": "echo in"})["stdout"] == "in"
    finally:
        old.stop()


def test_a_host_that_accepts_and_says_nothing_is_given_up(ours: Plugin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        connection = {"host": "127.0.0.1", "port": port, "user": USER, "perDialTimeout": 1, "dialErrorLimit": 0}
        start = time.monotonic()
        with pytest.raises(grpc.RpcError, match="no answer from"):
            ours.create(COMMAND, {"connection": connection, "create": "id"})

    assert time.monotonic() - start < 12, "the connection's own second, not the fifteen that are usual"


@pytest.mark.parametrize("way", ["cancel", "timeout"])
def test_cancelling_ends_the_command_on_the_host(ours: Plugin, host: SshHost, way: str) -> None:
    start = time.monotonic()
    if way == "cancel":
        ours.cancel_when(lambda: host.seen.commands != [])

    with pytest.raises(grpc.RpcError):
        ours.create(
            COMMAND,
            {"connection": host.connection(), "create": f"exec sleep {SLEEP_S}"},
            timeout_s=3 if way == "timeout" else 0,
        )

    assert time.monotonic() - start < SLEEP_S
    wait_until(lambda: host.seen.ended != [])


def test_an_error_shows_the_beginning_of_a_command_only(ours: Plugin, host: SshHost) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        ours.create(COMMAND, {"connection": host.connection(), "create": "exit 1 #" + "x" * 400 + "canary"})

    assert "canary" not in str(failure.value)
