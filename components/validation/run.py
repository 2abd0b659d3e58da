"""The runner by hand: `python -m components.validation.run --stack lab [--json FILE]`. It changes no state."""

import argparse
import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path

from components.ssh.credentials import access_to
from components.validation.judging.verdict import judge
from components.validation.memory.bundle import folder_of, write_bundle
from components.validation.planning.plan import plan_of
from components.validation.running.parent import while_alive
from components.validation.running.runner import Run, Say, measure
from stacks.base import LabError
from stacks.read import read_stack_file


def main(arguments: list[str] | None = None) -> int:
    """Measures, prints the verdict, and returns 0 when the function axis passes."""
    parser = argparse.ArgumentParser(prog="python -m components.validation.run", description=__doc__)
    parser.add_argument("--stack", default="lab", help="stack whose file Pulumi.<stack>.yaml describes the lab")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write record and verdict")
    parser.add_argument("--plan", action="store_true", help="show what would be measured, and measure nothing")
    asked = parser.parse_args(arguments)
    try:
        return _run(asked.stack, asked.json, plan_only=asked.plan)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except asyncio.CancelledError:
        sys.stderr.write("ended; both ends of the running test were stopped\n")
        return 130


def _run(stack: str, file: Path | None, *, plan_only: bool) -> int:
    root = Path.cwd()
    lab = read_stack_file(root / f"Pulumi.{stack}.yaml")
    plan = plan_of(lab)
    if plan is None or lab.benchmarks is None:
        raise LabError("benchmarks: missing, or mode is off: there is nothing to measure")
    if plan_only:
        sys.stdout.write("".join(f"--- # {name}\n{text}" for name, text in plan.documents()))
        sys.stdout.write(f"--- # {len(plan.rounds)} rounds, about {plan.estimate_s:.0f} s\n")
        return 0
    access = access_to(lab, root, lambda name: _stack_secret(stack, name))
    run = asyncio.run(while_alive(_until_told(measure(plan, access, _say())), levels=1))
    digest = write_bundle(folder_of(lab.name, root, simulated=lab.simulated), run.record.run_id, run.raw)
    record = run.record.model_copy(update={"raw_sha256": digest})
    summary = judge(plan, lab.benchmarks, record)
    if file:
        file.write_text(f'{{"record":{record.model_dump_json()},\n"verdict":{summary.model_dump_json()}}}\n')
    because = f" ({summary.performance_because})" if summary.performance_because else ""
    sys.stdout.write(f"function: {summary.function} · performance: {summary.performance}{because}\n")
    sys.stdout.write("".join(f"  {text}\n" for text in (*summary.reasons, *summary.hints)))
    return 0 if summary.function == "pass" else 1


async def _until_told(work: Coroutine[object, object, Run]) -> Run:
    """Does the work; SIGTERM and SIGINT end it cleanly, as both ends of a test must be stopped."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(sign, task.cancel)
    return await task


def _say() -> Say:
    begun = time.monotonic()

    def say(line: str) -> None:
        sys.stderr.write(f"{time.monotonic() - begun:6.1f} s  {line}\n")

    return say


def _stack_secret(stack: str, name: str) -> str | None:
    """Asks the engine, which alone can open the stack's secrets."""
    done = subprocess.run(
        ["pulumi", "config", "get", f"rocelab:{name}", "--stack", stack], capture_output=True, text=True, check=False
    )
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
