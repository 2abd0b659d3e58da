"""Steps against a node's own Debian: its kernel's bonds, its NIC's limit of VFs, netplan, initramfs and daemons.

chrony, NetworkManager and containerd are Debian's packages, installed by the node's dpkg; nvidia-ctk is built from
NVIDIA's module. No engine is needed: what a stack would send goes over SSH.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.hosts.calls import HostCalls, Report
from components.hosts.document import host_document, target_fields
from components.hosts.program.guest import NETPLAN, PROFILES
from components.ssh.credentials import login_to
from simulator.nodes.cache import made_once, run
from simulator.nodes.debian import downloaded
from stacks.read import KEY, parse_lab
from tests.conftest import ROOT
from tests.integration.conftest import environment, sim
from tests.integration.stack import on_node

pytestmark = [pytest.mark.sim, pytest.mark.whole]

NODE, PEER = "gpu01", "gpu02"
PF = "enp5s0"
PF_FOLDER = f"/sys/class/net/{PF}"
TOOLKIT = "1.17.8"
TOOLKIT_MODULE = Path(__file__).with_name("nvidia_ctk")
SSH_CONFIG = ROOT / ".sim/nodes/ssh_config"


class Hosts:
    """Both nodes, and what a changed lab asks of them."""

    def __init__(self, file: str, **changes: Any) -> None:
        content: dict[str, Any] = yaml.safe_load((ROOT / file).read_text())["config"][KEY]
        content |= changes
        lab = parse_lab(json.dumps(content), file)
        self._login = login_to(lab, ROOT, lambda _key: None)
        self.documents = {node.name: host_document(lab, node) for node in lab.nodes}

    def call(self, verb: str, node: str, *only: str) -> Report:
        """One verb of the host program on one node; `only` names the fields that an apply may change."""
        document = dict(self.documents[node])
        if only:
            document["only"] = list(only)
        hosts = HostCalls(self._login.private_key)
        return asyncio.run(hosts.call(self._login.endpoints[node], verb, document))

    def field(self, name: str, node: str = NODE) -> object:
        return self.call("probe", node).fields[name]

    def target(self, name: str, node: str = NODE) -> object:
        return target_fields(self.documents[node])[name]


@pytest.fixture
def nodes(simulator: Path) -> Iterator[None]:
    """Clean nodes, also afterwards: an undo leaves packages."""
    yield
    done = sim(environment("lab"), "reset", "nodes")
    assert done.returncode == 0, done.stdout


def install_from_debian(node: str, *packages: str) -> None:
    """Installs packages of Debian, with those that they need and the node lacks."""
    status = on_node(node, "cat /var/lib/dpkg/status")
    files = sorted(downloaded(packages, status, print).glob("*.deb"))
    assert files
    subprocess.run(["scp", "-q", "-F", SSH_CONFIG, *files, f"{node}:/tmp/"], check=True, timeout=120)
    names = " ".join(f"/tmp/{file.name}" for file in files)
    on_node(node, f"sudo dpkg -i {names}", timeout_s=300)


def nvidia_ctk() -> Path:
    """NVIDIA's own program, built from its pinned module."""
    package = "github.com/NVIDIA/nvidia-container-toolkit"
    version = f"-X {package}/internal/info.version={TOOLKIT}"

    def build(folder: Path) -> None:
        words = ["-ldflags", f"-s -w {version}", "-o", str(folder / "nvidia-ctk"), f"{package}/cmd/nvidia-ctk"]
        run("go", "build", "-C", str(TOOLKIT_MODULE), "-buildvcs=false", *words)

    return made_once("go-nvidia-ctk", (TOOLKIT_MODULE / "go.sum").read_text(), build, print) / "nvidia-ctk"


def guest_lab(**guests: Any) -> Hosts:
    """The PVRDMA lab's guests, whose rail is the nodes' own NIC."""
    content = yaml.safe_load((ROOT / "Pulumi.lab-pvrdma.yaml").read_text())["config"][KEY]
    # the reference lab's nodes answer, with keys that are written down: no machine is made here
    fabric = {name: value for name, value in content["fabric"].items() if not name.startswith("host_keys")}
    for node in content["nodes"]:
        for pf in node["pfs"]:
            pf |= {"driver": "igb", "rdma_device": "rxe0"}
    return Hosts("Pulumi.lab-pvrdma.yaml", fabric=fabric, guests=guests, nodes=content["nodes"])


