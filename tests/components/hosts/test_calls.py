"""Calls of the host program against servers on loopback: what must hold when a host is slow, foreign or gone."""

import asyncio
import json
import socket
import time
from typing import Any

import asyncssh
import pytest

from components.hosts import calls, repair
from components.hosts.calls import HostCalls, Report, StuckError
from components.hosts.pack import on_stdin
from components.hosts.program.places import PROBE_S
from components.ssh import connection
from components.ssh.connection import NoAnswerError
from tests.components.ssh.server import HOST_KEY, USER_KEY, Serve, endpoint, server, text_of
from tests.messages import states, stating

OTHER_KEY = asyncssh.generate_private_key("ssh-ed25519")
REPORT = {"schema": 1, "host": "gpu01", "changed": [], "needs_reboot": [], "facts": {}, "fields": {"unit": "enabled"}}
DOCUMENT: dict[str, Any] = {"schema": 1, "host": "gpu01", "pfs": []}


def ask(serve: Serve, accept: asyncssh.SSHKey = USER_KEY, pinned: asyncssh.SSHKey = HOST_KEY) -> Report:
    async def scene() -> Report:
        async with server(serve, accept) as port:
            return await HostCalls(text_of(USER_KEY)).call(endpoint(port, pinned), "probe", DOCUMENT)

    return asyncio.run(scene())


async def reports(process: asyncssh.SSHServerProcess[bytes]) -> None:
    await process.stdin.read()
    process.stdout.write(f"noise of a login script\n{json.dumps({**REPORT, 'failed': None})}\n".encode())
    process.exit(0)


def test_the_program_and_the_document_go_over_stdin_and_the_report_comes_back():
    seen: list[tuple[str, bytes]] = []

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        seen.append((str(process.command), await process.stdin.read()))
        process.stdout.write(json.dumps({**REPORT, "failed": None}).encode() + b"\n")
        process.exit(0)

    report = ask(serve)

    assert report.fields == {"unit": "enabled"}
    command, sent = seen[0]
    assert command == "exec sudo -n python3 -I -B -c 'import sys;exec(sys.stdin.buffer.readline())' probe"
    assert sent == on_stdin(json.dumps(DOCUMENT))


def test_what_else_a_login_prints_does_not_hide_the_report():
    assert ask(reports).host == "gpu01"


def test_a_wrong_host_key_sends_nothing():
    sessions: list[object] = []

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        sessions.append(process.command)

    with pytest.raises(NoAnswerError, check=stating("host key", "access.known_hosts_file")):
        ask(serve, pinned=OTHER_KEY)
    assert sessions == []


def test_a_refused_login_is_not_tried_again():
    with pytest.raises(NoAnswerError, check=stating("login", "nvidia")):
        ask(reports, accept=OTHER_KEY)


def test_a_connection_reset_in_the_middle_is_tried_once_more():
    served: list[int] = []

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        served.append(1)
        if len(served) == 1:
            process.get_extra_info("connection").abort()
            return
        await reports(process)

    assert ask(serve).host == "gpu01"
    assert len(served) == 2


def test_a_host_that_always_breaks_off_is_an_answer_too():
    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.get_extra_info("connection").abort()

    with pytest.raises(NoAnswerError, match=r"127\.0\.0\.1:\d+"):
        ask(serve)


@pytest.mark.parametrize(
    ("said", "code", "expected"),
    [
        ("", 1, ["exited with 1", "sudo"]),
        ("no json\n", 0, ["report"]),
        ("[1]\n", 0, ["report"]),
        ("", 0, ["report"]),
    ],
)
def test_an_answer_that_is_no_report_is_quoted(said, code, expected):
    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        await process.stdin.read()
        process.stdout.write(said.encode())
        process.stderr.write(b"sudo: a password is required\n")
        process.exit(code)

    with pytest.raises(NoAnswerError, check=stating(*expected)):
        ask(serve)


