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

import asyncssh
import pytest
from pulumi import ResourceHookArgs

from components.hosts import calls
from components.hosts.calls import HostCalls
from components.hosts.delivery import Delivery, DeliveryInputs
from components.hosts.document import document_text, target_record
from components.hosts.fleet import FleetInputs, FleetState
from components.hosts.hosts import Confirmer, start_command
from components.hosts.records import HostRecord
from components.provider.base import ProviderConfig
from components.ssh.connection import Connection, Endpoint, Keys
from components.ssh.credentials import host_keys
from simulator.hosts.farm import Farm, places_of
from simulator.hosts.labfile import lab_of
from stacks.hosts import HostPolicy
from stacks.lab import Lab
from tests.components.hosts.fleet_hosts import FleetRun

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

    def fleet(self) -> tuple[FleetRun, FleetInputs]:
        new = FleetInputs(hosts=self.records, policy=HostPolicy(), vf_layout="abc")
        return FleetRun(self.settings), new

    @property
    def settings(self) -> dict[str, object]:
        return {"lab": self.lab.model_dump_json(exclude_unset=True), "bitfusionToken": "token"}


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


def first_up(hosts: Hosts) -> FleetState:
    """What the engine does in this order; its command provider opens one session for each command."""
    delivery = Delivery(ProviderConfig(hosts.settings))
    asyncio.run(delivery.create(DeliveryInputs(program="1", hosts="2")))
    confirmer = Confirmer(hosts.records, Key(hosts.private_key))  # type: ignore[arg-type]  # an Output needs the engine

    async def configured(name: str, record: HostRecord) -> None:
        sent = document_text(record.document).encode()
        printed = await HostCalls(hosts.private_key).run(record.endpoint, start_command(), sent)
        assert json.loads(printed)["failed"] is None
        ended = ResourceHookArgs("urn", "", name, "", new_outputs={"stdout": printed})
        await confirmer.confirm(ended)

    async def all_configured() -> None:
        await asyncio.gather(*(configured(name, record) for name, record in hosts.records.items()))

    asyncio.run(all_configured())
    fleet, new = hosts.fleet()
    new = FleetInputs.model_validate({**dict(new), "reports": confirmer.reports()})
    assert fleet.check(None, new) == []
    return fleet.create(new)


def test_a_first_up_opens_three_sessions_to_each_host_with_or_without_a_secret(hosts, sessions):
    outs = first_up(hosts)

    assert outs.results == {name: {"status": "ready"} for name in NAMES}
    assert set(sessions.values()) == {3}
    assert hosts.asked == {
        "gpu0001": ["receive", "other", "apply", "confirm"],
        "gpu0002": ["receive", "apply", "confirm"],
    }


def test_an_up_without_changes_opens_no_session_and_a_refresh_opens_one(hosts, sessions):
    outs = first_up(hosts)
    fleet, props = hosts.fleet()
    sessions.clear()

    assert fleet.check(props, props) == []
    assert fleet.diff(outs, props) == []
    assert sessions == {}

    seen, kept = fleet.read(outs)
    assert fleet.check(kept, props) == []
    assert fleet.diff(seen, props) == []
    assert set(sessions.values()) == {1}
