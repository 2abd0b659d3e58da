"""A stack with a fabric in a simulated vCenter."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from components.fabric.vcenter.client import OPTION, RULESET, VcenterEndpoint, session
from tests.conftest import PLUGINS, ROOT
from tests.integration.stack import environment
from tests.integration.vcenter import PASSWORD

MACHINE = {
    "template": "DC0_C0_RP0_VM0",
    "datastore": "LocalDS_0",
    "cpus": 2,
    "memory_mbytes": 4096,
    "disk_gbytes": 40,
    "guest_id": "debian12_64Guest",
    "management_network": "VM Network",
}
PROGRAM = """
import pulumi
from components.fabric.fabric import VsphereFabric, VsphereFabricArgs
from stacks.load import load_lab

config = pulumi.Config()
lab = load_lab(config)
fabric = VsphereFabric(
    "fabric", VsphereFabricArgs(lab=lab, fabric=lab.fabric, password=config.require_secret("vcenterPassword"))
)
pulumi.export("port_groups", fabric.port_groups)
"""


@dataclass
class Vsphere:
    """A stack in a simulated vCenter."""

    folder: Path
    env: dict[str, str]
    endpoint: VcenterEndpoint
    fabric: dict[str, Any]
    nodes: list[dict[str, Any]] = field(default_factory=list)
    hosts: dict[str, Any] = field(default_factory=dict)
    rail_mtu_bytes: int = 9000
    bitfusion: dict[str, Any] = field(default_factory=dict)

    def pulumi(self, verb: str, *options: str, fails: bool = False) -> str:
        self.write_lab()
        yes = [] if verb == "preview" else ["--yes", "--skip-preview"]
        done = self.run(verb, "--non-interactive", "--color", "never", "--stack", "t", *yes, *options)
        assert (done.returncode != 0) == fails, done.stdout[-6000:]
        return done.stdout

    def write_lab(self) -> None:
        """Puts the lab as it is asked for now into the stack's file."""
        lab = yaml.safe_load((ROOT / "Pulumi.lab.yaml").read_text())["config"]["rocelab:lab"]
        lab["fabric"] = self.fabric
        lab["rails"] = [{**rail, "mtu_bytes": self.rail_mtu_bytes} for rail in lab["rails"]]
        if self.nodes:
            lab["nodes"] = self.nodes
            del lab["switches"], lab["qos"]  # of the nodes that these replace: their ports, what their NICs can
        if any("role" in node for node in self.nodes):
            del lab["cluster"], lab["benchmarks"]  # an existing cluster has control planes already
        lab["hosts"] = {**lab.get("hosts", {}), **self.hosts}
        if self.bitfusion:
            lab["bitfusion"] = self.bitfusion
        path = self.folder / "Pulumi.t.yaml"
        content = yaml.safe_load(path.read_text()) or {}
        content.setdefault("config", {})["rocelab:lab"] = lab
        path.write_text(yaml.safe_dump(content))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the engine. Whatever it is and however it ends, it never prints the password."""
        done = subprocess.run(
            ["pulumi", *arguments],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert PASSWORD not in done.stdout, arguments[0]
        return done

    def seen(self, name: str) -> tuple[str, bool]:
        """Option and ruleset of a host as they are."""
        with session(self.endpoint) as vcenter:
            host = vcenter.host(name)
            return vcenter.option(host, OPTION), vcenter.ruleset(host, RULESET).enabled


def a_stack(folder: Path, endpoint: VcenterEndpoint) -> Vsphere:
    """A stack in that vCenter whose state and file lie in `folder`, with the engine set as for a lab with a fabric."""
    (folder / "backend").mkdir()
    (folder / "__main__.py").write_text(PROGRAM)
    options = {"toolchain": "pip", "virtualenv": str(ROOT / ".venv")}
    (folder / "Pulumi.yaml").write_text(
        yaml.safe_dump({"name": "rocelab", "runtime": {"name": "python", "options": options}, "plugins": PLUGINS})
    )
    env = {
        **environment("lab-pvrdma"),
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PYTHONPATH": str(ROOT),
    }
    stack = Vsphere(folder, env, endpoint, a_fabric(endpoint))
    assert stack.run("stack", "init", "t").returncode == 0
    secret = stack.run("config", "set", "--secret", "vcenterPassword", PASSWORD, "--stack", "t")
    assert secret.returncode == 0, secret.stdout
    return stack


def a_fabric(endpoint: VcenterEndpoint) -> dict[str, Any]:
    return {
        "vcenter": endpoint.address,
        "port": endpoint.port,
        "user": endpoint.user,
        "thumbprint_sha256": endpoint.thumbprint_sha256,
        "datacenter": "DC0",
        "cluster": "DC0_C0",
        "switches": [
            {
                "name": "rail-a",
                "rail": "rail-a",
                "uplink": {"rdma_device": "vmrdma0"},
                "port_group": "rail-a-hosts",
                "hosts": [
                    {"name": "DC0_C0_H0", "vmkernel": {"address": "10.10.11.201/24"}},
                    {"name": "DC0_C0_H1", "vmkernel": {"existing": "vmk0"}},
                    {"name": "DC0_C0_H2"},
                    {"name": "DC0_C0_H3", "vmkernel": {"existing": "vmk0"}},
                ],
            }
        ],
    }


def a_worker(number: int) -> dict[str, Any]:
    return {
        "kind": "vsphere_vm",
        "name": f"gpu0{number}",
        "address": f"127.0.12.{number}",
        "ssh_port": 2222,
        "management_interface": "ens192",
        "gpus": 1,
        "pfs": [
            {
                "rail": "rail-a",
                "interface": "ens224",
                "driver": "vmxnet3",
                "address": f"10.10.11.1{number}/24",
                "vfs": 0,
                "rdma_device": "rocep19s0f1",
            }
        ],
        "machine": dict(MACHINE),
    }


def a_control_plane(number: int) -> dict[str, Any]:
    return {
        "kind": "vsphere_vm",
        "name": f"plane0{number}",
        "address": f"127.0.12.3{number}",
        "management_interface": "ens192",
        "role": "control_plane",
        "gpus": 0,
        "machine": {**MACHINE, "cpus": 4, "memory_mbytes": 16384, "disk_gbytes": 50},
    }
