"""Runs the cluster layer alone through the plain CLI, kills it, and leads it over another address."""

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.plane.layout import Layout
from tests.conftest import PLUGINS, ROOT
from tests.integration.stack import environment

LONGEST_RUN_S = 180
KUBECONFIG = ".sim/kubeconfig"
"""Of the reference lab, in the project's folder."""
SETTLE_S = 30
"""Bound on the garbage collector's time after a deletion."""
LEAVES_AS_IT_IS = ("same", "read", "refresh")
"""The engine's operations that change no resource."""


@dataclass
class Lone:
    """A project whose whole program is the cluster layer."""

    folder: Path
    env: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        return ["pulumi", *arguments, "--stack", "lone", "--non-interactive", "--color", "never"]

    def run(self, *arguments: str, fails: bool = False, **env: str) -> str:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_RUN_S,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout[-6000:]
        return done.stdout

    def up(self, *options: str, fails: bool = False, **env: str) -> str:
        return self.run("up", "--yes", "--skip-preview", *options, fails=fails, **env)

    def changes(self, *options: str, **env: str) -> list[str]:
        """Logical names of what an up created, changed or deleted.

        Reads the engine's events: its display is for people. pytest shows both when an assertion fails.
        """
        log = self.folder / "events.jsonl"
        log.unlink(missing_ok=True)
        # the engine has the option `--event-log` only with this variable
        print(self.up("--event-log", str(log), *options, PULUMI_DEBUG_COMMANDS="true", **env))
        events = (json.loads(line) for line in log.read_text().splitlines())
        steps = [event["resOutputsEvent"]["metadata"] for event in events if "resOutputsEvent" in event]
        assert steps, "the engine wrote no event of a resource"
        print(*(f"{step['op']} {step['urn']}" for step in steps), sep="\n")
        return sorted({step["urn"].rpartition("::")[2] for step in steps if step["op"] not in LEAVES_AS_IT_IS})

    def destroy(self) -> str:
        return self.run("destroy", "--yes", "--skip-preview")

    def output(self, name: str) -> Any:
        return json.loads(self.run("stack", "output", name, "--json"))

    def resources(self) -> list[dict[str, Any]]:
        exported = self.folder / "exported.json"
        self.run("stack", "export", "--file", str(exported))
        state = json.loads(exported.read_text())
        found: list[dict[str, Any]] = state["deployment"]["resources"]
        return found


def project(name: str, layout: Layout, folder: Path) -> Lone:
    """A Pulumi project of its own, with the cluster layer for its whole program."""
    place = folder / name
    (place / "state").mkdir(parents=True)
    (place / ".sim").mkdir()
    (place / KUBECONFIG).write_text(layout.kubeconfig.read_text())
    runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": str(ROOT / ".venv")}}
    (place / "Pulumi.yaml").write_text(yaml.safe_dump({"name": name, "runtime": runtime, "plugins": PLUGINS}))
    (place / "__main__.py").write_text((ROOT / "tests/components/cluster/lone_cluster.py").read_text())
    env = {
        **environment("lab"),
        "PULUMI_BACKEND_URL": f"file://{place / 'state'}",
        "PYTHONPATH": str(ROOT),
        "LONE_LAB": str(ROOT / "Pulumi.lab.yaml"),
        "LONE_LAYOUT": "first",
    }
    made = Lone(place, env)
    made.run("stack", "init")
    return made


def settled(look: Callable[[], list[str]]) -> list[str]:
    """What is left once the garbage collector had its time."""
    end = time.monotonic() + SETTLE_S
    while (left := look()) and time.monotonic() < end:
        time.sleep(0.5)
    return left


def kill_while(lone: Lone, resource: str) -> None:
    """Kills the engine and its plugins, all at once and without a word, while a resource is being made."""
    with subprocess.Popen(
        lone.command("up", "--yes", "--skip-preview"),
        cwd=lone.folder,
        env=lone.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        seen = []
        for line in process.stdout:
            seen.append(line)
            if f"{resource} creating" in line:
                break
        else:
            pytest.fail("".join(seen)[-4000:])
        # plugins have process groups of their own and would go on for ever
        for pid in [process.pid, *descendants(process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and theirs."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    found = {int(child) for thread in threads for child in (thread / "children").read_text().split()}
    return [each for child in sorted(found) for each in (child, *descendants(child))]


@contextmanager
def relay(to: tuple[str, int], at: tuple[str, int]) -> Iterator[None]:
    """A server at another address: bytes are passed on as they are."""
    loop = asyncio.new_event_loop()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(*to)
        await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer), return_exceptions=True)

    server = loop.run_until_complete(asyncio.start_server(accept, *at))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def stop() -> None:
        server.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
