"""What NCCL's own log tells of a slow or lucky network, as hints. Pure."""

from collections.abc import Iterator

from components.validation.planning.plan import Plan
from components.validation.records import RunRecord
from components.validation.summary import Finding


def network_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Channels off their rail, GPUDirect that is not used, and an algorithm for which the ceiling is another one.

    A recorded log comes from other machines: nothing is found in it.
    """
    nccl = record.nccl
    if nccl is None or nccl.replayed:
        return
    if nccl.off_rail:
        yield Finding(
            code="WRONG_RAIL",
            where="nccl_all_reduce",
            evidence="; ".join(nccl.off_rail[:2]),
            hint="see in the job's log whether NCCL_IB_HCA lists the rails' devices in the same order on every node",
        )
    direct = nccl.network.get("gpu_direct")
    if plan.nccl and plan.nccl.gpu_direct and direct in {"some", "none"}:
        yield Finding(
            code="GPUDIRECT_OFF",
            where="nccl_all_reduce",
            evidence=f"{'no channel' if direct == 'none' else 'only some channels'} over the network with GDRDMA",
            hint="look for nvidia_peermem or DMA-BUF on the hosts, and for a NIC and GPU under one PCIe switch",
        )
    algorithm = nccl.network.get("algorithm")
    if algorithm is not None and algorithm != "Ring":
        yield Finding(
            code="ALGORITHM_NOT_PINNED",
            where="nccl_all_reduce",
            evidence=f"NCCL_ALGO is {algorithm}, and the ceiling is that of a ring",
            hint="other algorithms move less over the network, so that a broken rail can hide behind them",
        )
