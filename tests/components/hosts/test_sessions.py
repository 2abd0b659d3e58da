"""How many SSH sessions a run opens to each host, counted on real servers on loopback."""

import asyncio
import json
import secrets
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from pulumi.dynamic import Config, ConfigureRequest

from components.hosts import calls
from components.hosts.calls import HostCalls
from components.hosts.delivery import DeliveryProvider
from components.hosts.document import document_text
from components.hosts.fleet import FleetProvider
from components.hosts.hosts import Confirmer, start_command
from components.hosts.records import HostRecord, properties_of, target_record
from components.ssh.connection import Connection, Endpoint, Keys
from components.ssh.credentials import host_keys
from simulator.hosts.farm import Farm, places_of
from simulator.hosts.labfile import lab_of
from stacks.hosts import HostPolicy
from stacks.lab import Lab

NAMES = ("gpu0001", "gpu0002")
CLIENT = {
    "nodes": ["gpu0001"],
    "package": {"url": "https://packages.example/client.deb", "sha256": "0" * 64},
    "servers": ["10.64.0.60"],
    "authorisation": "token",
}


@dataclass
class Hosts:
    """Two hosts with the lab that names them; one of them gets a secret file."""

    farm: Farm
    lab: Lab
    private_key: str

    @property
    def records(self) -> dict[str, HostRecord]:
        keys = host_keys(self.lab, Path("/"))
        return {node.name: target_record(self.lab, node, keys[node.name]) for node in self.lab.nodes}

    @property
    def asked(self) -> dict[str, list[str]]:
        return {name: host.commands for name, host in self.farm.hosts.items()}

    def fleet(self) -> tuple[FleetProvider, dict[str, Any]]:
        provider = FleetProvider()
        provider.configure(self.request)
        policy = HostPolicy()
        props = {**properties_of(self.records), "policy": policy.model_dump_json(), "reboot": "never"}
        return provider, {**props, "vf_layout": "abc"}

    @property
    def request(self) -> ConfigureRequest:
        lab = self.lab.model_dump_json(exclude_unset=True)
        return ConfigureRequest(Config({"rocelab:lab": lab, "rocelab:bitfusionToken": "token"}, "rocelab"))


class Key:
    """The private key as the program's secret output gives it."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def future(self) -> str:
        return self._text


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    loop, key = asyncio.new_event_loop(), asyncssh.generate_private_key("ssh-ed25519")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    farm = Farm(places_of(NAMES, IPv4Address(f"127.1.{secrets.randbelow(200) + 20}.1")), port, key)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(farm.start(), loop).result(60)
    (tmp_path / "known_hosts").write_text(farm.known_hosts)
    (tmp_path / "id_ed25519").write_bytes(key.export_private_key())
    lab = lab_of("scale", farm.places, port, tmp_path)
    yield Hosts(farm, Lab.model_validate({**lab, "bitfusion_client": CLIENT}), key.export_private_key().decode())
    asyncio.run_coroutine_threadsafe(farm.stop(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """By address of the host."""
    opened, connected = Counter[str](), calls.connected

    @asynccontextmanager
    async def counted(endpoint: Endpoint, keys: Keys) -> AsyncIterator[Connection]:
        opened[endpoint.address] += 1
        async with connected(endpoint, keys) as connection:
            yield connection

    monkeypatch.setattr(calls, "connected", counted)
    return opened


def first_up(hosts: Hosts) -> dict[str, Any]:
    """What the engine does in this order; its command provider opens one session for each command."""
    delivery = DeliveryProvider()
    delivery.configure(hosts.request)
    delivery.create({})
    confirmer = Confirmer(hosts.records, Key(hosts.private_key))  # type: ignore[arg-type]  # an Output needs the engine

    async def configured(name: str, record: HostRecord) -> None:
        sent = document_text(record.document).encode()
        printed = await HostCalls(hosts.private_key).run(record.endpoint, start_command(), sent)
        assert json.loads(printed)["failed"] is None
        await confirmer.confirm(name)

    async def all_configured() -> None:
        await asyncio.gather(*(configured(name, record) for name, record in hosts.records.items()))

    asyncio.run(all_configured())
    fleet, props = hosts.fleet()
    checked = fleet.check({}, {**props, "confirmed": confirmer.reports()})
    assert checked.failures == []
    return dict(fleet.create(checked.inputs).outs)


def test_a_first_up_opens_three_sessions_to_each_host_with_or_without_a_secret(hosts, sessions):
    outs = first_up(hosts)

    assert json.loads(outs["results"]) == {name: {"status": "ready"} for name in NAMES}
    assert set(sessions.values()) == {3}
    assert hosts.asked == {
        "gpu0001": ["receive", "other", "apply", "confirm"],
        "gpu0002": ["receive", "apply", "confirm"],
    }


def test_an_up_without_changes_opens_no_session_and_a_refresh_opens_one(hosts, sessions):
    outs = first_up(hosts)
    fleet, props = hosts.fleet()
    sessions.clear()

    assert fleet.diff("fleet", outs, fleet.check(outs, props).inputs).changes is False
    assert sessions == {}

    seen = fleet.read("fleet", outs)
    assert fleet.diff("fleet", dict(seen.outs), fleet.check(dict(seen.outs), props).inputs).changes is False
    assert set(sessions.values()) == {1}
