"""Times MPI's all-reduce on CPUs. The job carries this text to the ranks, so their image needs no
program of rocelab.

It prints the columns of nccl-tests, so one parser reads both. Runs on Python 3.8 with mpi4py alone.
"""

import sys
from array import array
from operator import ne
from typing import Any

PERIOD = 251
"""A prime: a block of another place never has the same values."""
ITERATIONS = 20
"""As many as nccl-tests makes by default, after one to warm up."""


def pattern(elements: int, first: int, step: int) -> "array[float]":
    """So many float32, with values that every sum of them keeps exactly."""
    values = array("f", [first + step * place for place in range(PERIOD)])
    times, rest = divmod(elements, PERIOD)
    return values * times + values[:rest]


def measure(world: Any, elements: int) -> "tuple[float, int]":
    """Seconds of one all-reduce, the slowest rank's mean, and how many elements came out wrong."""
    ranks = world.Get_size()
    mine, sums = pattern(elements, world.Get_rank(), 1), array("f", bytes(4 * elements))
    world.Allreduce(mine, sums)
    world.Barrier()
    begun = MPI.Wtime()
    for _ in range(ITERATIONS):
        world.Allreduce(mine, sums)
    took_s = (MPI.Wtime() - begun) / ITERATIONS
    right = pattern(elements, ranks * (ranks - 1) // 2, ranks)
    wrong = 0 if sums == right else sum(map(ne, sums, right))
    return world.allreduce(took_s, op=MPI.MAX), world.allreduce(wrong)


def main(smallest_bytes: int, largest_bytes: int) -> None:
    """Measures sizes that double."""
    world = MPI.COMM_WORLD
    ranks, names = world.Get_size(), world.gather(MPI.Get_processor_name())
    if names:
        print(f"# all-reduce of {ranks} ranks on CPUs, {MPI.Get_library_version().split(',')[0]}")
        for rank, name in enumerate(names):
            print(f"#  Rank {rank:2d} on {name}")
        print(
            "#       size         count      type   redop    root       time     algbw     busbw  "
            "#wrong"
        )
        print(
            "#        (B)    (elements)                              (us)    (GB/s)    (GB/s)",
            flush=True,
        )
    speeds, wrong_sizes, size = [], 0, smallest_bytes
    while size <= largest_bytes:
        took_s, wrong = measure(world, size // 4)
        algbw = size / took_s / 1e9
        speeds.append(algbw * 2 * (ranks - 1) / ranks)
        wrong_sizes += wrong > 0
        if names:
            numbers = f"{took_s * 1e6:>9.2f}  {algbw:>8.6f}  {speeds[-1]:>8.6f}  {wrong:>6d}"
            print(f"{size:>12d}  {size // 4:>12d}     float     sum      -1  {numbers}", flush=True)
        size *= 2
    if names:
        print(f"# Out of bounds values : {wrong_sizes} {'FAILED' if wrong_sizes else 'OK'}")
        print(f"# Avg bus bandwidth    : {sum(speeds) / len(speeds):.6f}", flush=True)


if __name__ == "__main__":
    from mpi4py import MPI  # type: ignore[import-not-found]

    main(int(sys.argv[1]), int(sys.argv[2]))
