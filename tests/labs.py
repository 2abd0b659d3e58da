"""Labs and parts of labs as a stack file would give them, and the files that the simulator leaves for one."""

import copy
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from stacks.lab import Lab
from stacks.read import KEY, parse_lab
from stacks.safe_yaml import load_yaml
from tests.conftest import ROOT

PVRDMA = (ROOT / "Pulumi.lab-pvrdma.yaml").read_text()


def section_of(file: str) -> dict[str, Any]:
    """The lab of a stack file in the top folder, to be changed."""
    lab: dict[str, Any] = copy.deepcopy(_section_of(file))
    return lab


@cache
def _section_of(file: str) -> Any:
    return load_yaml((ROOT / file).read_text())["config"][KEY]


def lab_of(content: Mapping[str, object], **sections: object) -> Lab:
    """The lab that a stack file with this content describes, with these sections added or replaced."""
    return parse_lab(json.dumps({**content, **sections}), "Pulumi.test.yaml")


REFERENCE = section_of("Pulumi.lab.yaml")
PLANE = {
    "name": "cp01",
    "role": "control_plane",
    "address": "192.168.7.1",
    "management_interface": "eno1",
    "gpus": 0,
}
FABRIC: dict[str, Any] = {
    "vcenter": "127.0.12.201",
    "port": 8989,
    "user": "rocelab",
    "datacenter": "DC0",
    "cluster": "DC0_C0",
    "switches": [
        {
            "name": "rails",
            "rail": "rail-a",
            "uplink": {"name": "vmnic4"},
            "port_group": "rail-a",
            "hosts": [
                {"name": "esx1", "vmkernel": {"address": "10.10.11.201/24"}},
                {"name": "esx2", "vmkernel": {"existing": "vmk0"}},
                {"name": "esx3"},
            ],
        }
    ],
}
HOST_KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIHVyZmwO8Yp0nq2Xk0bPtn1Qv7JpYzvH3FQ8nCt0M1qL"


def without_switch(lab: dict[str, Any]) -> dict[str, Any]:
    """A copy of a lab that leaves its switch and quality of service alone."""
    return {key: value for key, value in copy.deepcopy(lab).items() if key not in ("switches", "qos")}


def made_here(planes: int = 1, **bootstrap: Any) -> dict[str, Any]:
    """Real machines without a cluster: control planes without PFs, and the DeepOps guide's two workers."""
    lab: dict[str, Any] = without_switch(REFERENCE)
    lab["kind"] = "hardware"
    lab["access"] = {"user": "nvidia", "identity": "agent", "known_hosts_file": "known_hosts"}
    for number, node in enumerate(lab["nodes"], 11):
        node.update(address=f"192.168.7.{number}", ssh_port=22, management_interface="eno1")
        for i, pf in enumerate(node["pfs"]):
            pf.update(driver="mlx5_core", rdma_device=f"mlx5_{i}")
    lab["nodes"] = [
        *({**PLANE, "name": f"cp0{i}", "address": f"192.168.7.{i}"} for i in range(1, planes + 1)),
        *lab["nodes"],
    ]
    lab["cluster"] = {
        "pod_subnet": "10.244.0.0/16",
        "service_subnet": "10.96.0.0/16",
        "bootstrap": {
            "version": "1.36.3",
            **({"control_plane_endpoint": "192.168.7.100:6443"} if planes > 1 else {}),
            **bootstrap,
        },
    }
    return lab


def simulator_files(folder: Path) -> None:
    """Writes the key, the host keys and the kubeconfig that the reference lab names."""
    (folder / ".sim/nodes").mkdir(parents=True)
    (folder / ".sim/nodes/id_ed25519").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n")
    lines = [f"[127.0.12.{i}]:2222 ssh-ed25519 {HOST_KEY}\n" for i in (1, 2, 250)]
    (folder / ".sim/nodes/known_hosts").write_text("".join(lines))
    (folder / ".sim/kubeconfig").write_text("apiVersion: v1\n")


def lab_with(text: str = PVRDMA, **sections: object) -> Lab:
    """The lab of a stack file with these sections added or replaced."""
    return lab_of(load_yaml(text)["config"][KEY], **sections)
