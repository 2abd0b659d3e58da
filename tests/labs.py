"""Labs that no stack file of the repository describes, as a stack file would give them."""

import copy
from typing import Any

import yaml

from stacks.read import KEY
from tests.conftest import ROOT

REFERENCE = yaml.safe_load((ROOT / "Pulumi.lab.yaml").read_text())["config"][KEY]
PLANE = {
    "name": "cp01",
    "role": "control_plane",
    "address": "192.168.7.1",
    "management_interface": "eno1",
    "gpus": 0,
}


def without_switch(lab: dict[str, Any]) -> dict[str, Any]:
    """A copy of a lab that leaves its switch and quality of service alone."""
    return {key: value for key, value in copy.deepcopy(lab).items() if key not in ("switches", "qos")}


def made_here(planes: int = 1, **bootstrap: Any) -> dict[str, Any]:
    """Real machines without a cluster: control planes without PFs, and seed A's two workers."""
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