@pytest.mark.row("A 20a")
@pytest.mark.usefixtures("nodes")
def test_a_pf_that_the_kernel_has_in_a_bond_is_refused_untouched() -> None:
    hosts = Hosts("Pulumi.lab.yaml")
    on_node(NODE, f"sudo sh -c 'modprobe bonding && ip link add bond7 type bond && ip link set {PF} master bond7'")

    report = hosts.call("apply", NODE)

    assert report.failed is not None
    assert "bond7" in report.failed["reason"]
    assert on_node(NODE, f"cat {PF_FOLDER}/device/sriov_numvfs {PF_FOLDER}/mtu").split() == ["0", "1500"]
    assert on_node(NODE, f"readlink -f {PF_FOLDER}/master").endswith("/bond7")

    on_node(NODE, "sudo ip link delete bond7")
    assert hosts.call("apply", NODE).failed is None


@pytest.mark.row("A 68a")
@pytest.mark.usefixtures("nodes")
def test_more_vfs_than_the_nic_offers_are_refused_before_any_is_made() -> None:
    hosts = Hosts("Pulumi.lab.yaml")
    assert on_node(NODE, f"cat {PF_FOLDER}/device/sriov_totalvfs") == "7"
    pfs: Any = hosts.documents[NODE]["pfs"]
    pfs[0]["vfs"] = 8  # the lab file refuses this for igb; other NICs have their limit in the firmware

    report = hosts.call("apply", NODE)

    assert report.failed is not None
    assert "7" in report.failed["reason"]
    assert report.failed["hint"]
    assert on_node(NODE, f"cat {PF_FOLDER}/device/sriov_numvfs {PF_FOLDER}/mtu").split() == ["0", "1500"]


@pytest.mark.row("B 316")
@pytest.mark.usefixtures("nodes")
def test_chrony_takes_the_labs_server_and_is_in_step_with_it() -> None:
    lab = yaml.safe_load((ROOT / "Pulumi.lab.yaml").read_text())["config"][KEY]
    peer = next(node for node in lab["nodes"] if node["name"] == PEER)
    server = peer["pfs"][0]["address"].partition("/")[0]
    rails = Hosts("Pulumi.lab.yaml")
    for node in (NODE, PEER):
        rails.call("apply", node)
        rails.call("confirm", node)
    hosts = Hosts("Pulumi.lab.yaml", system={"clock": {"daemon": "chrony", "servers": [server]}})
    assert hosts.field("clock_source") == "chrony is not installed"
    install_from_debian(NODE, "chrony")
    install_from_debian(PEER, "chrony")
    on_node(PEER, r"printf 'local stratum 5\nallow\n' | sudo tee /etc/chrony/conf.d/server.conf")
    on_node(PEER, "sudo systemctl start chrony")

    report = hosts.call("apply", NODE, "clock", "clock_source")

    assert report.failed is None
    assert "clock_source" in report.changed
    assert hosts.field("clock_source") == hosts.target("clock_source")
    assert hosts.field("clock") == hosts.target("clock")
    assert server in on_node(NODE, "chronyc -n -c tracking")
    assert hosts.call("apply", NODE, "clock", "clock_source").changed == []
    hosts.call("undo", NODE)
    assert server not in on_node(NODE, "chronyc -n -c sources")


