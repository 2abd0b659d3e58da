"""What lines of a log say of causes: one list for a lab's verdict and for `rocelab judge`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSign:
    """A cause that shows in a line of text."""

    code: str
    pattern: re.Pattern[str]
    evidence: str
    hint: str = ""


GPUDIRECT_HINT = (
    "look for nvidia_peermem or DMA-BUF on the hosts, and for a NIC and GPU under one PCIe switch"
)
GPU_PEERS_HINT = (
    "check nvidia-smi topo -p2p r, ACS and IOMMU, and NCCL_P2P_DISABLE or NCCL_P2P_LEVEL"
)
LOG_SIGNS = (
    LogSign(
        code="GPU_FAULT",
        pattern=re.compile(r"NVRM: Xid|Xid \(PCI|Xid \d|MMU fault"),
        evidence="the GPU reported a fault",
        hint="dmesg | grep -i xid",
    ),
    LogSign(
        code="NET_ERROR",
        pattern=re.compile(r"NCCL WARN.*(?:completion|error|timeout|failed)", re.IGNORECASE),
        evidence="NCCL reports an error of the network",
    ),
    LogSign(
        code="VIRTUAL_MACHINE",
        pattern=re.compile(r"hypervisor|\bKVM\b|QEMU|VMware|virtual machine", re.IGNORECASE),
        evidence="a virtual machine: without ATS, NIC and GPU reach each other through the CPU",
        hint="lspci -vvv | grep -E 'ATSCtl|ACSCtl'",
    ),
    LogSign(
        code="ACS",
        pattern=re.compile(
            r"\bACSCtl:.*(?:ReqRedir|CmpltRedir|EgressCtrl)\+|\bACS\b.*(?:enabled|on\b)"
        ),
        evidence="ACS sends peer-to-peer traffic through the CPU",
        hint="lspci -vvv | grep ACSCtl",
    ),
    LogSign(
        code="ECE",
        pattern=re.compile(r"\bECE\b"),
        evidence="congestion control negotiated by ECE collapses on some RoCE bonds",
        hint="UCX_RC_ECE=0",
    ),
    LogSign(
        code="BOND",
        pattern=re.compile(r"\bbond|\blag\b|_bond_", re.IGNORECASE),
        evidence="a flow uses one port of a bond",
        hint="NCCL_IB_QPS_PER_CONNECTION=4 NCCL_IB_SPLIT_DATA_ON_QPS=1, or ib_write_bw -q 8",
    ),
    LogSign(
        code="NO_FLOW_CONTROL",
        pattern=re.compile(r"flow control", re.IGNORECASE),
        evidence="packets are dropped without PFC or ECN",
        hint="ethtool -S IFACE | grep -E 'discard|pause'",
    ),
    LogSign(
        code="SHARP",
        pattern=re.compile(
            r"(?<!NVLink )\bSHARP\b|COLLNET_ENABLE[= ]+1\b|\bCOLLNET(?:CHAIN|DIRECT)"
        ),
        evidence="switches may add up for the GPUs",
    ),
    LogSign(
        code="GPUDIRECT_OFF",
        pattern=re.compile(r"NET/IB.*GPU Direct RDMA Disabled"),
        evidence="NCCL does not use GPUDirect",
        hint=GPUDIRECT_HINT,
    ),
)
FAILURES = ("GPU_FAULT", "NET_ERROR")
LONGEST_LINE = 120


def signs_in(text: str) -> Iterator[tuple[LogSign, str]]:
    """Each sign with the first line that shows it."""
    for sign in LOG_SIGNS:
        match = sign.pattern.search(text)
        if match is not None:
            begin = text.rfind("\n", 0, match.start()) + 1
            line = text[begin:].partition("\n")[0].strip()
            yield sign, line[:LONGEST_LINE]


def reasons_in(text: str) -> list[str]:
    """Why a run gave no number, as its log has it."""
    return [f"{sign.evidence} ({line})" for sign, line in signs_in(text) if sign.code in FAILURES]
