"""Reads and sets a NIC's quality of service in both forms: with NVIDIA's tools, and with the
kernel's own.

NVIDIA's (MLNX_OFED, DOCA): `mlnx_qos`, and sysfs below the netdev and the RDMA device. The
kernel's: `dcb` of iproute2, and debugfs of mlx5. The defaults of rdma_cm are in configfs in both;
NVIDIA's `cma_roce_*` write there too. An aspect is a short text; an aspect that this host can
neither show nor set is left out.
"""

import json
import os
import re
from typing import Any, Dict, List, Tuple

from .host import Host
from .machine import MISSING, Done, Machine, StepError, first_match

Aspects = Dict[str, str]

RDMA_CM = "/sys/kernel/config/rdma_cm"
MODE, TOS = "default_roce_mode", "default_roce_tos"
PAUSE = {"autoneg": "Autonegotiate", "rx": "RX", "tx": "TX"}
"""Words that `ethtool -A` takes, and that `ethtool -a` prints for them."""
UNSUPPORTED = "not supported"
"""By the NIC or its driver: `dcb` prints this for most NICs other than NVIDIA's."""
MLNX_QOS, DCB = "mlnx_qos", "dcb"
OS, FIRMWARE = "os", "firmware"
"""Who decides a port's trust, priorities and flow control: with firmware its DCBX may overrule all
that is set here."""
DCBX_WORDS = {OS: "os", FIRMWARE: "fw"}
"""As `mlnx_qos --dcbx=` takes them. `dcb dcbx set` has no word for firmware: without a flag it
prints its usage."""
NO_TOOL = "unknown: neither mlnx_qos nor dcb is installed"


def priorities_text(numbers: List[int]) -> str:
    """Priorities with flow control, as a field shows them."""
    return " ".join(str(number) for number in numbers) or "none"


def map_text(mapping: Dict[int, int]) -> str:
    """Code points with their priorities, as a field shows them."""
    return " ".join(f"{dscp}:{mapping[dscp]}" for dscp in sorted(mapping))


def map_of(text: str) -> Dict[int, int]:
    """The inverse of `map_text`."""
    return {int(pair.partition(":")[0]): int(pair.partition(":")[2]) for pair in text.split()}


def port_aspects(host: Host, pf: str) -> Tuple[str, Aspects]:
    """The tool that this host has for a port, and what it shows: DCBX, trust, map of code points,
    flow control.
    """
    done = host.machine.run("mlnx_qos", "-i", pf)
    if done.code == 0:
        return MLNX_QOS, parse_mlnx_qos(done.out)
    flow = host.machine.run("dcb", "-j", "pfc", "show", "dev", pf)
    marks = host.machine.run("dcb", "-j", "-N", "app", "show", "dev", pf, "dscp-prio")
    if flow.code or marks.code:
        missing = MISSING in (flow.code, marks.code)
        reason = (
            NO_TOOL
            if missing
            else UNSUPPORTED
            if _is_unsupported(flow, marks)
            else "unknown: dcb fails"
        )
        return "", {"trust": reason, "dscp_map": reason, "pfc": reason}
    aspects = parse_dcb(flow.out, marks.out)
    flags = _dcbx_flags(host, pf)
    return DCB, {**aspects, **({"dcbx": OS if "host" in flags else FIRMWARE} if flags else {})}


def set_port(host: Host, pf: str, tool: str, target: Aspects) -> None:
    """Sets aspects of a port, DCBX first: as long as firmware decides, it overrules the rest."""
    if tool == MLNX_QOS:
        _set_by_mlnx_qos(host.machine, pf, target)
    else:
        _set_by_dcb(host, pf, target)


