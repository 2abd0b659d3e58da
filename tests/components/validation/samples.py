"""Recorded outputs (tests/samples/README.md says where each comes from)."""

from tests.conftest import ROOT


def perftest(name: str) -> str:
    return (ROOT / "tests" / "samples" / "perftest" / f"{name}.txt").read_text()


def nccl(name: str) -> str:
    return (ROOT / "tests" / "samples" / "nccl" / f"{name}.txt").read_text()


def sample(name: str) -> str:
    """Any sample by its path below tests/samples."""
    return (ROOT / "tests" / "samples" / name).read_text()


def composed(name: str) -> str:
    """Text put together from a tool's documented format, where there is no recording."""
    return sample(f"composed/{name}")
