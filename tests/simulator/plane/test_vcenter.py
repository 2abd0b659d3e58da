"""The simulated vCenter: started, asked, refused, ended. Also the labs that need none."""

import os
import re
import signal
import ssl
import stat
import subprocess
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from simulator.part import SimulatorError
from simulator.process import Daemon
from simulator.vcenter.part import INSTANCE, VCenter
from stacks.fabric import DistributedSwitch, EsxiHost, Fabric, UplinkChoice
from stacks.lab import Lab
from tests.messages import stating
from tests.simulator.plane.running import ADDRESS, BINARIES

PORT = 8989
USER = "administrator@vsphere.local"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def with_fabric(lab: Lab) -> Lab:
    switch = DistributedSwitch(
        name="rails",
        rail="rail-a",
        uplink=UplinkChoice(name="vmnic4"),
        port_group="rail-a",
        hosts=(EsxiHost(name="DC0_C0_H0"),),
    )
    fabric = Fabric(vcenter=ADDRESS, port=PORT, user=USER, datacenter="DC0", cluster="DC0_C0", switches=(switch,))
    return lab.model_copy(update={"fabric": fabric})


def test_a_lab_without_a_fabric_starts_no_vcenter(lab: Lab, tmp_path: Path, said: list[str]) -> None:
    part = VCenter(lab, tmp_path, tmp_path)

    part.up(said.append)

    assert (said, part.status(), list(tmp_path.iterdir())) == ([], [], [])


def test_a_vcenter_that_is_not_on_the_loopback_is_refused(with_fabric: Lab, tmp_path: Path) -> None:
    assert with_fabric.fabric is not None
    real = with_fabric.fabric.model_copy(update={"vcenter": "vcenter.lab.example"})

    with pytest.raises(SimulatorError, check=stating("fabric.vcenter:", "vcenter.lab.example", "loopback")):
        VCenter(with_fabric.model_copy(update={"fabric": real}), tmp_path, tmp_path).up(print)


def test_a_missing_program_says_how_to_get_it(with_fabric: Lab, tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, check=stating("vcenter", "make setup")):
        VCenter(with_fabric, tmp_path / "state", tmp_path / "bin").up(print)


@pytest.fixture(scope="module")
def vcenter(with_fabric: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VCenter]:
    program = BINARIES / "vcenter"
    if not program.exists():
        pytest.skip("vcenter is not built: make setup")
    usage = subprocess.run([program, "-help"], capture_output=True, text=True, check=False).stderr
    if "-password-file" not in usage:
        pytest.skip("this build of vcenter takes any password (it knows no -password-file): engine/vcenter is older")
    part = VCenter(with_fabric, tmp_path_factory.mktemp("vcenter"), BINARIES)
    try:
        part.up(print)
        yield part
    finally:
        part.down(print)


def login(vcenter: VCenter, password: str) -> str:
    """The SOAP answer to a login, over a connection that trusts the simulator's authority only."""
    body = f"""<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><Login xmlns="urn:vim25">
        <_this type="SessionManager">SessionManager</_this><userName>{USER}</userName><password>{password}</password>
        </Login></Body></Envelope>"""
    tls = ssl.create_default_context(cafile=vcenter.authority_file)
    connection = HTTPSConnection(ADDRESS, PORT, timeout=10, context=tls)
    try:
        connection.request("POST", "/sdk", body, {"Content-Type": "text/xml", "SOAPAction": "urn:vim25/6.7"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.mark.sim
def test_only_the_generated_password_logs_in(vcenter: VCenter) -> None:
    assert "LoginResponse" in login(vcenter, vcenter.password_file.read_text())
    assert "InvalidLogin" in login(vcenter, "vmware")


@pytest.mark.sim
def test_only_the_owner_can_read_the_password_and_it_is_in_no_log_or_command_line(vcenter: VCenter) -> None:
    password = vcenter.password_file.read_text()
    folder = vcenter.password_file.parent
    pid = Daemon("vcenter", folder).pid()

    assert stat.S_IMODE(vcenter.password_file.stat().st_mode) == 0o600
    assert password not in (folder / "vcenter.log").read_text()
    assert password not in Path(f"/proc/{pid}/cmdline").read_text()
    assert password not in Path(f"/proc/{pid}/environ").read_text()


@pytest.mark.sim
def test_it_listens_on_its_own_address_only(vcenter: VCenter) -> None:
    pid = Daemon("vcenter", vcenter.password_file.parent).pid()

    found = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout

    sockets = [line.split()[3] for line in found.splitlines() if re.search(rf"pid={pid},", line)]
    assert sockets == [f"{ADDRESS}:{PORT}"]


@pytest.mark.sim
def test_a_killed_vcenter_is_seen_and_healed_with_the_same_password(vcenter: VCenter, said: list[str]) -> None:
    password = vcenter.password_file.read_text()
    pid = Daemon("vcenter", vcenter.password_file.parent).pid()
    assert pid is not None
    identity = vcenter.password_file.with_name(INSTANCE)
    first = identity.read_text()
    os.link(identity, identity.with_name("as-it-was"))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert [status.state for status in vcenter.status()] == ["died"]

    vcenter.up(said.append)

    assert "had died" in said[0]
    assert "LoginResponse" in login(vcenter, password)
    assert identity.read_text() != first
    assert identity.with_name("as-it-was").read_text() == first, "a file that is never half written"


@pytest.mark.sim
def test_a_down_leaves_nothing_that_answers(vcenter: VCenter) -> None:
    vcenter.down(print)

    assert [status.state for status in vcenter.status()] == ["stopped"]
    with pytest.raises(ConnectionRefusedError):
        login(vcenter, "any")
