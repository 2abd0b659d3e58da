"""Debian's lldpd at both ends of each cable: what a host hears of its switch, and a switch of its hosts.

SONiC and Cumulus run lldpd too. The cables are pairs of veths.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from components.switches.os import dialect_of
from components.switches.settings import cables_of, wrong_cable
from tests.components.switches.labs import switch_entry, with_switches
from tests.integration.namespaces import BIN, Machine, debian, installed, plug

pytestmark = pytest.mark.sim

HEARD_S = 60
SWITCH = "sw1"
LAB = with_switches(switch_entry("nvue"), qos={})
CABLES = cables_of(LAB, LAB.switches[0])
SWAPPED = "gpu02"
"""Its two cables end at each other's port."""
ACCOUNT = """
mkdir /run/lldpd
for file in passwd group hosts; do cp /etc/$file /run/$file; done
echo _lldpd:x:64055:64055::/run/lldpd:/bin/false >> /run/passwd
echo _lldpd:x:64055: >> /run/group
echo 127.0.1.1 $(hostname) > /run/hosts
for file in passwd group hosts; do mount --bind /run/$file /etc/$file; done
"""
"""What the package's installation and a machine's own name leave in /etc."""
NEIGHBOURS = f"""
import json
from components.hosts.program.look.lldp import neighbours
from components.hosts.program.look.read_only import ReadOnly
machine = ReadOnly(path="{BIN}")
print(json.dumps({{interface: neighbours(machine, interface) for interface in INTERFACES}}))
"""


def port_in_fact(node: str, port: str) -> str:
    """Where the cable ends that the lab says ends at a port."""
    others = [cable.port for cable in CABLES if cable.node == node and cable.port != port]
    return others[0] if node == SWAPPED else port


@pytest.fixture(scope="module")
def machines() -> Iterator[dict[str, Machine]]:
    """The lab's hosts and their switch, with all cables plugged in and every lldpd started."""
    programs = installed(debian("lldpd"), "usr/sbin/lldpd", "usr/sbin/lldpcli", "usr/sbin/lldpctl")
    with ExitStack() as stack:
        machines = {}
        for name in (SWITCH, *(node.name for node in LAB.nodes)):
            setting = "configure lldp portidsubtype ifname" if name == SWITCH else "configure lldp tx-interval 1"
            machines[name] = Machine(name, f"{ACCOUNT}{programs}echo {setting} > /run/lldpd.conf")
            stack.callback(machines[name].stop)
        for cable in CABLES:
            port = port_in_fact(cable.node, cable.port)
            plug(machines[cable.node], cable.interface, machines[SWITCH], port)
        for machine in machines.values():
            machine.start(f"{BIN}/lldpd", "-d", "-L", f"{BIN}/lldpcli", "-O", "/run/lldpd.conf")
        for machine in machines.values():  # `run` bounds the wait
            machine.run("sh", "-c", "until [ -S /run/lldpd.socket ]; do sleep 0.1; done")
        wait_until_heard(machines)
        yield machines


def wait_until_heard(machines: dict[str, Machine]) -> None:
    """Until the switch hears all cables, and each host the switch's names of its ports."""
    deadline = time.monotonic() + HEARD_S
    while True:
        heard = {name: machine.run(f"{BIN}/lldpctl", "-f", "json") for name, machine in machines.items()}
        complete = heard[SWITCH].count('"ttl"') == len(CABLES)
        if complete and all(heard[node.name].count('"ifname"') == len(node.pfs) for node in LAB.nodes):
            return
        assert time.monotonic() < deadline, heard
        time.sleep(0.5)


@pytest.mark.row("A 21")
def test_the_map_is_compared_with_what_lldpd_hears_on_the_switch(machines: dict[str, Machine]) -> None:
    dialect = dialect_of(LAB.switches[0])
    answers = {dialect.lldp_table: machines[SWITCH].run(f"{BIN}/lldpctl", "-f", "json")}
    interfaces = {node.name: frozenset(pf.interface for pf in node.pfs) for node in LAB.nodes}

    contradictions = {}
    for cable in CABLES:
        neighbour = dialect.neighbour(cable.port, answers)
        assert neighbour is not None
        assert neighbour.system == cable.node
        contradictions[cable.node, cable.interface] = wrong_cable(cable, neighbour, interfaces)

    first, second = (cable for cable in CABLES if cable.node == SWAPPED)
    for cable, heard in ((first, second), (second, first)):
        mapped = f"{cable.port}: switches[].ports has {SWAPPED} {cable.interface}"
        assert (
            contradictions.pop((SWAPPED, cable.interface)) == f"{mapped}, but LLDP reports {SWAPPED} {heard.interface}"
        )
    assert set(contradictions.values()) == {None}


@pytest.mark.row("A 21")
def test_a_look_reads_the_switch_and_port_that_lldpd_hears_on_the_host(machines: dict[str, Machine]) -> None:
    for node in LAB.nodes:
        interfaces = [pf.interface for pf in node.pfs]
        program = f"INTERFACES = {interfaces}\n{NEIGHBOURS}"

        heard = json.loads(machines[node.name].run(sys.executable, "-c", program))

        cables = {cable.interface: cable.port for cable in CABLES if cable.node == node.name}
        assert set(heard) == set(cables)
        for interface, (neighbour,) in heard.items():
            port = port_in_fact(node.name, cables[interface])
            assert (neighbour["system"], neighbour["port_id"]) == (SWITCH, port)
            assert len(neighbour["chassis_id"].split(":")) == 6