@pytest.mark.row("C 252-265")
@pytest.mark.usefixtures("nodes")
def test_networkmanager_keeps_the_rails_address_by_its_keyfile() -> None:
    install_from_debian(NODE, "network-manager")
    on_node(NODE, "sudo systemctl start NetworkManager")  # the image's policy starts no daemon at installation
    hosts = guest_lab(network={"tool": "nmcli"})
    management = on_node(NODE, "ip -4 -o addr show dev enp0s3")

    report = hosts.call("apply", NODE)
    hosts.call("confirm", NODE)

    assert report.failed is None
    assert hosts.field(f"{PF}.kept") == hosts.target(f"{PF}.kept")
    connection, state = on_node(NODE, f"nmcli -t -f GENERAL.CONNECTION,GENERAL.STATE device show {PF}").splitlines()
    assert state == "GENERAL.STATE:100 (connected)"
    assert connection.removeprefix("GENERAL.CONNECTION:") in on_node(NODE, f"sudo cat {PROFILES}/*")
    assert hosts.call("apply", NODE).changed == []
    assert on_node(NODE, "ip -4 -o addr show dev enp0s3").split()[:4] == management.split()[:4]

    hosts.call("undo", NODE)
    assert "connected" not in on_node(NODE, f"nmcli -t -f GENERAL.STATE device show {PF}")


@pytest.mark.row("C 236-239")
@pytest.mark.usefixtures("nodes")
def test_an_interface_that_a_real_netplan_file_defines_is_refused() -> None:
    hosts = guest_lab(network={})
    other = f"{NETPLAN}/50-cloud-init.yaml"
    text = f"network:\n  version: 2\n  ethernets:\n    {PF}:\n      addresses: [192.168.0.99/24]\n"
    on_node(NODE, f"printf '%s' '{text}' | sudo tee {other}")

    files = on_node(NODE, f"sudo ls {NETPLAN}")

    report = hosts.call("apply", NODE)

    assert report.failed is not None
    assert other in report.failed["reason"]
    assert on_node(NODE, f"sudo ls {NETPLAN}") == files
    assert on_node(NODE, f"cat {PF_FOLDER}/mtu") == "1500"


@pytest.mark.row("C 301")
@pytest.mark.usefixtures("nodes")
def test_the_initramfs_holds_the_rails_module_options() -> None:
    hosts = guest_lab(initramfs=True)
    release = on_node(NODE, "uname -r")
    # these come with the distribution's kernel, and were left out of the image to keep it small
    on_node(NODE, f"echo CONFIG_RD_GZIP=y | sudo tee /boot/config-{release} /boot/vmlinuz-{release}")
    on_node(NODE, "sudo sh -c 'echo MODULES=list > /etc/initramfs-tools/conf.d/lab'")
    on_node(NODE, f"sudo update-initramfs -c -k {release}", timeout_s=300)

    report = hosts.call("apply", NODE)

    assert report.failed is None
    assert "initramfs" in report.changed
    listed = on_node(NODE, f"lsinitramfs /boot/initrd.img-{release}")
    assert "rocelab" in listed
    assert hosts.call("apply", NODE).changed == []


@pytest.mark.row("B 396-404")
@pytest.mark.usefixtures("nodes")
def test_nvidias_own_program_enters_its_runtime_into_debians_containerd() -> None:
    gpu = {"toolkit": {"source": "packaged", "packages": ["nvidia-container-toolkit"], "version": TOOLKIT}}
    hosts = Hosts("Pulumi.lab.yaml", gpu=gpu)
    for node in hosts.documents.values():
        node["gpus"] = 1
    install_from_debian(NODE, "containerd")
    program = nvidia_ctk()
    subprocess.run(["scp", "-q", "-F", SSH_CONFIG, program, f"{NODE}:/tmp/"], check=True, timeout=120)
    on_node(NODE, "sudo install -m 755 /tmp/nvidia-ctk /usr/bin/nvidia-ctk")
    assert hosts.field("container_toolkit") == TOOLKIT
    assert hosts.field("container_toolkit_runtime") == "not entered"

    report = hosts.call("apply", NODE, "container_toolkit", "container_toolkit_runtime")

    assert (report.failed, report.changed) == (None, ["container_toolkit_runtime"])
    assert "nvidia-container-runtime" in on_node(NODE, "sudo containerd config dump")
    assert on_node(NODE, "systemctl is-active containerd") == "active"
    assert hosts.call("apply", NODE, "container_toolkit", "container_toolkit_runtime").changed == []
    hosts.call("undo", NODE)
    assert "nvidia" not in on_node(NODE, "sudo containerd config dump")
