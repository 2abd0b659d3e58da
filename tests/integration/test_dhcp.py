"""A pod's address on a rail from the lab's own DHCP server: attachment and daemon as rendered, by Debian's programs.

The CNI plugins are Debian's, the server is dnsmasq, and the pod a network namespace. A veth stands for the VF: the
plugin `host-device` puts it into the pod, in the place of SR-IOV CNI, which also tags its frames.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any

import pytest

from components.cluster.ipam import address_source
from components.cluster.profiles import networks
from stacks.rails import PodSide, Rail
from stacks.read import read_stack_file
from tests.components.cluster.conftest import PROFILES, profiled
from tests.components.cluster.rendered import objects_of
from tests.conftest import ROOT
from tests.integration.namespaces import BIN, Machine, debian, installed, plug

pytestmark = pytest.mark.sim

PLUGINS = "/opt/cni/bin"
VF, SERVER_PORT = "enp5s0v0", "eth0"
POD, POD_INTERFACE = "pod1", "net1"
LEASES = "/run/leases"
SOCKET_S = 10


@pytest.fixture(scope="module")
def rendered() -> tuple[Rail, dict[str, Any], list[str]]:
    """The first rail, its attachment's first plugin, and the command of the lease daemon's container."""
    delivery, rest = PROFILES["sriov_plain-dhcp"]
    lab = profiled(read_stack_file(ROOT / "Pulumi.lab.yaml"), delivery, **rest)
    assert lab.cluster is not None
    rail = lab.rails[0]
    attachment: Any = networks(lab, lab.cluster)[f"{rail.name}-network-default"]
    config = json.loads(attachment["spec"]["config"])
    program = address_source(lab.cluster).program()
    assert program is not None
    [daemon] = objects_of(program)
    pod: Any = daemon["spec"]
    [container] = pod["template"]["spec"]["containers"]
    plugin = {"cniVersion": config["cniVersion"], "name": config["name"], **config["plugins"][0]}
    return rail, plugin, container["command"]


def pool(rail: Rail) -> PodSide:
    assert rail.pod is not None
    return rail.pod


@pytest.fixture
def machines(rendered: tuple[Rail, dict[str, Any], list[str]]) -> Iterator[tuple[Machine, Machine]]:
    """A node with the lease daemon, and on its rail a server that has the pool of the lab file."""
    rail, _, command = rendered
    pods = pool(rail)
    gateway = f"{pods.subnet.network_address + 1}/{pods.subnet.prefixlen}"
    plugins = debian("containernetworking-plugins") / "usr/lib/cni"
    server_programs = installed(debian("dnsmasq-base"), "usr/sbin/dnsmasq")
    placed = f"mkdir -p /run{PLUGINS} && mount --bind {plugins} /run{PLUGINS} && mount --rbind /run/opt /opt"
    with ExitStack() as stack:
        node, server = Machine("gpu01", placed), Machine("dhcp", server_programs)
        for machine in (node, server):
            stack.callback(machine.stop)
        plug(node, VF, server, SERVER_PORT)
        server.run("ip", "address", "add", gateway, "dev", SERVER_PORT)
        addresses = f"{pods.first_address},{pods.last_address},{pods.subnet.netmask},2m"
        options = ["--no-daemon", "--port=0", "--user=root", "--conf-file=/dev/null", f"--dhcp-leasefile={LEASES}"]
        server.start(f"{BIN}/dnsmasq", *options, f"--interface={SERVER_PORT}", f"--dhcp-range={addresses}")
        node.run("ip", "netns", "add", POD)
        node.run("mkdir", "-p", "/run/cni")
        node.start(*command)
        deadline = time.monotonic() + SOCKET_S
        while node.run("ls", "/run/cni").strip() != "dhcp.sock":
            assert time.monotonic() < deadline, "the daemon has no socket"
            time.sleep(0.1)
        yield node, server


@pytest.mark.row("A 212-215")
def test_a_pod_gets_and_returns_an_address_of_the_rails_pool(
    rendered: tuple[Rail, dict[str, Any], list[str]], machines: tuple[Machine, Machine]
) -> None:
    rail, plugin, _ = rendered
    node, server = machines
    pods = pool(rail)
    config = {**plugin, "type": "host-device", "device": VF}
    names = {"CNI_CONTAINERID": POD, "CNI_NETNS": f"/run/netns/{POD}", "CNI_IFNAME": POD_INTERFACE, "CNI_PATH": PLUGINS}

    answer = json.loads(node.run(f"{PLUGINS}/host-device", stdin=json.dumps(config), CNI_COMMAND="ADD", **names))

    [given] = answer["ips"]
    address, _, prefix = given["address"].partition("/")
    assert pods.first_address <= ip_address(address) <= pods.last_address
    assert int(prefix) == pods.subnet.prefixlen
    inside = node.run("ip", "netns", "exec", POD, "ip", "-4", "-o", "address", "show", "dev", POD_INTERFACE)
    assert given["address"] in inside
    assert address in server.run("cat", LEASES)

    node.run(f"{PLUGINS}/host-device", stdin=json.dumps(config), CNI_COMMAND="DEL", **names)
    assert address not in server.run("cat", LEASES)
