"""Recorded outputs (tests/samples/README.md says where each comes from)."""

from tests.conftest import ROOT


def perftest(name: str) -> str:
    return (ROOT / "tests" / "samples" / "perftest" / f"{name}.txt").read_text()


def nccl(name: str) -> str:
    return (ROOT / "tests" / "samples" / "nccl" / f"{name}.txt").read_text()
