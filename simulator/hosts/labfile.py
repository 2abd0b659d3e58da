"""Stack files for many simulated hosts: two rails with pods, or eight routed rails without."""

from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import yaml

from simulator.hosts.traffic import Port
from stacks.lab import Lab

INTERFACES = ("enp5s0", "enp132s0", "enp6s0", "enp133s0", "enp7s0", "enp134s0", "enp8s0", "enp135s0")
"""Interfaces of a host's PFs in the order of the rails."""


def lab_of(name: str, places: Mapping[str, IPv4Address], port: int, folder: Path, *, rails: int = 2) -> dict[str, Any]:
    """A lab with four VFs per PF and no benchmarks; keys and known_hosts are in the folder."""
    numbers = range(rails)
    return {
        **_head(name, folder),
        "rails": [_rail(number) for number in numbers],
        "nodes": [_node(host, number, address, port, rails) for number, (host, address) in enumerate(places.items())],
    }


def routed_lab_of(name: str, places: Mapping[str, IPv4Address], port: int, folder: Path) -> dict[str, Any]:
    """The same hosts as groups: eight rails of /31 links and no pods. All addresses are in one /24."""
    hosts = list(places)
    return {
        **_head(name, folder),
        "rails": [{"names": "rail-[1-8]", "host_subnet": {"first": "172.16.0.0/23"}, "links": {"host": "low"}}],
        "node_classes": {
            "simulated": {
                "ssh_port": port,
                "management_interface": "enp0s3",
                "pfs": [
                    {
                        "rail": "rail-[1-8]",
                        "interface": "enp[5-12]s0",
                        "rdma_device": "rxe[0-7]",
                        "driver": "igb",
                        "vfs": 0,
                    }
                ],
            }
        },
        "nodes": [
            {
                "names": f"gpu[{hosts[0].removeprefix('gpu')}-{hosts[-1].removeprefix('gpu')}]",
                "class": "simulated",
                "address": {"first": str(places[hosts[0]])},
                "rail_host": {"first": 0},
            }
        ],
    }


def ports_of(lab: Lab) -> list[Port]:
    """Every PF of a lab."""
    return [Port(node.name, pf.rdma_device, pf.interface, str(pf.address.ip)) for node in lab.nodes for pf in node.pfs]


def write(file: Path, lab: Mapping[str, Any]) -> None:
    """Writes the lab to the stack file and keeps its other content."""
    found = yaml.safe_load(file.read_text()) if file.exists() else {}
    found.setdefault("config", {})["rocelab:lab"] = dict(lab)
    file.write_text(yaml.safe_dump(found, sort_keys=False))


def pf_address(number: int, rail: int) -> str:
    """Address of a host's PF; both numbers start at 0."""
    return f"10.{64 + rail}.{number // 250}.{number % 250 + 1}"


def _head(name: str, folder: Path) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "virtual",
        "access": {
            "user": "nvidia",
            "identity": "file",
            "key_file": str(folder / "id_ed25519"),
            "known_hosts_file": str(folder / "known_hosts"),
        },
    }


def _rail(number: int) -> dict[str, Any]:
    vlan = 111 + number
    pods = f"10.{80 + number}"
    return {
        "name": _rail_name(number),
        "mtu_bytes": 9000,
        "host_subnet": f"10.{64 + number}.0.0/16",
        "pod": {
            "vlan_id": vlan,
            "subnet": f"{pods}.0.0/16",
            "first_address": f"{pods}.0.10",
            "last_address": f"{pods}.255.250",
            "addresses_per_node": 8,
        },
        "resource_name": f"sriov_{vlan}",
        "network_name": f"sriov{vlan}",
    }


def _rail_name(number: int) -> str:
    return f"rail-{'abcdefgh'[number]}"


def _node(name: str, number: int, address: IPv4Address, port: int, rails: int) -> dict[str, Any]:
    return {
        "name": name,
        "address": str(address),
        "ssh_port": port,
        "management_interface": "enp0s3",
        "pfs": [
            {
                "rail": _rail_name(i),
                "interface": INTERFACES[i],
                "driver": "igb",
                "address": f"{pf_address(number, i)}/16",
                "vfs": 4,
                "rdma_device": f"rxe{i}",
            }
            for i in range(rails)
        ],
    }
