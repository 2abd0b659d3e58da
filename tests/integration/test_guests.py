"""A guest's own network tool on real nodes: netplan 0.106 with systemd-networkd, asked for by the host program alone.

The nodes stand in for machines in vSphere, so no engine is needed: what a stack would send goes over the same SSH.
"""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.hosts.calls import HostCalls, Report
from components.hosts.document import host_document
from components.hosts.program.guest import NETPLAN, RUN_NETWORKS
from components.hosts.records import target_fields
from components.ssh import connection
from components.ssh.credentials import login_to
from components.validation.bitfusion import checks, over_ssh, prove
from stacks.read import KEY, parse_lab
from tests.conftest import ROOT
from tests.integration.conftest import environment, sim
from tests.integration.stack import on_node

pytestmark = pytest.mark.sim

NODES = ("gpu01", "gpu02")
FILE = f"{NETPLAN}/90-rocelab-enp5s0.yaml"
NETWORK = f"{RUN_NETWORKS}/10-netplan-enp5s0.network"


class Guests:
    """Both nodes, and what the lab asks of each."""

    def __init__(self, revert_after_s: int = 120) -> None:
        content: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.lab-pvrdma.yaml").read_text())["config"][KEY]
        # the reference lab's nodes answer, with keys that are written down: no machine is made here
        fabric = {name: value for name, value in content["fabric"].items() if not name.startswith("host_keys")}
        content |= {"fabric": fabric, "guests": {"network": {}}, "hosts": {"revert_after_s": revert_after_s}}
        for node in content["nodes"]:
            for pf in node["pfs"]:
                pf |= {"driver": "igb", "rdma_device": "rxe0"}  # as those nodes have it
        self.content = content
        lab = parse_lab(json.dumps(content), "Pulumi.lab-pvrdma.yaml")
        self.login = login_to(lab, ROOT, lambda _key: None)
        self.documents = {node.name: host_document(lab, node) for node in lab.nodes}

    def do(self, verb: str, name: str) -> Report:
        """One verb of the host program on one node."""
        return self.on(verb, name)[0]

    def on(self, verb: str, *names: str) -> list[Report]:
        """One verb on several nodes at once."""

        async def all_of_them() -> list[Report]:
            hosts = HostCalls(self.login.private_key)
            calls = (hosts.call(self.login.endpoints[name], verb, self.documents[name]) for name in names)
            return await asyncio.gather(*calls)

        return asyncio.run(all_of_them())


@pytest.fixture(scope="module")
def guests(simulator: Path) -> Iterator[Guests]:
    found = Guests()
    with pytest.MonkeyPatch.context() as patient:
        patient.setattr(connection, "LOGIN_S", 60)  # of an emulated node whose rail has just been set up
        yield found
        found.on("undo", *NODES)
    assert sim(environment("lab"), "reset").returncode == 0


def addresses(name: str) -> str:
    return on_node(name, "ip -4 -o addr show dev enp5s0")


def lease(name: str) -> int:
    """Seconds for which the management address is still lent."""
    return int(on_node(name, "ip -4 -o addr show dev enp0s3").partition("valid_lft ")[2].partition("sec")[0])


def until(told: str, found: Callable[[], str], timeout_s: float = 120) -> None:
    end = time.monotonic() + timeout_s
    while told not in (text := found()):
        assert time.monotonic() < end, text
        time.sleep(0.5)


@pytest.mark.row("C 241")
def test_netplan_and_networkd_keep_the_rail_s_address_and_the_peer_answers(guests: Guests) -> None:
    management, lease_s = on_node("gpu01", "cat /run/systemd/netif/links/2"), lease("gpu01")

    assert [report.failed for report in guests.on("apply", *NODES)] == [None, None]
    guests.on("confirm", *NODES)

    until("192.168.0.32 answers", lambda: guests.do("probe", "gpu01").facts["guest_network"]["ping"]["enp5s0"])
    probed = guests.do("probe", "gpu01")
    assert probed.fields == target_fields(guests.documents["gpu01"])
    assert probed.facts["guest_network"]["tool"] == "netplan"

    def state() -> str:
        return on_node("gpu01", "networkctl status enp5s0 --no-pager")

    assert NETWORK in state(), "networkd holds it by our file"
    until("(configured)", state)
    assert on_node("gpu01", "cat /run/systemd/netif/links/2") == management
    assert lease("gpu01") < lease_s, "the management interface has noticed nothing: its lease is still the first one"


