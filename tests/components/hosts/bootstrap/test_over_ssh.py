"""The same over real SSH connections on loopback: what travels where, and which kubeconfig comes back."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from components.hosts.bootstrap.join import unite
from components.hosts.calls import Crew, HostCalls
from components.hosts.pack import on_stdin, packed
from components.hosts.program.main import perform
from components.hosts.repair import Outcome
from components.ssh.connection import keys_of
from components.ssh.credentials import READ, admin_config, control_planes_of, is_kubeconfig
from stacks.base import LabError
from stacks.hosts import HostPolicy
from stacks.lab import Lab
from tests.components.hosts.bootstrap.machines import Machines
from tests.components.ssh.server import USER_KEY, Serve, endpoint, server, text_of
from tests.messages import states

ADMIN = "apiVersion: v1\nkind: Config\nclusters:\n- name: lab\n"


def serve(machines: Machines, name: str, commands: list[str]) -> Serve:
    """A host whose SSH hands program and document to the machine of that name."""

    async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        commands.append(process.command or "")
        verb = (process.command or "").split()[-1]
        sent = await process.stdin.read()
        result = perform(verb, machines.machines[name], sent[len(on_stdin()) :].decode(), packed())
        process.stdout.write(json.dumps(result).encode() + b"\n")
        process.exit(0)

    return run


def test_a_cluster_is_made_over_ssh_and_no_command_line_has_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    caplog.set_level("DEBUG")
    machines, commands, outcome = Machines(tmp_path, planes=3), list[str](), Outcome()
    outcome.results = {node.name: {"status": "ready"} for node in machines.lab.nodes}

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            records = {}
            for name, record in machines.records().items():
                port = await stack.enter_async_context(server(serve(machines, name, commands)))
                records[name] = record.model_copy(update={"endpoint": endpoint(port)})
            crew = Crew(hosts=HostCalls(text_of(USER_KEY)), policy=HostPolicy(), say=lambda _text: None)
            await unite(crew, machines.lab, records, outcome, {})

    asyncio.run(scene())

    assert {result["status"] for result in outcome.results.values()} == {"ready"}
    assert machines.plane.members[:3] == ["cp01", "cp02", "cp03"]
    secrets = {*machines.plane.had, *machines.plane.certificate_keys} - {""}
    assert len(secrets) >= 3, "two tokens and a key"
    for secret in secrets:
        assert not [command for command in commands if secret in command]
        assert secret not in caplog.text
        assert secret not in str(outcome)


def says(text: str, code: int = 0, error: str = "") -> Serve:
    async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        assert process.command == READ
        process.stdout.write(text.encode())
        process.stderr.write(error.encode())
        process.exit(code)

    return run


def read(*planes: Serve) -> str:
    async def scene() -> str:
        async with AsyncExitStack() as stack:
            ports = [await stack.enter_async_context(server(plane)) for plane in planes]
            named: list[Any] = [(f"cp0{i}", endpoint(port)) for i, port in enumerate(ports, 1)]
            return await admin_config(named, keys_of(text_of(USER_KEY)))

    return asyncio.run(scene())


def test_the_first_control_plane_that_has_a_kubeconfig_gives_it():
    missing = says("", 1, "cat: /etc/kubernetes/admin.conf: No such file or directory\n")

    assert read(missing, says(ADMIN)) == ADMIN


def test_the_error_has_each_control_plane_s_answer_and_no_content():
    with pytest.raises(LabError) as refused:
        read(says("", 1, "sudo: a password is required\n"), says("password: hunter2\n"))

    text = str(refused.value)
    first, second = (line for line in text.splitlines() if "admin.conf" in line)
    assert states(first, "cp01", "/etc/kubernetes/admin.conf", "sudo")
    assert states(second, "cp02", "/etc/kubernetes/admin.conf", "kubeconfig")
    assert "hunter2" not in text


def test_only_a_cluster_that_is_made_here_has_control_planes_to_ask(lab: Lab, tmp_path: Path):
    made = Machines(tmp_path, planes=3).lab
    endpoints = {node.name: endpoint(22) for node in (*lab.nodes, *made.nodes)}

    assert control_planes_of(lab, endpoints) == []
    assert [name for name, _ in control_planes_of(made, endpoints)] == ["cp01", "cp02", "cp03"]


@pytest.mark.parametrize("text", ["", "no: config", "kind: Config\n", "a: [", "- 1"])
def test_not_every_text_is_a_kubeconfig(text):
    assert not is_kubeconfig(text)
