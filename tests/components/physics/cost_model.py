"""NCCL's published cost model of a ring all-reduce, line by line: the tests' own copy of its numbers.

NCCL 2.30.7, src/graph/tuning.cc: `ncclTopoTuneModel` (latencies of the ring), `ncclTopoGetAlgoTime`.
"""


def all_reduce_s(message_bytes: int, ring_gbyte_s: float, nodes: int, gpus: int, cpu_vendor: str) -> float:
    """Seconds of an all-reduce with protocol Simple over NVLink and the network.

    Args:
        message_bytes: on each GPU.
        ring_gbyte_s: bandwidth of the ring over all channels, which the model calls busBw.
        nodes: at least two.
        gpus: per node.
        cpu_vendor: as /proc/cpuinfo has it.
    """
    ranks = nodes * gpus
    steps, between_steps = 2 * (ranks - 1), 2 * (nodes - 1)
    overhead_us = 3 * (2.0 if cpu_vendor == "AuthenticAMD" else 1.0)
    latency_us = 8.4
    latency_us += (steps - between_steps) * max(3.4, overhead_us) + between_steps * 14.0
    algbw_gbyte_s = ring_gbyte_s * ranks / steps
    return latency_us * 1.4 / 1e6 + message_bytes / 1e9 / algbw_gbyte_s
