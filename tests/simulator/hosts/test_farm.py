"""The simulated hosts: SSH is real, and their answers are their own, not those of the program that they are sent."""

import asyncio
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

import asyncssh
import pytest

from components.hosts.calls import HostCalls, Report
from components.hosts.delivery import receive_command, send
from components.hosts.document import target_record
from components.hosts.hosts import start_command
from components.hosts.pack import packed
from components.hosts.records import HostRecord
from components.ssh.connection import NoAnswerError
from simulator.hosts.farm import Farm, places_of
from simulator.hosts.fields import conforming
from simulator.hosts.labfile import lab_of
from stacks.lab import Lab

T = TypeVar("T")
KEY = asyncssh.generate_private_key("ssh-ed25519")
NAMES = ["gpu0001", "gpu0002", "gpu0003"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def with_farm(folder: Path, act: Callable[[Farm, HostCalls, dict[str, HostRecord]], Awaitable[T]]) -> T:
    """Does something with three hosts, at addresses that no other run uses at the same time."""

    async def whole() -> T:
        first = IPv4Address(f"127.1.{secrets.randbelow(200) + 20}.1")
        farm = Farm(places_of(NAMES, first), free_port(), KEY, folder / "faults.json")
        await farm.start()
        lab = Lab.model_validate(lab_of("scale", farm.places, farm.port, folder))
        keys = {name: " ".join(key.export_public_key().decode().split()[:2]) for name, key in farm.keys.items()}
        records = {node.name: target_record(lab, node, keys[node.name]) for node in lab.nodes}
        try:
            return await act(farm, HostCalls(KEY.export_private_key().decode()), records)
        finally:
            await farm.stop()

    return asyncio.run(whole())


def test_a_host_is_what_was_applied_to_it_and_an_undo_takes_it_away(tmp_path: Path) -> None:
    async def act(farm: Farm, hosts: HostCalls, records: dict[str, HostRecord]) -> list[Report]:
        one = records["gpu0001"]
        verbs = ("probe", "apply", "probe", "confirm", "undo", "probe")
        return [await hosts.call(one.endpoint, verb, one.document) for verb in verbs]

    before, applied, pending, confirmed, undone, after = with_farm(tmp_path, act)

    wanted = conforming(lab_document())
    assert set(before.fields) == set(wanted)
    assert set(applied.changed) == set(wanted) - {"rdma_namespaces"}, "which a machine has by itself"
    assert (applied.fields, applied.facts) == ({}, {})
    assert pending.facts["pending"] is True
    assert confirmed.facts["pending"] is False
    assert confirmed.fields["enp5s0.mtu_bytes"] == 9000
    assert undone.failed is None
    assert after.fields == before.fields


def lab_document() -> dict[str, object]:
    lab = Lab.model_validate(lab_of("scale", places_of(NAMES, IPv4Address("127.1.9.1")), 22, Path("/")))
    return dict(target_record(lab, lab.nodes[0], "ssh-ed25519 AAAA").document)


def test_a_command_runs_the_delivered_program_and_reports_a_missing_one(tmp_path: Path) -> None:
    async def act(farm: Farm, hosts: HostCalls, records: dict[str, HostRecord]) -> list[dict[str, object]]:
        one = records["gpu0001"]
        sent = json.dumps(one.document).encode()
        early = await hosts.run(one.endpoint, start_command(), sent)
        await send(hosts, {"gpu0001": one.endpoint}, {"gpu0001": {receive_command(): packed()}})
        return [json.loads(early), json.loads(await hosts.run(one.endpoint, start_command(), sent))]

    missing, done = with_farm(tmp_path, act)

    assert isinstance(missing["failed"], dict)
    assert "missing" in missing["failed"]["reason"]
    assert (done["failed"], done["host"]) == (None, "gpu0001")


def test_an_unconfirmed_change_is_reverted_in_time(tmp_path: Path) -> None:
    async def act(farm: Farm, hosts: HostCalls, records: dict[str, HostRecord]) -> Report:
        one = records["gpu0001"]
        await hosts.call(one.endpoint, "apply", one.document)
        farm.hosts["gpu0001"].revert_at_s = 0.0
        return await hosts.call(one.endpoint, "probe", one.document)

    assert with_farm(tmp_path, act).fields["enp5s0.mtu_bytes"] != 9000


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("dead", "does not answer"), ("foreign", "another host key"), ("reset", r"127\.1\.")],
)
def test_a_fault_concerns_its_host_alone(tmp_path: Path, fault: str, expected: str) -> None:
    (tmp_path / "faults.json").write_text(json.dumps({"gpu0002": fault}))

    async def act(farm: Farm, hosts: HostCalls, records: dict[str, HostRecord]) -> Report:
        with pytest.raises(NoAnswerError, match=expected):
            await hosts.call(records["gpu0002"].endpoint, "probe", records["gpu0002"].document)
        return await hosts.call(records["gpu0003"].endpoint, "probe", records["gpu0003"].document)

    assert with_farm(tmp_path, act).failed is None


def test_a_step_that_is_set_to_fail_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text(json.dumps({"gpu0001": "failed vfs"}))

    async def act(farm: Farm, hosts: HostCalls, records: dict[str, HostRecord]) -> Report:
        return await hosts.call(records["gpu0001"].endpoint, "apply", records["gpu0001"].document)

    report = with_farm(tmp_path, act)

    assert report.failed
    assert (report.failed["step"], report.changed) == ("vfs", [])


def test_addresses_go_on_in_the_next_network_after_250() -> None:
    places = places_of([str(number) for number in range(251)], IPv4Address("127.1.0.1"))

    assert [str(places[name]) for name in ("0", "249", "250")] == ["127.1.0.1", "127.1.0.250", "127.1.1.1"]
