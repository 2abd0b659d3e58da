"""A run by hand: measures a lab, keeps the raw outputs, and judges them by this run alone. It
changes no state.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from components.ssh.credentials import LabAccess, Setting, access_to
from components.stack import Stack
from components.validation.benchmarks.part import alone, only
from components.validation.benchmarks.plan import Plan, plan_of
from components.validation.benchmarks.verbs.hca_proof import hcas_of
from components.validation.measuring import RunContext, measure
from components.validation.records import RunRecord
from components.validation.redact import needles_of
from components.validation.store import (
    RAW,
    RunDocument,
    declared_rails,
    store_of,
    write_bundle,
    write_document,
)
from components.validation.summary import Summary
from components.validation.verdict import verdict_on
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.frozen import frozen
from stacks.lab import Lab

T = TypeVar("T")


class Screen:
    """Prints to stderr: stdout belongs to the verdict. A pipe gets the lines alone."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        # a test must not compete with the display of it
        self._bar = Progress(*columns, console=self._console, transient=True, refresh_per_second=2)
        self._task = self._bar.add_task("measuring", total=1.0, left="")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """One thing that happened."""
        self._console.print(f"{time.monotonic() - self._begun:6.1f} s  {line}")

    def progress(self, share: float, left_s: float, what: str) -> None:
        """How far it is."""
        left = f"{what} about {left_s:.0f} s left".strip()
        self._bar.update(self._task, completed=min(share, 1.0), left=left)


async def until_told(work: Coroutine[object, object, T]) -> T:
    """Does the work; SIGTERM, SIGINT and SIGHUP end it cleanly, as both ends of a test must be
    stopped.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(sign) != signal.SIG_IGN:  # what nohup ignores stays ignored
            loop.add_signal_handler(sign, task.cancel)
    return await task


POLL_S = 0.5


class OrphanedError(LabError):
    """The process that asked for the run has died."""


async def while_alive(work: Coroutine[object, object, T]) -> T:
    """Runs the work, and cancels it when the process's parent ends first.

    Raises:
        OrphanedError: when it was cancelled for that.
    """
    parent = os.getppid()
    task = asyncio.ensure_future(work)
    while not task.done():
        if os.getppid() != parent:
            task.cancel()
            await asyncio.wait([task])
            raise OrphanedError("the run was stopped because the process that started it has died")
        try:
            await asyncio.wait([task], timeout=POLL_S)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
    return task.result()


@frozen
class HandRun:
    """The result of a run."""

    record: RunRecord
    summary: Summary
    raw: Path

    @property
    def busy(self) -> bool:
        """Whether nothing was measured because the fabric is in use."""
        transfers = self.record.transfers
        return bool(transfers) and all(
            t.reasons[:1] and t.reasons[0].startswith("busy:") for t in transfers
        )


def planned(lab: Lab, names: Sequence[str], node: str | None = None) -> Plan:
    """The plan of a lab, what the names leave of it, or the tests of one node alone.

    Raises:
        LabError: when there is nothing to measure, or nothing of such a name.
    """
    whole = plan_of(lab)
    if whole is None:
        raise LabError(
            "benchmarks: missing, or mode is off, so nothing is measured; add it, or set mode: warn"
        )
    if node:
        return alone(whole, node)
    return only(whole, names) if names else whole


def measured(stack: Stack, lab: Lab, plan: Plan) -> HandRun:
    """Measures, judges, and keeps run document and raw outputs in the lab's store.

    Raises:
        LabError: when a key is not where the lab says.
        CancelledError: when a signal ended it.
    """
    folder = store_of(lab, stack.root)
    secret = cache(stack.secret)  # each one takes a start of the engine
    access = asyncio.run(access_to(lab, stack.root, secret))
    secrets = _needles(secret, access)
    with hcas_of(lab, plan, secret, stack.root) as hcas, Screen() as screen:
        around = RunContext.of(lab, hcas, screen.progress)
        run = asyncio.run(while_alive(until_told(measure(plan, access, screen.say, around=around))))
    digest = write_bundle(folder, run.record.run_id, run.raw, secrets)
    record = run.record.replace(raw_sha256=digest)
    document = RunDocument(plan=plan, rails=declared_rails(lab), record=record)
    write_document(folder, document, secrets)
    summary = verdict_on(document, lab.benchmarks or Benchmarks())
    return HandRun(record=record, summary=summary, raw=folder / f"{record.run_id}{RAW}")


def _needles(secret: Setting, access: LabAccess) -> tuple[str, ...]:
    """Texts that must not be stored. Without the engine the run still measures, and warns about its
    secrets.
    """
    try:
        return needles_of(secret, access)
    except LabError as error:
        sys.stderr.write(
            f"the stack's secrets are unknown, so they are not redacted from the outputs: {error}\n"
        )
        return needles_of(lambda _: None, access)


def described(summary: Summary) -> str:
    """The verdict in lines."""
    because = ""
    if summary.performance_because:
        because = f" ({summary.performance_because})"
    lines = [f"function: {summary.function} · performance: {summary.performance}{because}"]
    lines += [f"  {text}" for text in (*summary.reasons, *summary.hints)]
    for finding in summary.findings:
        text = f"  {finding.code} {finding.where}: {finding.evidence}. {finding.hint}"
        lines.append(text.rstrip())
    return "".join(f"{line}\n" for line in lines)
