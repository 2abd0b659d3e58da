"""What a simulated host answers to the host program's verb `look`: as much as a server with these NICs and GPUs."""

import json
from collections.abc import Sequence
from typing import Any

from simulator.hosts.traffic import Port

Json = dict[str, Any]
COUNTERS = 60
"""Counters per port: as many as an inventory reads from mlx5."""
PRIORITIES = range(8)


def answer(name: str, boot_id: str, ports: Sequence[Port]) -> str:
    """One line of JSON, schema 1."""
    document = {
        "schema": 1,
        "system": {
            "hostname": _known(name, "/proc/sys/kernel/hostname"),
            "boot_id": _known(boot_id, "/proc/sys/kernel/random/boot_id"),
            "kernel": _known("simulated", "/proc/sys/kernel/osrelease"),
            "product": _known("Simulated server", "/sys/class/dmi/id/product_name"),
            "reboot_required": _known(False, "/run/reboot-required"),
            "containerd_memlock": _unknown("simulated", "systemctl show containerd.service"),
            "sudo": True,
        },
        "pfs": _known([_pf(number, port) for number, port in enumerate(ports)], "/sys/bus/pci/devices"),
        "gpus": _known([_gpu(number) for number in range(len(ports))], "/sys/bus/pci/devices"),
        "network": {
            "routes": _known([_route(port) for port in ports], "ip -j -4 route show table all"),
            "rules": _known([], "ip -j -4 rule show"),
            "sysctls": _known({f"net.ipv4.conf.{port.interface}.arp_ignore": 1 for port in ports}, "/proc/sys/net"),
        },
        "carriers": {"ssh": _known(["enp0s3"], "SSH_CONNECTION"), "storage": _known({}, "/proc/mounts")},
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


def nonsense(printed: str) -> str:
    """The same answer with wrong types and terminal escapes."""
    document = json.loads(printed)
    if "pfs" in document:
        document["pfs"]["value"][0].update(mtu_bytes={"value": "jumbo", "source": 5}, carrier=[1], addresses="all")
        odd = {"value": -1.5, "source": "x"}
        document["system"].update(kernel={"value": "\x1b[2J", "source": "\x07"}, numa_nodes=odd)
    return json.dumps(document) + "\n"


def cut_short(printed: str) -> str:
    """The answer of a host that had no time to read its first port's counters."""
    document = json.loads(printed)
    if "pfs" in document:
        port = document["pfs"]["value"][0]
        port["counters"] = _unknown("not read within 30 s", port["counters"]["source"])
    return json.dumps(document, separators=(",", ":")) + "\n"


def _pf(number: int, port: Port) -> Json:
    net = f"/sys/class/net/{port.interface}"
    device, rdma = f"{net}/device", f"/sys/class/infiniband/{port.device}"
    mlnx = f"mlnx_qos -i {port.interface}"
    files = {
        "driver": ("igb", f"{device}/driver"),
        "vendor_id": ("8086", f"{device}/vendor"),
        "device_id": ("10c9", f"{device}/device"),
        "up": (True, f"{net}/flags"),
        "carrier": (True, f"{net}/carrier"),
        "carrier_changes": (2, f"{net}/carrier_changes"),
        "speed_mbit_s": (400_000, f"{net}/speed"),
        "mtu_bytes": (9000, f"{net}/mtu"),
        "numa_node": (number % 2, f"{device}/numa_node"),
        "pcie_speed_gt_s": (32.0, f"{device}/current_link_speed"),
        "pcie_max_speed_gt_s": (32.0, f"{device}/max_link_speed"),
        "pcie_width": (16, f"{device}/current_link_width"),
        "pcie_max_width": (16, f"{device}/max_link_width"),
        "vfs_num": (4, f"{device}/sriov_numvfs"),
        "board_id": ("MT_0000000838", f"{rdma}/board_id"),
        "firmware": ("28.45.1200", f"{rdma}/fw_ver"),
        "iommu_group_type": ("identity", f"{device}/iommu_group/type"),
        "fec": ("rs", f"ethtool --show-fec {port.interface}"),
        "supported_speeds_mbit_s": ([100_000, 200_000, 400_000], f"ethtool {port.interface}"),
        "eswitch_mode": ("legacy", "devlink -j dev eswitch show"),
    }
    quality = {
        "trust": ("dscp", mlnx),
        "pfc_priorities": ([3], mlnx),
        "dscp_priority": ({point: point >> 3 for point in range(64)}, mlnx),
        "pause_rx": (False, f"ethtool -a {port.interface}"),
        "ecn_np_priorities": ([*PRIORITIES], f"{net}/ecn/roce_np/enable"),
        "cnp_dscp": (48, f"{net}/ecn/roce_np/cnp_dscp"),
    }
    counters = {f"rx_counter_{each}_phy": 0 for each in range(COUNTERS)}
    heard = {"system": f"leaf{number + 1}", "chassis_id": f"02:01:00:00:00:{number:02x}", "port_id": "Ethernet0"}
    return {
        "pci": _pci(number),
        "interfaces": _known([port.interface], device),
        "mac": _known("02:00:" + ":".join(f"{int(part):02x}" for part in port.address.split(".")), f"{net}/address"),
        "addresses": _known([f"{port.address}/16"], "ip -j addr show"),
        "rdma": _known([_rdma(port, rdma)], f"{device}/infiniband"),
        "vfs": _known([_vf(number, index) for index in range(4)], f"{device}/virtfn*"),
        "lldp": _known([heard], "lldpctl -f json0"),
        "nearest_gpus": _known({"gpus": [_pci(number, "1")], "bridge": _pci(number, "2")}, device),
        "counters": _known({"uptime_s": 86_400.0, "values": counters}, f"ethtool -S {port.interface}"),
        "qos": {key: _known(*pair) for key, pair in quality.items()},
        **{key: _known(*pair) for key, pair in files.items()},
    }


def _rdma(port: Port, folder: str) -> Json:
    gids = [{"index": index, "gid": "fe80::", "type": "RoCE v2", "interface": port.interface} for index in range(4)]
    return {
        "device": port.device,
        "link_layer": _known("Ethernet", f"{folder}/ports/1/link_layer"),
        "state": _known("ACTIVE", f"{folder}/ports/1/state"),
        "active_mtu_bytes": _known(4096, f"ibv_devinfo -d {port.device}"),
        "gids": _known(gids, f"{folder}/ports/1/gids"),
    }


def _vf(number: int, index: int) -> Json:
    folder = f"/sys/bus/pci/devices/{_pci(number)}/virtfn{index}"
    return {
        "number": index,
        "pci": _pci(number, f"1{index}"),
        "interfaces": [f"v{number}f{index}"],
        "mtu_bytes": _known(9000, folder),
    }


def _gpu(number: int) -> Json:
    return {
        "pci": _pci(number, "1"),
        "vendor_id": "10de",
        "device_id": "2330",
    }


def _route(port: Port) -> Json:
    return {
        "destination": f"{port.address.rpartition('.')[0]}.0/24",
        "interface": port.interface,
        "source": port.address,
    }


def _pci(number: int, function: str = "0") -> str:
    return f"0000:{16 + number:02x}:00.{function}"


def _known(value: object, source: str) -> Json:
    return {"value": value, "source": source}


def _unknown(reason: str, source: str) -> Json:
    return {"unknown": reason, "source": source}
