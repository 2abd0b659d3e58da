"""Hosts that answer as the recorded ones did, and a measurement of them."""

import asyncio

from components.ssh.credentials import LabAccess
from components.validation.benchmarks.plan import Plan
from components.validation.measuring import measure
from components.validation.records import RunRecord
from stacks.lab import Lab
from tests.components.validation.fakes import (
    Host,
    Process,
    answering,
    held,
    reaching,
    running,
    serving,
)
from tests.components.validation.labs import changed, plan_for
from tests.conftest import ROOT

SAMPLES = ROOT / "tests" / "samples" / "lab"
RECORDED = (SAMPLES / "bench_gpu02.json").read_text()
PORTS = RECORDED.replace("0a0a:0b0c", "0a0a:0b0b").replace("0a0a:0c0c", "0a0a:0c0b")
"""Of gpu01, with its addresses."""


def said(rail: str, client: str, server: str, role: str) -> str:
    return (SAMPLES / f"{rail}_{client}-to-{server}.{role}.txt").read_text()


def ports_of(name: str) -> str:
    return PORTS if name == "gpu01" else RECORDED


def good_host(name: str, peer: str) -> Host:
    """A host that answers with what the real ones said."""

    async def client(process: Process, words: list[str]) -> None:
        await answering(said("rail-a" if "rxe0" in words else "rail-b", name, peer, "client"))(process, words)

    async def server(process: Process, words: list[str]) -> None:
        await serving(said("rail-a" if "rxe0" in words else "rail-b", peer, name, "server"))(process, words)

    ports = ports_of(name)
    programs = {
        "lease": held,
        "facts": answering(ports),
        "reach": reaching,
        "client": client,
        "server": server,
    }
    return Host(name, programs)


def two_hosts() -> list[Host]:
    return [good_host("gpu01", "gpu02"), good_host("gpu02", "gpu01")]


def without_nccl(lab: Lab, timeout_s: int = 60) -> Plan:
    assert lab.benchmarks
    # the recorded runs sent 500 messages
    only = {"tests": ("ib_write_bw",), "sizes": ()}
    verbs = lab.benchmarks.verbs.model_copy(update={"timeout_s": timeout_s, "iterations": 500, **only})
    return plan_for(changed(lab, nccl=None, verbs=verbs))


def run(
    plan: Plan, hosts: list[Host], *, wrong_key_on: str = "", most_sessions: int = 10
) -> tuple[RunRecord, list[str]]:
    lines: list[str] = []

    async def whole() -> RunRecord:
        async with running(hosts, wrong_key_on=wrong_key_on, most_sessions=most_sessions) as login:
            done = await measure(plan, LabAccess(login=login, kubeconfig=None), lines.append)
            return done.record

    return asyncio.run(whole()), lines


def with_stderr(text: str, code: int):  # type: ignore[no-untyped-def]  # a Program
    async def program(process: Process, _words: list[str]) -> None:
        process.stderr.write(text)
        process.exit(code)

    return program
