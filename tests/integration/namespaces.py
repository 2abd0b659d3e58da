"""Machines that are namespaces of this machine's kernel: each with a network, a name and a /run of its own."""

import os
import subprocess
from pathlib import Path

import pytest

from simulator.nodes.debian import fetched, library_path
from simulator.part import SimulatorError
from tests.conftest import ROOT

BIN = "/run/bin"
"""Where a machine has its programs."""
BOOT = """
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir {bin}
hostname {name}
ip link set lo up
{setup}
echo ready
read -r _
"""
PROGRAM = """
printf '#!/bin/sh\\nLD_LIBRARY_PATH={libraries} exec {program} "$@"\\n' > {bin}/{name}
chmod 755 {bin}/{name}
"""
RUN_S = 30


def debian(*packages: str) -> Path:
    """A folder with packages of Debian; skips the test where they cannot be had."""
    try:
        return fetched(packages, print)
    except SimulatorError as error:
        pytest.skip(f"NOT RUN without {' and '.join(packages)}: {error}")


def installed(folder: Path, *programs: str) -> str:
    """Shell lines that put programs of an unpacked folder, by their paths in it, on a machine."""
    libraries = library_path(folder)
    lines = []
    for path in programs:
        program = folder / path
        lines.append(PROGRAM.format(libraries=libraries, program=program, bin=BIN, name=program.name))
    return "".join(lines)


class Machine:
    """A machine; `setup` is shell that runs before anything else does."""

    def __init__(self, name: str, setup: str = "") -> None:
        words = ["unshare", "--net", "--uts", "--mount", "sh", "-euc", BOOT.format(name=name, setup=setup, bin=BIN)]
        self._first = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._daemons: list[subprocess.Popen[str]] = []
        self.pid = self._first.pid
        assert self._first.stdout
        line = self._first.stdout.readline()
        if line != "ready\n":
            self.stop()
            pytest.skip(f"NOT RUN: namespaces need root: {line}")

    def _inside(self, words: tuple[str, ...]) -> list[str]:
        return ["nsenter", f"--target={self.pid}", "--net", "--uts", "--mount", *words]

    def run(self, *words: str, stdin: str = "", **environment: str) -> str:
        """What a program prints; one that fails fails the test."""
        env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        done = subprocess.run(
            self._inside(words), env=env, input=stdin, capture_output=True, text=True, timeout=RUN_S, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *words: str) -> None:
        """A program that runs until the machine stops, or the test run does."""
        bound = ["setpriv", "--pdeathsig", "KILL", *self._inside(words)]
        self._daemons.append(subprocess.Popen(bound, stderr=subprocess.DEVNULL, text=True))

    def stop(self) -> None:
        for daemon in self._daemons:
            daemon.terminate()
            daemon.wait()
        self._first.communicate()


def plug(machine: Machine, interface: str, other: Machine, port: str) -> None:
    """A cable between two machines."""
    pair = ["type", "veth", "peer", "name", port, "netns", str(other.pid)]
    machine.run("ip", "link", "add", interface, *pair)
    machine.run("ip", "link", "set", interface, "up")
    other.run("ip", "link", "set", port, "up")