def _set_by_mlnx_qos(machine: Machine, pf: str, target: Aspects) -> None:
    """Trust before the map, since it maps code points of a port that trusts them."""

    def put(option: str) -> None:
        machine.must(MLNX_QOS, "-i", pf, option)

    if "dcbx" in target:
        put(f"--dcbx={DCBX_WORDS[target['dcbx']]}")
    if target.get("trust") == "dscp":
        put("--trust=dscp")
    for dscp, priority in sorted(map_of(target.get("dscp_map", "")).items()):
        put(f"--dscp2prio=set,{dscp},{priority}")
    if "pfc" in target:
        paused = target["pfc"].split()
        put("--pfc=" + ",".join(str(int(str(priority) in paused)) for priority in range(8)))
    if target.get("trust", "dscp") != "dscp":
        put(f"--trust={target['trust']}")


def _set_by_dcb(host: Host, pf: str, target: Aspects) -> None:
    must = host.machine.must
    if target.get("dcbx") == OS:
        versions = [flag for flag in _dcbx_flags(host, pf) if flag in ("cee", "ieee")]
        must("dcb", "dcbx", "set", "dev", pf, "host", *versions)
    if target.get("trust") == "pcp":
        # the driver trusts code points for as long as its table has one
        must("dcb", "app", "flush", "dev", pf, "dscp-prio")
    if target.get("dscp_map"):
        must("dcb", "app", "replace", "dev", pf, "dscp-prio", *target["dscp_map"].split())
    if "pfc" in target:
        on = [f"{priority}:on" for priority in target["pfc"].split() if priority != "none"]
        must("dcb", "pfc", "set", "dev", pf, "prio-pfc", "all:off", *on)


def parse_mlnx_qos(text: str) -> Aspects:
    dcbx = first_match(r"DCBX mode:\s*(OS|Firmware) controlled", text)
    enabled = first_match(r"^\s*enabled((?:\s+[01])+)\s*$", text)
    mapping = {}
    for line in re.finditer(r"prio:(\d)\s+dscp:([\d,]+)", text):
        for dscp in line[2].split(","):
            if dscp:
                mapping[int(dscp)] = int(line[1])
    aspects = {
        "trust": first_match(r"Priority trust state:\s*(\w+)", text) or "unknown",
        "dscp_map": map_text(mapping),
        "pfc": "unknown",
    }
    if dcbx:
        aspects["dcbx"] = dcbx.lower()
    if enabled:
        aspects["pfc"] = priorities_text(
            [number for number, on in enumerate(enabled.split()) if on == "1"]
        )
    return aspects


def parse_dcb(flow: str, marks: str) -> Aspects:
    """What `dcb -j pfc show` and `dcb -j app show` print. A port with a code point in its table
    trusts code points.
    """
    try:
        enabled: List[bool] = json.loads(flow)["prio_pfc"]
        # an entry is [code point, priority, " "]: the tool prints its own separator into its JSON
        entries: List[List[Any]] = json.loads(marks or "{}").get("dscp_prio", [])
        mapping = {int(entry[0]): int(entry[1]) for entry in entries}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return {"trust": "unknown", "dscp_map": "", "pfc": "unknown"}
    return {
        "trust": "dscp" if mapping else "pcp",
        "dscp_map": map_text(mapping),
        "pfc": priorities_text([number for number, on in enumerate(enabled) if on]),
    }


def _dcbx_flags(host: Host, pf: str) -> List[str]:
    """Flags that `dcb dcbx show` names, `host` when the OS decides; none where the driver has no
    DCBX.
    """
    done = host.machine.run("dcb", "-j", "dcbx", "show", "dev", pf)
    try:
        document = {} if done.code else json.loads(done.out or "{}")
        return [str(flag) for flag, on in document.items() if on is True]
    except (ValueError, AttributeError):
        return []


def pause_aspect(host: Host, pf: str) -> Aspects:
    """Global pause, which stops all traffic where priority flow control stops one class; both at
    once is a fault.
    """
    done = host.machine.run("ethtool", "-a", pf)
    settings = dict(re.findall(r"^(Autonegotiate|RX|TX):\s+(on|off)", done.out, re.MULTILINE))
    if done.code or len(settings) < 3:
        return {}
    on = [word for word, name in PAUSE.items() if settings[name] == "on"]
    return {"global_pause": " ".join(on) if {"rx", "tx"} & set(on) else "off"}


