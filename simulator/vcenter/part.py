"""The simulated vCenter as a part of the simulator, for labs with a fabric. Its inventory is only in memory."""

import os
import re
import secrets
import shutil
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from simulator.nodes.accelerator import VARIABLE
from simulator.part import Report, SimulatorError, Status
from simulator.process import Daemon, refuse_a_taken_port
from simulator.vcenter.control import SOCKET
from stacks.fabric import Fabric
from stacks.lab import Lab

NAME = "vcenter"
INSTANCE = "instance"
"""File with the identity of the running vCenter. Each start has a new identity and an empty inventory."""
START_S = 30
IDENTITY_REQUEST = (
    '<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><RetrieveServiceContent xmlns="urn:vim25">'
    '<_this type="ServiceInstance">ServiceInstance</_this></RetrieveServiceContent></Body></Envelope>'
)
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
FOR_GUESTS = ("PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR", VARIABLE)
"""Environment variables that starting a node needs: where programs, image and QEMU are."""


@dataclass(frozen=True)
class Guests:
    """How the guests of VMs are started and stopped."""

    command: tuple[str, ...]
    """Starts or stops a guest."""
    end: Callable[[], list[str]]
    """Stops all guests, because they end with the inventory; returns their names."""


class VCenter:
    """govmomi's simulator behind TLS, with one user and a generated password."""

    name = "vCenter"

    def __init__(self, lab: Lab, state: Path, binaries: Path, guests: Guests | None = None) -> None:
        self._guests = guests
        self._fabric = lab.fabric
        self._folder = state.absolute() / "vcenter"
        self._program = (binaries / NAME).resolve()
        self._daemon = Daemon(NAME, self._folder)

    @property
    def password_file(self) -> Path:
        """File with the vCenter user's password, which is the stack secret `rocelab:vcenterPassword`."""
        return self._folder / "password"

    @property
    def authority_file(self) -> Path:
        """The CA certificate that clients must trust."""
        return self._folder / "pki" / "ca.crt"

    def up(self, report: Report) -> None:
        """Starts the vCenter unless it runs. A lab without a fabric has none."""
        if self._fabric is None:
            return
        address, port = _loopback(self._fabric), self._fabric.port
        if self._daemon.resume():
            report("a signal had suspended it; it continues")
        if self._daemon.pid() is None:
            if self._daemon.pid_file.exists():
                report("had died, and its inventory with it; started again")
            self._make_secrets(address)
            self._start(address, port)
        self._daemon.wait_until(
            lambda: self._answers(address, port), START_S, f"answer on https://{address}:{port}", report
        )
        # engine.recover compares it with the identity in a stack's state. Written in one step: an empty file would be
        # another identity.
        partial = self._folder / f"{INSTANCE}.partial"
        partial.write_text(self._identity(address, port))
        partial.replace(self._folder / INSTANCE)
        report(f"ready: https://{address}:{port}, user {self._fabric.user}")

    def status(self) -> list[Status]:
        """One line; none for a lab without a fabric."""
        if self._fabric is None:
            return []
        address = f"{self._fabric.vcenter}:{self._fabric.port}"
        if trouble := self._daemon.trouble(self.name, address):
            return [trouble]
        pid = self._daemon.pid()
        if not self._answers(self._fabric.vcenter, self._fabric.port):
            return [Status(self.name, address, "not answering", self._daemon.last_words(), pid)]
        return [Status(self.name, address, "running", f"user {self._fabric.user}", pid)]

    def reset(self, report: Report) -> None:
        """Restarts with the first inventory; password and certificate stay."""
        self.down(report)
        self.up(report)

    def down(self, report: Report) -> None:
        """Stops the vCenter."""
        ran = self._daemon.pid() is not None
        self._daemon.stop()
        ended = self._guests.end() if self._guests else []
        if ran:
            report(f"stopped, with its VMs {', '.join(ended)}" if ended else "stopped")

    def _start(self, address: str, port: int) -> None:
        if self._fabric is None or not self._program.exists():
            raise SimulatorError(f"{self.name}: {NAME} is not built. Run: make setup")
        refuse_a_taken_port(self.name, address, port)
        flags = (
            f"-listen={address}:{port}",
            f"-username={self._fabric.user}",
            f"-password-file={self.password_file}",
            f"-tls-cert={self._folder / 'pki' / 'vcenter.crt'}",
            f"-tls-key={self._folder / 'pki' / 'vcenter.key'}",
            f"-control={self._folder / SOCKET}",
        )
        own = {name: os.environ[name] for name in FOR_GUESTS if name in os.environ} if self._guests else {}
        command = self._guests.command if self._guests else ()
        self._daemon.start([str(self._program), *flags, *command], {**ENVIRONMENT, **own})

    def _make_secrets(self, address: str) -> None:
        """Makes a password, a certificate, and the seed of machines' host keys, unless they exist.

        The folder gets its name last, so that an incomplete one is never used.
        """
        pki = self._folder / "pki"
        if not (pki / address).exists():
            from simulator.plane.pki import Authority  # noqa: PLC0415  # takes a fifth of a second, and is needed once

            partial = self._folder / "pki.partial"
            for old in (partial, pki):
                shutil.rmtree(old, ignore_errors=True)
            partial.mkdir(parents=True, mode=0o700)
            Authority(partial).sign_server(NAME, address)
            (partial / address).touch()
            partial.rename(pki)
        for file, bytes_ in ((self.password_file, 18), (self._folder / "host_key_seed", 32)):
            if not file.exists():
                partial = file.with_suffix(".partial")
                partial.touch(mode=0o600)
                partial.write_text(secrets.token_urlsafe(bytes_))
                partial.rename(file)

    def _answers(self, address: str, port: int) -> bool:
        try:
            return self._ask(address, port, "GET", "/sdk/vimServiceVersions.xml")[0] == 200
        except (OSError, HTTPException):
            return False

    def _identity(self, address: str, port: int) -> str:
        try:
            _, text = self._ask(address, port, "POST", "/sdk", IDENTITY_REQUEST)
        except (OSError, HTTPException) as error:
            raise SimulatorError(f"{self.name}: it does not report its identity ({error})") from None
        found = re.search("<instanceUuid>([0-9a-f-]{36})</instanceUuid>", text)
        if found is None:
            raise SimulatorError(f"{self.name}: it does not report its identity")
        return found[1]

    def _ask(self, address: str, port: int, verb: str, path: str, body: str | None = None) -> tuple[int, str]:
        tls = ssl.create_default_context(cafile=self.authority_file)
        connection = HTTPSConnection(address, port, timeout=5, context=tls)
        try:
            connection.request(verb, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()


def _loopback(fabric: Fabric) -> str:
    """The vCenter's address, which must be a loopback address."""
    try:
        if IPv4Address(fabric.vcenter).is_loopback:
            return fabric.vcenter
    except AddressValueError:
        pass
    raise SimulatorError(
        f"fabric.vcenter: {fabric.vcenter} is not a loopback address, where the simulator listens; set 127.0.12.201"
        " with port 8989"
    )
