"""What NICs and GPUs allow a collective: the ring, the bound for any algorithm, the GPU's links."""

import re
from math import ceil, floor, inf

from components.physics.pcie import PcieLink
from stacks.frozen import frozen
from stacks.safe_yaml import load_beside


@frozen
class GpuModel:
    """Links of a GPU in 10^9 bytes a second each way (data sheets of NVIDIA and AMD)."""

    name: str
    """Pattern in what the driver calls it."""
    nvlink_gbyte_s: float | None = None
    """All links of one GPU to the others of its node; None where some variants have none."""
    host_generation: int | None = None
    """PCIe generation of its x16 link, over which a NIC reaches its memory; None for NVLink-C2C."""
    in_switch: bool = False
    """NVSwitch adds up for it (NVLink SHARP), so that its traffic within a node halves."""
    rack: bool = False
    """NVLink joins nodes of one rack (NVL72)."""


_ROWS = load_beside(__file__, "gpu_models.yaml")
GPU_MODELS = [GpuModel(**row) for row in _ROWS]
MOST_RANKS = 1 << 20
OVER_ALL_NICS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""Collectives whose rings share all NICs of a node."""
GTRANSFERS_OF = {3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


def gpu_model(name: str) -> GpuModel | None:
    """The model of a GPU as its driver calls it; None for one that is not listed."""
    for model in GPU_MODELS:
        if re.search(model.name, name):
            return model
    return None


def slot_gbit_s(generation: int, lanes: int = 16) -> float:
    """Payload of a slot each way, in 10^9 bits a second, with packets of 256 bytes."""
    return PcieLink(gtransfers_s=GTRANSFERS_OF[generation], lanes=lanes).payload_gbit_s()


@frozen
class Collective:
    """A collective over GPUs that are spread evenly over nodes."""

    name: str
    ranks: int
    nodes: int

    def ring_gbyte_s(self, node_gbyte_s: float) -> float:
        """The busbw of a ring when each node has this much to the others, each way.

        Where ranks only exchange with certain others, a GPU may reach no more than its share.
        """
        if self.name in OVER_ALL_NICS:
            return node_gbyte_s
        per_node = max(self.ranks // self.nodes, 1)
        if self.name == "alltoall":
            return node_gbyte_s / per_node * (self.ranks - 1) / max(self.ranks - per_node, 1)
        return node_gbyte_s / per_node

    def bound_gbyte_s(self, node_gbyte_s: float) -> float:
        """The busbw that no algorithm exceeds as long as the network only carries data.

        A node has to send and to receive (k-1)/k of what its ranks exchange, whatever the order:
        busbw <= B ((n-1)/n) / ((k-1)/k) for n ranks on k nodes.
        """
        if self.nodes < 2:
            return inf
        if self.name in ("all_reduce", "all_gather", "reduce_scatter"):
            return node_gbyte_s * (self.ranks - 1) / self.ranks * self.nodes / (self.nodes - 1)
        if self.name == "alltoall":
            return self.ring_gbyte_s(node_gbyte_s)
        return node_gbyte_s

    def in_network_gbyte_s(self, node_gbyte_s: float) -> float:
        """What not even switches that add up exceed: each node sends and receives all data once."""
        bound = self.bound_gbyte_s(node_gbyte_s)
        if self.name == "all_reduce":
            return max(bound, 2 * node_gbyte_s * (self.ranks - 1) / self.ranks)
        return bound


def busbw_factor(name: str, ranks: int) -> float:
    """The busbw divided by algbw (nccl-tests doc/PERFORMANCE.md)."""
    if name == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if name in ("all_gather", "reduce_scatter", "alltoall"):
        return (ranks - 1) / ranks
    return 1.0


def ranks_of(name: str, least: float, most: float) -> range:
    """The numbers of ranks whose factor lies in what the rounded columns of a table allow."""
    whole = 2.0 if name == "all_reduce" else 1.0
    if busbw_factor(name, 2) == busbw_factor(name, 3) or least >= whole:
        return range(0)
    first = max(2, ceil(whole / (whole - least) - 1e-6))
    if most >= whole:
        last = MOST_RANKS
    else:
        last = floor(whole / (whole - most) + 1e-6)
    return range(first, min(last, MOST_RANKS) + 1)
