"""The real engine on the simulator, driven through the plain CLI as a user drives it."""

import base64
import copy
import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

KEY = "rocelab:lab"
LONGEST_RUN_S = 600
LOOKS = 5
"""A look leaves out what a node does not answer in time; emulated nodes beside other work are that slow at times."""
TOO_LATE = re.compile(r"(not read|did not answer|did not end) within")


@dataclass
class Done:
    """A finished command: its exit status and all that it printed."""

    status: int
    text: str
    seconds: float

    def succeeded(self) -> "Done":
        assert self.status == 0, self.text[-6000:]
        return self

    def failed(self) -> "Done":
        assert self.status != 0, self.text[-6000:]
        return self


@dataclass
class Stack:
    """A stack of its own state, with a stack file of its own that a test may edit."""

    name: str
    folder: Path
    env: Mapping[str, str]
    ran: list[Done] = field(default_factory=list)
    longest_run_s: float = LONGEST_RUN_S

    @property
    def file(self) -> Path:
        return self.folder / f"Pulumi.{self.name}.yaml"

    @classmethod
    def make(cls, folder: Path, name: str = "lab") -> "Stack":
        """A new stack `name` whose state and file lie in `folder`; the checkout's own state is not touched."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "state").mkdir(parents=True)
        shutil.copy(ROOT / f"Pulumi.{name}.yaml", folder)
        env = {**environment(name), "PULUMI_BACKEND_URL": f"file://{folder / 'state'}"}
        stack = cls(name, folder, env)
        stack.run("pulumi", "stack", "init", name).succeeded()
        return stack

    def run(self, *command: str, timeout_s: float | None = None, cwd: Path = ROOT) -> Done:
        """Runs a command in the stack's environment."""
        begin = time.monotonic()
        done = subprocess.run(
            command,
            cwd=cwd,
            env=dict(self.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s or self.longest_run_s,
            check=False,
        )
        finished = Done(done.returncode, done.stdout, time.monotonic() - begin)
        self.ran.append(finished)
        return finished

    def pulumi(self, verb: str, *options: str) -> Done:
        """One of the engine's operations on this stack."""
        always = ["--stack", self.name, "--config-file", str(self.file), "--non-interactive", "--color", "never"]
        yes = [] if verb == "preview" else ["--yes", "--skip-preview"]
        return self.run("pulumi", verb, *always, *yes, *options)

    def look(self, *command: str, out: Path) -> Done:
        """A command that writes an inventory, repeated while its nodes are too slow for all values.

        A discovery may end with open questions (1); nodes that were not read (4) are a failure.
        """
        for _ in range(LOOKS):
            done = self.run(*command)
            assert done.status in {0, 1}, done.text
            if not TOO_LATE.search(out.read_text()):
                return done
        pytest.fail(f"the nodes are too slow: {LOOKS} looks had no time for all values")

    def up(self, *options: str) -> Done:
        return self.pulumi("up", *options)

    def killed(self, at: re.Pattern[str], when: Callable[[], None] = lambda: None) -> None:
        """An up whose engine is killed, plugins and program orphaned, as soon as it prints a line that matches `at`.

        `when` waits for what else must have happened.
        """
        always = ["--stack", self.name, "--config-file", str(self.file), "--non-interactive", "--color", "never"]
        running = subprocess.Popen(
            ["pulumi", "up", *always, "--yes", "--skip-preview"],
            cwd=ROOT,
            env=dict(self.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert running.stdout is not None
        printed: list[str] = []
        for line in running.stdout:
            printed.append(line)
            if at.search(line):
                break
        else:
            running.wait()
            pytest.fail(f"ended before it printed {at.pattern!r}:\n{''.join(printed)[-6000:]}")
        try:
            when()
        finally:
            running.kill()
            running.wait()
            running.stdout.close()

    def unchanged(self) -> Done:
        """An up that finds nothing to do."""
        return self.up("--expect-no-changes").succeeded()

    def drift(self) -> Done:
        """What `make drift` shows."""
        return self.pulumi("preview", "--refresh", "--diff").succeeded()

    def repair(self) -> Done:
        return self.up("--refresh")

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, secrets hidden."""
        shown = subprocess.run(
            ["pulumi", "stack", "output", "--json", "--stack", self.name],
            cwd=ROOT,
            env=dict(self.env),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found: dict[str, Any] = json.loads(shown.stdout)
        return found

    @contextmanager
    def edited(self, edit: Callable[[dict[str, Any]], object]) -> Iterator[None]:
        """The stack file with a change, taken back at the end."""
        before = self.file.read_text()
        content = yaml.safe_load(before)
        edit(content["config"][KEY])
        self.file.write_text(yaml.safe_dump(content, sort_keys=False))
        try:
            yield
        finally:
            self.file.write_text(before)

    def state_text(self) -> str:
        """The whole state as it stands on disk."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.rglob("*")) if path.is_file())


def provider_code(state: str) -> list[bytes]:
    """The code of each kind of resource of ours, with all that it holds: a state keeps it as base64 of a pickle."""
    return [base64.b64decode(code) for code in sorted(set(re.findall(r'"__provider":\s*"([A-Za-z0-9+/=]+)"', state)))]


def environment(stack: str) -> dict[str, str]:
    """The process environment after what `make env` prints, which also takes away what belongs to other stacks."""
    script = f'eval "$({shlex.quote(str(ROOT / "engine/env"))} --stack {stack})" && env -0'
    printed = subprocess.run(["bash", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    pairs = (tuple(entry.split("=", 1)) for entry in printed.decode().split("\0") if "=" in entry)
    return dict(pairs)


def on_node(node: str, command: str, timeout_s: float = 60, options: Sequence[str] = ()) -> str:
    """Runs a command on a node over plain ssh, past everything that this project does; returns what it prints."""
    done = subprocess.run(
        ["ssh", "-F", str(ROOT / ".sim/nodes/ssh_config"), "-o", "ConnectTimeout=20", *options, node, command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{node}: {command}: {done.stdout}"
    return done.stdout.strip()


def wait_for(node: str, command: str, answer: str, within_s: float = 60) -> None:
    """Returns when a command prints this."""
    deadline = time.monotonic() + within_s
    while on_node(node, command) != answer:
        assert time.monotonic() < deadline, f"{node}: {command} is never {answer}"
        time.sleep(0.5)


def announce_by_lldp(node: str, *interfaces: str) -> None:
    """Sends what lldpd on the node would, once from each of these interfaces."""
    announce = (
        "import socket, sys; part = lambda kind, value: (kind << 9 | len(value)).to_bytes(2, 'big') + value\n"
        "for name in sys.argv[1:]:\n"
        "    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); link.bind((name, 0))\n"
        "    link.send(bytes.fromhex('0180c200000e') + link.getsockname()[4] + bytes.fromhex('88cc') "
        "+ part(1, b'\\4' + bytes(6)) + part(2, b'\\5' + name.encode()) + part(3, b'\\0x') "
        f"+ part(5, b'{node}') + part(0, b''))"
    )
    on_node(node, shlex.join(["sudo", "python3", "-c", announce, *interfaces]))


def wait_for_reboot(node: str, boot_id: str, timeout_s: float = 240) -> None:
    """Returns when a node answers that was started after it had `boot_id`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if on_node(node, "cat /proc/sys/kernel/random/boot_id", timeout_s=30) != boot_id:
                return
        except (AssertionError, subprocess.TimeoutExpired):
            pass
        time.sleep(2)
    pytest.fail(f"{node} did not come back in {timeout_s} s")


def without(lab: dict[str, Any], node: str) -> dict[str, Any]:
    """A copy of a lab without one node and its cables."""
    smaller = copy.deepcopy(lab)
    smaller["nodes"] = [entry for entry in smaller["nodes"] if entry["name"] != node]
    for switch in smaller.get("switches", []):
        switch["ports"].pop(node, None)
    return smaller


def changes(done: Done) -> str:
    """The lines of a preview that change something."""
    return "\n".join(line for line in done.text.splitlines() if re.search(r"=>|^\s*[~+-] ", line))


def nodes_named(done: Done) -> set[str]:
    """Which hosts the changes of a preview concern."""
    before, _, _ = changes(done).partition("validation:Measurement")  # which forgets the last verdict of all hosts
    return set(re.findall(r"gpu\d\d", before))


def assert_nothing_secret_was_left(stack: Stack) -> None:
    """Searches what drift, repairs and failures, and in the longer lane kills and reboots, have printed and left."""
    key = (ROOT / ".sim/nodes/id_ed25519").read_text().splitlines()[2]
    kubeconfig = yaml.safe_load((ROOT / ".sim/kubeconfig").read_text())
    token = kubeconfig["users"][0]["user"]["client-key-data"][40:120]
    shown = "".join(done.text for done in stack.ran) + json.dumps(stack.outputs())
    logs = [path for path in (*(ROOT / ".sim").rglob("*.log"), *(ROOT / ".engine/logs").rglob("*")) if path.is_file()]

    assert {"gpu01", "plane", "switch"} <= {path.parent.name for path in logs}, "the logs are somewhere else now"
    for canary in (key, token, stack.env["PULUMI_CONFIG_PASSPHRASE"]):
        assert canary not in stack.state_text()
        assert canary not in shown
        assert [str(path) for path in logs if canary.encode() in path.read_bytes()] == []
