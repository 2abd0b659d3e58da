"""Recorded outputs (tests/samples/README.md says where each comes from)."""

from tests.conftest import ROOT


def perftest(name: str) -> str:
    return (ROOT / "tests" / "samples" / "perftest" / f"{name}.txt").read_text()


def nccl(name: str) -> str:
    return (ROOT / "tests" / "samples" / "nccl" / f"{name}.txt").read_text()


RANKS = "".join(
    f"#   Rank {rank:2d} Pid {1000 + rank:6d} on gpu device {rank % 8:2d} [0x3b] V100\n" for rank in range(16)
)
"""What nccl-tests prints first (src/util.cu) and the DeepOps guide leaves out of its 16 ranks' log."""


def sample(name: str) -> str:
    """Any sample by its path below tests/samples."""
    return (ROOT / "tests" / "samples" / name).read_text()


def composed(name: str) -> str:
    """Text put together from a tool's documented format, where there is no recording."""
    return sample(f"composed/{name}")