def set_pause(host: Host, pf: str, value: str) -> None:
    """Sets global pause. Off also means without autonegotiation, or the link partner could switch
    it on.
    """
    words = [word for name in PAUSE for word in (name, "on" if name in value.split() else "off")]
    host.machine.must("ethtool", "-A", pf, *words)


def rdma_cm_aspects(host: Host, device: str) -> Aspects:
    """Defaults of connections that rdma_cm makes; known once the device has its folder in
    configfs.
    """
    ports = f"{RDMA_CM}/{device}/ports/1"
    mode, tos = host.machine.read(f"{ports}/{MODE}"), host.machine.read(f"{ports}/{TOS}")
    return {"roce_mode": mode or "default", "roce_tos": tos or "default"}


def set_rdma_cm(host: Host, device: str, aspects: Aspects) -> None:
    open_rdma_cm(host, device)
    for aspect, file in (("roce_mode", MODE), ("roce_tos", TOS)):
        if aspect in aspects:
            host.machine.write(f"{RDMA_CM}/{device}/ports/1/{file}", aspects[aspect])


def open_rdma_cm(host: Host, device: str) -> None:
    """Makes the folder by which configfs shows a device."""
    machine = host.machine
    if not machine.exists(RDMA_CM):
        machine.run("mount", "-t", "configfs", "configfs", os.path.dirname(RDMA_CM))
    if not machine.exists(RDMA_CM):
        raise StepError(
            f"{RDMA_CM} is missing",
            "modprobe rdma_cm; the kernel needs INFINIBAND_ADDR_TRANS_CONFIGFS",
        )
    try:
        machine.make_folder(f"{RDMA_CM}/{device}")
    except OSError as error:
        raise StepError(
            f"rdma_cm takes no settings for {device}: {error.strerror}", "rdma link shows devices"
        ) from None


def nic_aspects(host: Host, pf: str, device: str, priority: int) -> Aspects:
    """What only files show: congestion control of a priority, its notifications, the class forced
    on all traffic.
    """
    machine, aspects = host.machine, {}
    ecn = f"/sys/class/net/{pf}/ecn"
    enabled = [machine.read(f"{ecn}/roce_{role}/enable/{priority}") for role in ("np", "rp")]
    if all(enabled):
        aspects["ecn"] = f"np={enabled[0]} rp={enabled[1]}"
    dscp, cnp_priority = (machine.read(path) for path in cnp_files(host, pf))
    if dscp and cnp_priority:
        aspects["cnp"] = f"{dscp}:{cnp_priority}"
    file = f"/sys/class/infiniband/{device}/tc/1/traffic_class"
    if machine.exists(file):
        aspects["traffic_class"] = str(traffic_class(machine.read(file)))
    return aspects


def traffic_class(text: str) -> int:
    """`Global tclass=106`; -1 when nothing is forced, which is also the value that ends it."""
    return int(first_match(r"Global tclass=(\d+)", text) or -1)


def cnp_files(host: Host, pf: str) -> List[str]:
    """Files with code point and priority of congestion notifications: NVIDIA's, or mlx5's
    debugfs.
    """
    nvidia = f"/sys/class/net/{pf}/ecn/roce_np"
    if host.machine.exists(nvidia):
        return [f"{nvidia}/cnp_dscp", f"{nvidia}/cnp_802p_prio"]
    kernel = f"/sys/kernel/debug/mlx5/{host.pci_address(pf)}/cc_params"
    return [f"{kernel}/np_cnp_dscp", f"{kernel}/np_cnp_prio"]


def _is_unsupported(*ended: Done) -> bool:
    return any("not supported" in done.err.lower() for done in ended if done.code)