BITFUSION = r"""#!/bin/sh
# In place of the product's client, which cannot be had: `bitfusion run ... -- PROGRAM` runs the program.
[ "$*" = "run -n 1 -l 192.168.0.32 -- /usr/bin/true" ] || { echo "unexpected: $*" >&2; exit 2; }
exec /usr/bin/true
"""


@pytest.mark.row("C 24", "C 338-341", "C 413-416, 428-431")
def test_a_bitfusion_client_runs_its_sample_and_measures_a_server_on_another_node(guests: Guests) -> None:
    """The article's proofs, with the ends of a server started by hand as soon as they are named."""
    guests.on("apply", *NODES)
    guests.on("confirm", *NODES)
    client = {
        "nodes": ["gpu01"],
        "package": {"url": "https://mirror/bitfusion.deb", "sha256": "0" * 64},
        "servers": ["192.168.0.32"],
        "sample": "/usr/bin/true",
    }
    lab = parse_lab(json.dumps({**guests.content, "bitfusion_client": client}), "Pulumi.lab-pvrdma.yaml")
    on_node("gpu01", f"sudo tee /usr/local/bin/bitfusion > /dev/null <<'EOF'\n{BITFUSION}EOF")
    on_node("gpu01", "sudo chmod 755 /usr/local/bin/bitfusion")

    def start_the_other_end(line: str) -> None:
        _, _, words = line.partition("wants there: ")
        if words:
            on_node("gpu02", f"sudo systemd-run --quiet --collect {words}")

    program = partial(over_ssh, guests.login)
    proofs = asyncio.run(prove(checks(lab), program, start_the_other_end, wait_s=60, simulated=lab.simulated))

    expected = {"end-proof": "pass", "latency": "not rated", "bandwidth": "not rated"}
    assert {proof.check.name: proof.state for proof in proofs} == expected, [proof.line() for proof in proofs]


@pytest.mark.row("C 242, 267")
@pytest.mark.whole
def test_a_reboot_brings_it_back_without_this_program(guests: Guests) -> None:
    assert guests.do("apply", "gpu01").failed is None
    guests.do("confirm", "gpu01")
    on_node(
        "gpu01", "sudo systemctl disable rocelab-rdma.service 2>/dev/null; sudo rm -f /etc/systemd/system/*/rocelab*"
    )
    before = on_node("gpu01", "cat /proc/sys/kernel/random/boot_id")
    on_node("gpu01", "sudo systemd-run --quiet --on-active=1 systemctl reboot")

    def answer() -> str:
        try:
            text = on_node("gpu01", "cat /proc/sys/kernel/random/boot_id; ip -4 -o addr show dev enp5s0", timeout_s=10)
        except (AssertionError, subprocess.TimeoutExpired):  # it is on its way down, or up
            return ""
        return "" if before.strip() in text else text

    until("192.168.0.31/24", answer, timeout_s=300)
    until("mtu 9000", lambda: on_node("gpu01", "ip link show enp5s0"))
    assert guests.do("apply", "gpu01").failed is None
    guests.do("confirm", "gpu01")


@pytest.mark.row("C 240")
def test_an_unconfirmed_change_is_reverted_with_its_files(guests: Guests) -> None:
    """The Bitfusion article's `netplan try`, which waits for a key instead of a connection."""
    guests.do("undo", "gpu02")
    hasty = Guests(revert_after_s=30)  # a busy node needs seconds for the change itself

    done = hasty.do("apply", "gpu02")
    assert done.failed is None
    assert "enp5s0.address" in done.changed, "what it did stands in its report: a look from here might come too late"

    until("reverted", lambda: "reverted" if not addresses("gpu02").strip() else addresses("gpu02"))
    until("2", lambda: on_node("gpu02", f"ls {FILE} {NETWORK} 2>&1 | grep -c 'No such file' || true"))
    until("unmanaged", lambda: on_node("gpu02", "networkctl status enp5s0 --no-pager"))
