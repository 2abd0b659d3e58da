"""A GPU server in a folder: files of the kernel, and programs that print what such programs were seen to print.

Two ports of ConnectX-7 behind a switch each, a GPU behind the first one, and a management NIC. Texts of programs:
- `ethtool -S`, `ethtool -a`: mlx5 counters as listed in the kernel's mlx5/counters.rst; `ethtool-pause.txt` of the lab
- `ethtool --show-fec`: commit messages of the kernel's ice and mlx5 drivers
- `ethtool -i`: firmware with the board's id in brackets, as mlx5's `mlx5e_get_drvinfo` writes it
- `ibv_devinfo`: README of deepmodeling's and other public clusters' pages, all of the same form
- `ip -j`: recorded on a node of the simulator; `vfinfo_list` as iproute2's `print_vfinfo` writes it
- `lldpctl -f json0`: lldpd's `json0` writer, in which everything is a list
- the configuration space of a NIC: `lspci -xxx` of a ConnectX-5 Ex in a mail to linux-pci (2022-01-19)
- `nvidia-smi -q -x`: recorded on an H100; `nvlink -s`: NVIDIA/nccl-tests#228, with the rate of an H100
- the Xid: the form recorded on an H100, with the text of NVIDIA's catalog
- `mlnx_qos`: the text in tests/components/hosts/written
"""

import json
import os
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
FIRST, SECOND, MANAGEMENT, GPU = "0000:19:00.0", "0000:3b:00.0", "0000:01:00.0", "0000:1a:00.0"
SWITCHES = {FIRST: "0000:15:01.0/0000:18:00.0", SECOND: "0000:37:01.0/0000:3a:00.0", GPU: "0000:15:01.0/0000:18:01.0"}
NAMES = {FIRST: "ens1np0", SECOND: "ens2np0", MANAGEMENT: "eno1"}
DEVICES = {FIRST: "mlx5_0", SECOND: "mlx5_1"}
SERIAL = "MT2345X01234"
"""Stands wherever a careless reader would find a serial number."""
STATISTICS = """NIC statistics:
     rx_packets: 25000
     rx0_packets: 12000
     rx0_xdp_errors: 0
     rx_out_of_buffer: 3
     rx_crc_errors_phy: 386
     rx_symbol_err_phy: 386
     rx_discards_phy: 0
     rx_prio3_pause: 184291
     tx_pause_storm_warning_events: 0
     module_high_temp: 0
     rx_pci_signal_integrity: 0
"""
MODES = """Settings for ens1np0:
\tSupported ports: [ Backplane ]
\tSupported link modes:   100000baseKR4/Full
\t                        200000baseCR4/Full
\t                        400000baseCR8/Full
\tSupported pause frame use: Symmetric
\tAdvertised link modes:  10000baseT/Full
\tSpeed: 400000Mb/s
"""
DEVINFO = """hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.45.1200
\tboard_id:\t\t\tMT_0000000838
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t4096 (5)
\t\t\tlink_layer:\t\tEthernet
"""
MODINFO = """filename:       /lib/modules/6.8.0-60-generic/updates/dkms/mlx5_core.ko
version:        25.07-0.9.7
srcversion:     A1B2C3D4E5F60718293A4B5
vermagic:       6.8.0-60-generic SMP preempt mod_unload modversions
"""
KERNEL_LOG = """Booting Linux
mlx5_core 0000:19:00.0: Port module event: module 0, Cable unplugged
eth0: renamed from veth
mlx5_core 0000:3b:00.0: Detected insufficient power on the PCIe slot (27W).
NVRM: Xid (PCI:0000:1a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
"""
NEIGHBOUR = {
    "name": "ens1np0",
    "via": "LLDP",
    "rid": "1",
    "age": "0 day, 00:10:00",
    "chassis": [{"id": [{"type": "mac", "value": "aa:bb:cc:00:00:01"}], "name": [{"value": "leaf1"}]}],
    "port": [{"id": [{"type": "ifname", "value": "Ethernet12"}], "descr": [{"value": "gpu01 rail-1"}]}],
}


def link(name: str, mac: str, **more: object) -> dict[str, Any]:
    return {"ifname": name, "flags": ["BROADCAST", "UP", "LOWER_UP"], "mtu": 9000, "address": mac, **more}