def test_a_host_that_accepts_and_then_says_nothing_is_left_in_time(monkeypatch):
    monkeypatch.setattr(connection, "LOGIN_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()

        async def scene() -> None:
            await HostCalls(text_of(USER_KEY)).call(endpoint(silent.getsockname()[1]), "probe", DOCUMENT)

        with pytest.raises(NoAnswerError):
            asyncio.run(scene())
    assert time.monotonic() - begin < 5


def test_a_host_that_accepts_at_once_has_longer_for_the_login(monkeypatch):
    monkeypatch.setattr(connection, "CONNECT_S", 0.5)

    class Slow(asyncssh.SSHServer):
        async def begin_auth(self, username: str) -> bool:  # type: ignore[override]  # it may be a coroutine
            await asyncio.sleep(1)
            return True

    async def scene() -> Report:
        async with server(reports, factory=Slow) as port:
            return await HostCalls(text_of(USER_KEY)).call(endpoint(port), "probe", DOCUMENT)

    assert asyncio.run(scene()).host == "gpu01"


def test_a_long_call_says_again_and_again_what_it_waits_for(monkeypatch):
    monkeypatch.setattr(calls, "ANNOUNCE_S", 0.02)
    said: list[str] = []

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        while len(said) < 2:
            await asyncio.sleep(0.01)
        await reports(process)

    async def scene() -> None:
        async with server(serve) as port:
            await HostCalls(text_of(USER_KEY), said.append).call(endpoint(port), "probe", {**DOCUMENT, "host": "gpu01"})
        count = len(said)
        await asyncio.sleep(0.1)
        assert len(said) == count

    asyncio.run(scene())
    assert all(states(line, "gpu01", "probe") for line in said)


def test_a_command_that_never_ends_is_left_in_time():
    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        await process.stdin.read()
        await asyncio.sleep(30)

    async def scene() -> None:
        async with server(serve) as port:
            await HostCalls(text_of(USER_KEY)).run(endpoint(port), "true", answer_s=0.5)

    with pytest.raises(StuckError, match=r"127\.0\.0\.1:\d+ .*0 s"):
        asyncio.run(scene())


def test_a_probe_is_bound_more_tightly_than_a_run_that_changes_the_host(monkeypatch):
    waited = {}

    async def run(_self, _endpoint, command, _sent, answer_s):
        waited[command.split()[-1]] = answer_s
        return json.dumps({"schema": 1, "host": "gpu01"})

    monkeypatch.setattr(HostCalls, "run", run)
    for verb in ("probe", "apply"):
        asyncio.run(HostCalls(text_of(USER_KEY)).call(endpoint(1), verb, {**DOCUMENT, "deadline_s": 900}))

    assert waited == {"probe": PROBE_S + calls.SPARE_S, "apply": 900 + calls.SPARE_S}
    assert waited["probe"] < repair.UNDO_S


def test_a_port_where_nothing_listens_is_named():
    async def scene() -> None:
        await HostCalls(text_of(USER_KEY)).run(endpoint(1), "true")

    with pytest.raises(NoAnswerError, match=r"127\.0\.0\.1:1"):
        asyncio.run(scene())


def test_no_more_hosts_are_asked_at_once_than_allowed(monkeypatch):
    monkeypatch.setattr(calls, "AT_ONCE", 3)
    running, most = 0, 0

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await process.stdin.read()
        await asyncio.sleep(0.05)
        running -= 1
        process.exit(0)

    async def scene() -> None:
        async with server(serve) as port:
            hosts = HostCalls(text_of(USER_KEY))
            await asyncio.gather(*(hosts.run(endpoint(port), "true") for _ in range(10)))

    asyncio.run(scene())
    assert 1 < most <= 3


def test_a_greeting_is_all_that_a_preview_asks_for():
    async def scene() -> tuple[bool, bool]:
        async with server(reports) as port:
            here = await connection.answers("127.0.0.1", port, 2)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            return here, await connection.answers("127.0.0.1", silent.getsockname()[1], 0.2)

    assert asyncio.run(scene()) == (True, False)
