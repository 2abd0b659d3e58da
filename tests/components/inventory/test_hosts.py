"""Many hosts at once over real SSH: each is read, or is in the inventory with the reason, whatever it does."""

import asyncio
import json
import secrets
import socket
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path

import asyncssh
import pytest

from components.inventory import hosts
from components.inventory.answer import host_of
from components.inventory.hosts import UNPINNED, HostLooks, LookTarget, command
from components.inventory.model import Host
from components.inventory.reading import known
from simulator.hosts.farm import Farm, places_of
from simulator.hosts.labfile import lab_of, ports_of
from stacks.access import KnownHosts
from stacks.lab import Lab
from tests.messages import states

KEY = asyncssh.generate_private_key("ssh-ed25519")
NAMES = [f"gpu{number:04}" for number in range(1, 7)]


def looked(
    folder: Path, faults: dict[str, str], unpinned: str = "", say: Callable[[str], None] = lambda _line: None
) -> dict[str, Host]:
    """The hosts as a look finds them."""
    (folder / "faults.json").write_text(json.dumps(faults))

    async def whole() -> tuple[Host, ...]:
        first = IPv4Address(f"127.1.{secrets.randbelow(200) + 20}.1")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        farm = Farm(places_of(NAMES, first), port, KEY, folder / "faults.json")
        farm.ports = ports_of(Lab.model_validate(lab_of("scale", farm.places, port, folder)))
        await farm.start()
        lines = farm.known_hosts.splitlines()
        known_hosts = KnownHosts(line for line in lines if not unpinned or str(farm.places[unpinned]) not in line)
        targets = [
            LookTarget(name=name, address=str(address), ssh_port=port, user="ops")
            for name, address in farm.places.items()
        ]
        try:
            return await HostLooks([KEY], known_hosts, sudo=True, say=say).look(targets)
        finally:
            await farm.stop()

    return {host.name: host for host in asyncio.run(whole())}


def test_each_host_is_read_or_is_there_with_the_reason(tmp_path: Path) -> None:
    faults = {"gpu0002": "dead", "gpu0003": "reset", "gpu0004": "floods", "gpu0005": "foreign"}

    found = looked(tmp_path, faults, unpinned="gpu0006")

    assert list(found) == NAMES, "in the order in which they were named"
    assert found["gpu0001"].unread == ""
    assert found["gpu0001"].host_key.startswith("ssh-ed25519 ")
    assert [pf.interfaces.value for pf in found["gpu0001"].pfs.or_else(())] == [("enp5s0",), ("enp132s0",)]
    assert {name: host.pfs.is_known for name, host in found.items() if host.unread} == dict.fromkeys(NAMES[1:], False)
    assert "more than" in found["gpu0004"].unread
    assert "another host key" in found["gpu0005"].unread
    assert found["gpu0006"].unread == UNPINNED


def test_a_host_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "START_S", 0.5)

    unread = looked(tmp_path, {"gpu0003": "stuck"})["gpu0003"].unread
    assert states(unread, "answer", "0 s")


def test_a_host_that_is_not_pinned_is_not_logged_in_to_and_its_key_is_listed(tmp_path: Path) -> None:
    one = looked(tmp_path, {}, unpinned="gpu0006")["gpu0006"]

    assert one.offered_key.startswith("ssh-ed25519 ")
    assert one.host_key == ""


def test_a_host_that_lies_is_not_read_with_the_value_named(tmp_path: Path) -> None:
    found = looked(tmp_path, {"gpu0001": "lies"})
    liar, honest = found["gpu0001"], found["gpu0002"]

    assert "its answer is invalid: system.numa_nodes" in liar.unread
    assert not liar.pfs.is_known
    assert honest.pfs.is_known


def test_hosts_that_had_no_time_for_all_values_are_named_once_with_what_to_do(tmp_path: Path) -> None:
    lines: list[str] = []

    found = looked(tmp_path, {"gpu0002": "busy", "gpu0003": "busy"}, say=lines.append)

    [line] = [line for line in lines if line.startswith("read in part")]
    assert states(line, "gpu[0002-0003]", "again")
    assert found["gpu0002"].unread == ""
    assert states(found["gpu0002"].pfs.or_else(())[0].counters.unknown, "30 s")


def test_control_characters_of_a_host_never_reach_a_terminal() -> None:
    answer = {"schema": 1, "system": {"kernel": {"value": "\x1b[2J", "source": "\x07"}}}

    liar = host_of(json.dumps(answer), Host(name="gpu0001", address="192.0.2.1"))

    assert liar.system.kernel == known("?[2J", "?")


def test_the_program_becomes_root_only_where_that_needs_no_password() -> None:
    assert "sudo -n python3 -I -B -c " in command(sudo=True)
    assert command(sudo=False).startswith("exec python3 -I -B -c ")
