"""A switch that takes commands over SSH."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from components.ssh.connection import Endpoint
from components.switches.records import SwitchRecord, switch_record, task_of
from components.switches.settings import PortFacts, PortSettings, cables_of
from components.switches.talk import Talk, talking
from components.switches.work import SwitchOutcome, Task, configure, observe, restore
from simulator.switch.client import FRONT_KEY
from simulator.switch.front import serve
from simulator.switch.onyx import Console
from stacks.lab import Lab
from tests.components.switches.frame_switch import FrameSwitch
from tests.components.switches.labs import switch_entry, with_switches

ADDRESS = "127.0.0.1"


class Rig:
    """A lab, its switch, and the folder that the switch keeps its things in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.frames = FrameSwitch()
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.host_key.write_private_key(str(folder / FRONT_KEY))
        (folder / "lab.pub").write_bytes(self.key.export_public_key())
        self.port = 0
        self.backups: list[str] = []

    def lab(self, name: str = "lab", qos: dict[str, object] | None = None, **changes: object) -> Lab:
        ports = {"gpu01": {"enp5s0": "1/1", "enp132s0": "1/2"}, "gpu02": {"enp5s0": "1/5", "enp132s0": "1/6"}}
        entry = switch_entry(
            **{"address": ADDRESS, "ssh_port": self.port or 22, "apply": True, "ports": ports, **changes}
        )
        return with_switches(entry, qos={} if qos is None else qos, name=name)

    def record(self, lab: Lab) -> SwitchRecord:
        public = self.host_key.export_public_key().decode().strip()
        return switch_record(lab, lab.switches[0], public)

    def task(self, lab: Lab) -> Task:
        declared = {cable.port: cable.settings for cable in cables_of(lab, lab.switches[0])}
        return task_of(self.record(lab), declared, lab)

    @asynccontextmanager
    async def talk(self, endpoint: Endpoint | None = None, user: str = "admin") -> AsyncIterator[Talk]:
        server = await serve(self.frames, self.folder, self.folder / "lab.pub", ADDRESS, 0)
        self.port = server.get_port()
        record = self.record(self.lab(user=user))
        try:
            async with talking(endpoint or record.endpoint, [self.key], "sw1", record.session) as talk:
                yield talk
        finally:
            server.close()

    def configure(self, lab: Lab) -> SwitchOutcome:
        async def work() -> SwitchOutcome:
            async with self.talk() as talk:
                return await configure(talk, self.task(lab), self.backups.append)

        return asyncio.run(work())

    def restore(self, lab: Lab, before: dict[str, PortSettings]) -> list[str]:
        async def work() -> list[str]:
            async with self.talk() as talk:
                return await restore(talk, self.task(lab), before)

        return asyncio.run(work())

    def look(self, lab: Lab) -> dict[str, PortFacts]:
        async def work() -> dict[str, PortFacts]:
            async with self.talk() as talk:
                task = self.task(lab)
                return await observe(talk, task.dialect, task.ports)

        return asyncio.run(work())

    def by_hand(self, *lines: str) -> str:
        """The same switch under somebody's fingers."""

        async def work() -> str:
            async with self.talk() as talk:
                return "".join([await talk.ask(line) for line in lines])

        return asyncio.run(work())


def refuse(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The switch refuses each command with this text in it."""
    answer = Console.answer
    monkeypatch.setattr(Console, "answer", lambda self, line: "% Not enabled\n" if what in line else answer(self, line))