class Tree:
    """The folder; `root` and `programs` are what a `ReadOnly` takes."""

    def __init__(self, folder: Path) -> None:
        self.root, self.programs = folder / "root", folder / "bin"
        self.programs.mkdir(parents=True)
        self._system()
        for number, address in enumerate(NAMES):
            self._nic(number, address)
        self._function(GPU, "0x030200", "0x10de", "0x2330")
        self.file(
            f"/proc/driver/nvidia/gpus/{GPU}/information", f"Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-{SERIAL}\n"
        )
        self._programs()

    def file(self, path: str, text: str) -> Path:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def binary(self, path: str, content: bytes) -> None:
        target = self.file(path, "")
        target.write_bytes(content)

    def program(self, name: str, answers: dict[str, str], otherwise: str = "exit 1") -> None:
        """A program that prints an answer by its arguments."""
        cases = []
        for number, (arguments, text) in enumerate(answers.items()):
            stored = self.programs / f".{name}.{number}"
            stored.write_text(text)
            cases.append(f'  "{arguments}") exec cat {stored} ;;')
        self.script(name, "\n".join(['case "$*" in', *cases, f"  *) {otherwise} ;;", "esac"]))

    def script(self, name: str, body: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{body}\n")
        path.chmod(0o755)

    def remove(self, path: str) -> None:
        (self.root / path.lstrip("/")).unlink()

    def _link(self, path: str, target: Path) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(f"{os.path.relpath(target.parent, place.parent)}/{target.name}")  # as sysfs names a target

    def _function(self, address: str, kind: str, vendor: str, device: str) -> str:
        """A PCI function below its bridges, which are functions too."""
        folder = f"/sys/devices/pci{address[:7]}"
        for bridge in [each for each in SWITCHES.get(address, "").split("/") if each]:
            folder += f"/{bridge}"
            if not (self.root / f"sys/bus/pci/devices/{bridge}").exists():
                self.file(f"{folder}/class", "0x060400\n")
                self.binary(f"{folder}/config", acs(redirects=bridge == "0000:18:00.0"))
                self._link(f"/sys/bus/pci/devices/{bridge}", self.root / folder.lstrip("/"))
        folder += f"/{address}"
        values = {"class": kind, "vendor": vendor, "device": device, "numa_node": "0", "local_cpulist": "0-55"}
        for name, value in values.items():
            self.file(f"{folder}/{name}", f"{value}\n")
        self.file(f"{folder}/vpd", SERIAL)
        self._link(f"/sys/bus/pci/devices/{address}", self.root / folder.lstrip("/"))
        return folder

    def _nic(self, number: int, address: str) -> None:
        name, rdma = NAMES[address], DEVICES.get(address)
        vendor, device, driver = ("0x15b3", "0x1021", "mlx5_core") if rdma else ("0x8086", "0x1521", "igb")
        folder = self._function(address, "0x020000", vendor, device)
        self._link(f"{folder}/driver", self.root / f"sys/bus/pci/drivers/{driver}")
        net = f"{folder}/net/{name}"
        files = {"address": f"02:00:00:00:00:0{number}", "mtu": "9000", "flags": "0x1003", "carrier": "1"}
        files |= {"carrier_changes": "2", "speed": "400000", "dev_port": "0", "ifindex": str(number + 2)}
        for key, value in files.items():
            self.file(f"{net}/{key}", f"{value}\n")
        self.file(f"{net}/statistics/rx_errors", "0\n")
        self._link(f"{net}/device", self.root / folder.lstrip("/"))
        self._link(f"/sys/class/net/{name}", self.root / net.lstrip("/"))
        for key in ("arp_ignore", "arp_announce", "rp_filter"):
            self.file(f"/proc/sys/net/ipv4/conf/{name}/{key}", "2\n")
        if rdma is None:
            return
        files = {"subsystem_device": "0x0041", "current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16"}
        files |= {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"}
        files |= {"sriov_totalvfs": "16", "sriov_numvfs": "2"}
        for key, value in files.items():
            self.file(f"{folder}/{key}", f"{value}\n")
        self.binary(f"{folder}/config", connectx())
        for index in range(2):
            vf = self._function(f"{address[:-1]}{index + 2}", "0x020000", vendor, "0x101e")
            self._link(f"{vf}/physfn", self.root / folder.lstrip("/"))
            self._link(f"{vf}/driver", self.root / "sys/bus/pci/drivers/mlx5_core")
            self._link(f"{folder}/virtfn{index}", self.root / vf.lstrip("/"))
        self._rdma(folder, rdma, name)

    def _rdma(self, folder: str, device: str, name: str) -> None:
        at = f"{folder}/infiniband/{device}"
        files = {"board_id": "MT_0000000838", "hca_type": "MT4129", "fw_ver": "28.45.1200", "node_guid": SERIAL}
        files |= {"tc/1/traffic_class": "Global tclass=106", "ports/1/state": "4: ACTIVE"}
        files |= {"ports/1/link_layer": "Ethernet", "ports/1/rate": "400 Gb/sec (4X NDR)"}
        files |= {"ports/1/hw_counters/out_of_sequence": "7", "ports/1/hw_counters/lifespan": "10"}
        gids = ("fe80:" + "0000:" * 3 + "0200:00ff:fe00:0000", "0000:" * 5 + "ffff:0a0b:0001", ":".join(["0000"] * 8))
        for index, gid in enumerate(gids):
            files[f"ports/1/gids/{index}"] = gid
        for index in range(2):
            files[f"ports/1/gid_attrs/types/{index}"] = "RoCE v2"
            files[f"ports/1/gid_attrs/ndevs/{index}"] = name
        for key, value in files.items():
            self.file(f"{at}/{key}", f"{value}\n")
        self._link(f"/sys/class/infiniband/{device}", self.root / at.lstrip("/"))
        for role in ("np", "rp"):
            for priority in range(8):
                on = int(priority == 3)
                self.file(f"/sys/class/net/{name}/ecn/roce_{role}/enable/{priority}", f"{on}\n")
        self.file(f"/sys/class/net/{name}/ecn/roce_np/cnp_dscp", "48\n")
        self.file(f"/sys/class/net/{name}/ecn/roce_np/cnp_802p_prio", "6\n")

    def _system(self) -> None:
        files = {
            "/proc/sys/kernel/hostname": "gpu01",
            "/proc/sys/kernel/osrelease": "6.8.0-60-generic",
            "/proc/sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000001",
            "/proc/uptime": "86400.5 100.0",
            "/proc/meminfo": "MemTotal:       2113000000 kB\nSwapTotal:       8388604 kB",
            "/proc/cpuinfo": "model name\t: Intel(R) Xeon(R) Platinum 8480C",
            "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 secret=hunter2 intel_iommu=on iommu=pt",
            "/proc/modules": "mlx5_core 2000 1 - Live\next4 900 1 - Live\nib_core 400 2 - Live",
            "/proc/mounts": "10.9.9.2:/home /home nfs4 rw,vers=4.2,addr=10.9.9.2 0 0",
            "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  R",
            "/sys/class/dmi/id/sys_vendor": "Dell Inc.",
            "/sys/class/dmi/id/product_name": "PowerEdge XE9680",
            "/sys/class/dmi/id/product_serial": SERIAL,
            "/sys/devices/system/cpu/online": "0-55,112-167",
            "/sys/devices/system/node/online": "0-1",
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave",
            "/sys/module/ib_core/parameters/netns_mode": "N",
            "/sys/module/mlx5_core/refcnt": "2",
            "/sys/module/mlx5_core/version": "24.10-1.1.4",
            "/sys/module/mlx5_core/srcversion": "F00",
            "/etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nID=ubuntu\nVERSION_ID="24.04"\nID_LIKE=debian',
            "/run/reboot-required": "*** System restart required ***",
            "/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\ntopologyManagerPolicy: restricted\n",
            "/etc/netplan/60-rails.yaml": "network:\n  ethernets:\n    ens1np0:\n      mtu: 9000\n",
            "/etc/NetworkManager/system-connections/mgmt.nmconnection": (
                "[connection]\ninterface-name=eno1\n[802-1x]\npassword=hunter2\n[ipv4]\naddress1=192.0.2.11/24,192.0.2.1\n"
            ),
            "/run/systemd/network/10-netplan-ens1np0.network": (
                "[Match]\nName=ens1np0\n\n[Link]\nMTUBytes=9000\n\n[Network]\nAddress=10.11.0.1/16\n"
            ),
        }
        for path, text in files.items():
            self.file(path, f"{text}\n")

    def _programs(self) -> None:
        vfs = [{"vf": n, "link_type": "ether", "address": f"02:0{n}:00:00:00:00", "vlan_list": []} for n in range(2)]
        vfs[1]["vlan_list"] = [{"vlan": 111, "qos": 3}]
        links = [link("lo", "00:00:00:00:00:00"), link("eno1", "02:00:00:00:00:02")]
        links += [link("ens1np0", "02:00:00:00:00:00", vfinfo_list=vfs), link("ens2np0", "02:00:00:00:00:01")]
        bond = link("ens1np0.7", "02:00:00:00:00:00", link="ens1np0")
        links.append({**bond, "linkinfo": {"info_kind": "vlan", "info_data": {"protocol": "802.1Q", "id": 7}}})
        given = {"ens1np0": "10.11.0.1", "ens2np0": "10.12.0.1", "eno1": "192.0.2.11"}
        addresses = [
            link(name, "", addr_info=[{"family": "inet", "local": address, "prefixlen": 16, "scope": "global"}])
            for name, address in given.items()
        ]
        routes = [
            {"dst": "default", "gateway": "192.0.2.1", "dev": "eno1", "protocol": "static", "flags": []},
            {"dst": "10.12.0.0/16", "dev": "ens2np0", "table": "102", "prefsrc": "10.12.0.1", "flags": []},
            {"type": "local", "dst": "10.11.0.1", "dev": "ens1np0", "table": "local", "flags": []},
            {"dst": "10.244.9.0/26", "gateway": "192.0.2.12", "dev": "eno1", "protocol": "bird", "flags": []},
        ]
        rules = [{"priority": 0, "src": "all", "table": "local"}, {"priority": 32766, "src": "all", "table": "main"}]
        rules.append({"priority": 102, "src": "10.12.0.1", "table": "102"})
        peers = [{"dst": "10.11.0.2", "dev": "ens1np0", "lladdr": "02:00:00:00:01:00", "state": ["REACHABLE"]}]
        answers = {
            "-j -d link show": json.dumps(links),
            "-j addr show": json.dumps(addresses),
            "-j -4 route show table all": json.dumps(routes),
            "-j -6 route show table all": "",
            "-j -4 rule show": json.dumps(rules),
            "-j -6 rule show": "",
            "-j neigh show": json.dumps(peers),
            "route get 10.9.9.2": "10.9.9.2 via 192.0.2.1 dev eno1 src 192.0.2.11 uid 0",
        }
        self.program("ip", answers)
        pause = (TESTS / "hosts/recorded/ethtool-pause.txt").read_text()
        fec = (
            "FEC parameters for ens1np0:\nSupported/Configured FEC encodings: Auto RS BaseR\nActive FEC encoding: RS\n"
        )
        driver = "driver: igb\nversion: 6.8.0-60-generic\nfirmware-version: 1.67.0 (DEL_0000000026)\n"
        answers = {"ens1np0": MODES, "-S ens1np0": STATISTICS, "-a ens1np0": pause, "--show-fec ens1np0": fec}
        self.program(
            "ethtool", {**answers, "-i eno1": driver}, "echo netlink error: Operation not supported >&2; exit 1"
        )
        self.program("ibv_devinfo", {"-d mlx5_0": DEVINFO})
        self.program("modinfo", {"mlx5_core": MODINFO})
        self.program("ofed_info", {"-s": "OFED-internal-25.07-0.9.7:\n"})
        self.program("mlnx_qos", {"-i ens1np0": (TESTS / "hosts/written/mlnx_qos.txt").read_text()})
        self.program("journalctl", {"-k -b -q --no-pager -o cat -n 5000": KERNEL_LOG})
        self.program("lldpctl", {"-f json0": json.dumps({"lldp": [{"interface": [NEIGHBOUR]}]})})
        self.program(
            "devlink", {f"-j dev eswitch show pci/{FIRST}": f'{{"dev":{{"pci/{FIRST}":{{"mode":"legacy"}}}}}}'}
        )
        shown = "-p LoadState -p LimitMEMLOCK"
        self.program("systemctl", {f"show containerd.service {shown}": "LoadState=loaded\nLimitMEMLOCK=8388608\n"})
        query = (TESTS.parent / "samples/gpu/h100_idle.xml").read_text().replace("00000000:00:06.0", "00000000:1A:00.0")
        links = "".join(f"\t Link {number}: 26.562 GB/s\n" for number in range(18))
        self.program("nvidia-smi", {"-q -x": query, "nvlink -s": f"GPU 0: NVIDIA H100 (UUID: GPU-0)\n{links}"})


CONNECTX = {
    0x00: "b3 15 19 10 46 05 10 00 00 00 00 02 08 00 80 00",
    0x30: "00 00 70 e6 60 00 00 00 00 00 00 00 ff 01 00 00",
    0x40: "01 00 c3 81 08 00 00 00 03 9c cc 80 00 78 00 00",
    0x60: "10 48 02 00 e2 8f e0 11 5f 29 00 00 04 71 41 00",
    0x90: "04 00 1e 00 00 00 00 00 00 00 00 00 11 c0 3f 80",
    0xC0: "09 40 18 00 0a 00 00 20 f0 1a 00 00 00 00 00 00",
}
"""Lines of the dump up to 0x100: the capabilities PCI Express, VPD, MSI-X, vendor specific and power management."""


def connectx(**changed: str) -> bytes:
    """The configuration space of a NIC, with other bytes at the places `x68` and so on."""
    space = bytearray(4096)
    for at, line in {**CONNECTX, **{int(place[1:], 16): line for place, line in changed.items()}}.items():
        part = bytes.fromhex(line)
        space[at : at + len(part)] = part
    return bytes(space)


def acs(*, redirects: bool) -> bytes:
    """A configuration space with an ACS capability behind another one (PCI Express Base Specification, 7.7).

    0x1D is what Linux sets under an active IOMMU, 0x11 what `pci=disable_acs_redir=` leaves of it (drivers/pci/pci.c).
    """
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
    space[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
    space[0x14E:0x150] = (0x1D if redirects else 0x11).to_bytes(2, "little")
    return bytes(space)
