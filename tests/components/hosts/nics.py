"""A host whose PFs are NVIDIA NICs: what `mlnx_qos`, `dcb`, `ethtool` and the driver's files answer and take.

Nothing here was seen on hardware. `mlnx_qos` prints as on hosts of public notes (MLNX_OFED 5 and later): the line of
DCBX, eight code points in a line, and no mapping while a port trusts PCP. `dcb` prints as iproute2's dcb/*.c; what
mlx5 does on a set is drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c.
"""

import errno
import json
from pathlib import Path
from typing import Any

from components.hosts.document import host_document
from components.hosts.program.machine import Done
from stacks.lab import Lab
from tests.components.hosts.kernel import PFS, FakeHost, done

DEVICES = {"enp5s0": "mlx5_0", "enp132s0": "mlx5_1"}
RECORDED = Path(__file__).with_name("recorded")
CONFIGFS = "sys/kernel/config/rdma_cm"


class NicHost(FakeHost):
    """Two ConnectX PFs; `tool` is what is installed: `mlnx_qos`, `dcb`, or nothing."""

    def __init__(self, root: Path, tool: str, supported: bool = True) -> None:
        super().__init__(root)
        self.tool, self.supported = tool, supported
        firmware = {dscp: dscp >> 3 for dscp in range(64)} if tool == "mlnx_qos" else {}
        self.ports: dict[str, dict[str, Any]] = {
            pf: {
                "dcbx": "os",
                "trust": "pcp",
                "map": {**firmware},
                "pfc": set(),
                "autoneg": "off",
                "rx": "on",
                "tx": "on",
            }
            for pf in PFS
        }
        (root / CONFIGFS).mkdir(parents=True)
        for pf in PFS:
            device = self.driver(pf, "mlx5_core")
            (device / "infiniband" / DEVICES[pf]).mkdir(parents=True)
            (root / "sys/class/infiniband" / DEVICES[pf]).mkdir()
            if tool == "mlnx_qos":
                self.file(f"/sys/class/infiniband/{DEVICES[pf]}/tc/1/traffic_class", "")
                for role in ("np", "rp"):
                    for priority in range(8):
                        self.file(f"/sys/class/net/{pf}/ecn/roce_{role}/enable/{priority}", "0")
                self.file(f"/sys/class/net/{pf}/ecn/roce_np/cnp_dscp", "4")
                self.file(f"/sys/class/net/{pf}/ecn/roce_np/cnp_802p_prio", "6")

    def make_folder(self, path: str) -> None:
        if path.startswith(f"/{CONFIGFS}/") and not self.exists(path):
            device = path.rpartition("/")[2]
            if device not in DEVICES.values() and device not in self.soft:
                raise OSError(errno.ENODEV, "No such device", path)
            self.file(f"{path}/ports/1/default_roce_mode", "RoCE v2\n")
            self.file(f"{path}/ports/1/default_roce_tos", "0\n")
            return
        super().make_folder(path)

    def remove(self, path: str) -> bool:
        if path.startswith(f"/{CONFIGFS}/") and self.exists(path):
            for entry in ("default_roce_mode", "default_roce_tos"):
                (self.folder / path.lstrip("/") / "ports/1" / entry).unlink()
            (self.folder / path.lstrip("/") / "ports/1").rmdir()
            (self.folder / path.lstrip("/") / "ports").rmdir()
        return super().remove(path)

    def write(self, path: str, value: str) -> None:
        if path.endswith("/traffic_class"):
            self.written.append((path, value))
            forced = "" if value == "-1" else f"Global tclass={value}\n"
            (self.folder / path.lstrip("/")).write_text(forced)
            return
        super().write(path, value)

    def answer(self, words: tuple[str, ...]) -> Done | None:
        if words[0] in ("mlnx_qos", "dcb"):
            if words[0] != self.tool:
                return Done(127, "", f"{words[0]} is not installed")
            return self._mlnx_qos(words[2], words[3:]) if words[0] == "mlnx_qos" else self._dcb(words[1:])
        if words[0] == "ethtool":
            port = self.ports[words[2]]
            if words[1] == "-A":
                port.update(zip(words[3::2], words[4::2], strict=True))
            names = {"autoneg": "Autonegotiate", "rx": "RX", "tx": "TX"}
            shown = "".join(f"{name}:\t\t{port[key]}\n" for key, name in names.items())
            return done(f"Pause parameters for {words[2]}:\n{shown}\n")
        return None

    def _mlnx_qos(self, pf: str, options: tuple[str, ...]) -> Done:
        port = self.ports[pf]
        for option in options:
            name, _, value = option.partition("=")
            if name == "--dcbx":
                port["dcbx"] = {"os": "os", "fw": "firmware"}[value]
            elif name == "--trust":
                port["trust"] = value
            elif name == "--pfc":
                port["pfc"] = {number for number, on in enumerate(value.split(",")) if on == "1"}
            elif name == "--dscp2prio":
                _, dscp, priority = value.split(",")
                assert port["trust"] == "dscp", "mlnx_qos maps code points of a port that trusts them"
                port["map"][int(dscp)] = int(priority)
            else:
                return Done(2, "", f"no such option: {option}")
        mode = {"os": "OS", "firmware": "Firmware"}[port.get("dcbx", "os")]
        lines = [f"DCBX mode: {mode} controlled", f"Priority trust state: {port['trust']}"]
        if port["trust"] == "dscp":  # a port that trusts PCP shows no mapping
            lines.append("dscp2prio mapping:")
            for priority in range(8):
                mapped = [f"{dscp:02}" for dscp in sorted(port["map"], reverse=True) if port["map"][dscp] == priority]
                lines += [f"\tprio:{priority} dscp:{','.join(mapped[i : i + 8])}," for i in range(0, len(mapped), 8)]
        enabled = "   ".join(str(int(priority in port["pfc"])) for priority in range(8))
        lines += ["default priority:", "Receive buffer size (bytes): 130944,130944,0,0,0,0,0,0,", "Cable len: 7"]
        lines += ["PFC configuration:", "\tpriority    0   1   2   3   4   5   6   7", f"\tenabled     {enabled}   "]
        return done("\n".join(lines) + "\n")

    def _dcb(self, words: tuple[str, ...]) -> Done:
        if not self.supported:
            return Done(1, "", (RECORDED / "dcb-unsupported.txt").read_text())
        match words:
            case ("-j", "dcbx", "show", "dev", pf):
                host = {"host": True} if self.ports[pf].get("dcbx", "os") == "os" else {}
                return done(json.dumps({**host, "cee": True, "ieee": True}))
            case ("dcbx", "set", "dev", pf, *flags):
                assert flags, "without a flag it prints its usage and sets nothing"
                self.ports[pf]["dcbx"] = "os" if "host" in flags else "firmware"
            case ("-j", "pfc", "show", "dev", pf):
                return done(json.dumps({"prio_pfc": [n in self.ports[pf]["pfc"] for n in range(8)]}))
            case ("-j", "-N", "app", "show", "dev", pf, "dscp-prio"):
                entries = [[dscp, priority, " "] for dscp, priority in sorted(self.ports[pf]["map"].items())]
                return done(json.dumps({"dscp_prio": entries} if entries else {}))
            case ("app", "replace", "dev", pf, "dscp-prio", *pairs):
                self.ports[pf]["map"].update({int(d): int(p) for d, _, p in (pair.partition(":") for pair in pairs)})
            case ("app", "flush", "dev", pf, "dscp-prio"):
                self.ports[pf]["map"] = {}
            case ("pfc", "set", "dev", pf, "prio-pfc", "all:off", *on):
                self.ports[pf]["pfc"] = {int(pair.partition(":")[0]) for pair in on}
            case _:
                raise AssertionError(f"dcb does not know {words}")
        return done()


def hardware(lab: Lab, **qos: object) -> dict[str, Any]:
    """The document of a node with NVIDIA NICs, and quality of service."""
    given = lab.model_dump(mode="json")
    given["qos"] = qos
    for pf in given["nodes"][0]["pfs"]:
        pf.update(driver="mlx5_core", rdma_device=DEVICES[pf["interface"]], vfs=2)
    changed = Lab.model_validate(given)
    return host_document(changed, changed.nodes[0])
