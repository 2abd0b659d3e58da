"""The runner by hand: measures a lab, prints the verdict, and changes no state."""

import argparse
import asyncio
import sys
import textwrap
from functools import cache, partial
from pathlib import Path

from components.ssh.credentials import Access, Setting, access_to
from components.stack_cli import add_stack_options, lab_of, stack_secret
from components.validation.judging.verdict import Beside, judge
from components.validation.memory.bundle import folder_of, write_bundle, write_record
from components.validation.memory.stack_secrets import needles_of
from components.validation.planning.only import Only, only
from components.validation.planning.plan import Plan, plan_of
from components.validation.planning.topology import leaves_of
from components.validation.running.hcas import hcas_of
from components.validation.running.journal import Kept
from components.validation.running.parent import while_alive
from components.validation.running.runner import Around, Run, measure, shown
from components.validation.running.screen import Screen, status_of, until_told
from components.validation.summary import Summary
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab

EXITS = """\
exit status
  0    everything that was measured works as declared
  1    something does not, or was left out; the reasons are printed
  2    nothing was measured: the lab file, a key or what --only names is at fault
  75   nothing was measured: somebody else uses the fabric
  130  ended by a signal; both ends of each running test were stopped, and the next run goes on from there

A run that was killed is gone on with by the next one of the same plan within six hours, unless a host was rebooted or
changed: pairs that are measured are not measured again. --fresh begins anew. The verdict is over this run alone.
"""
BUSY = 75


def main(arguments: list[str] | None = None) -> int:
    """Measures, prints the verdict, and returns the exit status that the help lists."""
    asked = _parser().parse_args(arguments)
    return status_of(lambda: _run(asked), "ended; both ends of the running tests were stopped")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m components.validation.run",
        description=textwrap.dedent(str(__doc__)),
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_stack_options(parser)
    parser.add_argument("--plan", action="store_true", help="print what would be measured and for how long, and stop")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="a test, rail or node; several are combined: --only ib_write_bw --only rail-a --only gpu01 --only gpu02",
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="write record and verdict as JSON")
    parser.add_argument("--fresh", action="store_true", help="do not go on with a run that was ended")
    return parser


def _run(asked: argparse.Namespace) -> int:
    root = Path.cwd()
    lab = lab_of(asked)
    whole = plan_of(lab)
    if whole is None or lab.benchmarks is None:
        raise LabError("benchmarks: missing, or mode is off: there is nothing to measure")
    plan = only(whole, Only.of(whole, asked.only)) if asked.only else whole
    if asked.plan:
        sys.stdout.write("".join(f"--- # {name}\n{text}" for name, text in plan.documents()))
        sys.stdout.write(f"--- # {shown(plan)}\n")
        return 0
    folder = folder_of(lab.name, root, simulated=lab.simulated, store=lab.report.store)
    secret = cache(partial(stack_secret, asked))  # each one takes a start of the engine
    access = access_to(lab, root, secret)
    secrets = _needles(secret, access)
    with hcas_of(lab, plan, secret, root) as hcas, Screen() as screen:
        kept = Kept(folder=folder, fresh=asked.fresh, secrets=secrets)
        around = Around(journal=kept, progress=screen.progress, hcas=hcas)
        run = asyncio.run(while_alive(until_told(measure(plan, access, screen.say, around=around)), levels=1))
    return _told(lab, plan, run, kept, asked.record)


def _needles(secret: Setting, access: Access) -> tuple[str, ...]:
    """What must not be kept. A lab that opens without the engine is measured without it too, and that is said."""
    try:
        return needles_of(secret, access)
    except LabError as error:
        sys.stderr.write(f"secrets of the stack are not known, so outputs are not redacted of them: {error}\n")
        return needles_of(lambda _: None, access)


def _told(lab: Lab, plan: Plan, run: Run, kept: Kept, file: Path | None) -> int:
    """Keeps the raw outputs, writes and prints the verdict; no earlier run has a part in it."""
    folder = kept.folder
    digest = write_bundle(folder, run.record.run_id, run.raw, kept.secrets)
    record = run.record.model_copy(update={"raw_sha256": digest})
    write_record(folder, record, kept.secrets)
    summary = judge(plan, lab.benchmarks or Benchmarks(), record, Beside(topology=leaves_of(lab)))
    if file:
        file.write_text(f'{{"record":{record.model_dump_json()},\n"verdict":{summary.model_dump_json()}}}\n')
    sys.stdout.write(_in_lines(summary))
    sys.stdout.write(f"raw outputs: {folder / record.run_id}.json.gz\n")
    busy = bool(record.transfers) and all(t.reasons[:1] and t.reasons[0].startswith("busy:") for t in record.transfers)
    return BUSY if busy else 0 if summary.function == "pass" else 1


def _in_lines(summary: Summary) -> str:
    because = f" ({summary.performance_because})" if summary.performance_because else ""
    lines = [f"function: {summary.function} · performance: {summary.performance}{because}"]
    lines += [f"  {text}" for text in (*summary.reasons, *summary.hints)]
    lines += [f"  {found.code} {found.where}: {found.evidence}. {found.hint}".rstrip() for found in summary.findings]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
