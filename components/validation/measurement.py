"""The measurement as a resource: made again when its fingerprint changes or when asked, never in a preview.

The path of this module stands in the state of every stack: it must not move.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult
from pydantic import JsonValue, ValidationError

from components.ssh.configured import Configured
from components.ssh.credentials import Setting, access_to, configured_lab
from components.validation.judging.verdict import Beside, judge
from components.validation.measured import Wanted, carried_out
from components.validation.memory.history import history_in
from components.validation.memory.stack_secrets import needles_of
from components.validation.planning.plan import Plan
from components.validation.planning.quarantine import without
from components.validation.records import RunRecord, compact
from components.validation.running.hcas import hcas_of
from components.validation.running.journal import Kept
from components.validation.running.parent import while_alive
from components.validation.running.runner import Around, Run, all_failed, measure
from stacks.base import LabError
from stacks.lab import Lab

LARGEST_RECORD_BYTES = 256_000
PLUGIN_LEVELS = 2
"""The engine starts this provider through a shell that outlives it."""

ASKED = "ROCELAB_VALIDATE"
"""Environment variable by which a run of the engine is asked to measure: `again`, or `rebaseline`, which also lets
comparisons begin anew. An input would measure a second time when it goes away."""

Properties = dict[str, JsonValue]


class MeasurementProvider(Configured, ResourceProvider):
    """Runs the plan in create and update. What it finds is data: it fails for no verdict and no silent host."""

    serialize_as_secret_always = False  # its code holds no secret, and a preview should say nothing of it

    def diff(self, _id: str, _olds: Properties, _news: Properties) -> DiffResult:
        """The fingerprint counts, and whether the last result was whole and let an up pass; or that somebody asks."""
        why = _why(_olds, _news, self._setting)
        if why:
            pulumi.log.info(f"validation is measured again: {why}")
        return DiffResult(changes=why is not None)

    def create(self, props: Properties) -> CreateResult:
        """Measures."""
        return CreateResult("measurement", self._measured({}, props))

    def update(self, _id: str, _olds: Properties, _news: Properties) -> UpdateResult:
        """Measures again."""
        return UpdateResult(self._measured(_olds, _news))

    def _measured(self, olds: Properties, props: Properties) -> Properties:
        plan = without(Plan.model_validate_json(str(props["plan"])), _names(props["left_out"]))
        fingerprint, root = str(props["fingerprint"]), Path.cwd()
        lab = configured_lab(self._setting)

        async def run(part: Plan) -> Run:
            if access is None:
                return all_failed(part, missing, fingerprint)
            with hcas_of(lab, part, self._setting, root) as hcas:
                kept = Kept(folder=wanted.folder, fresh=wanted.rebaseline, secrets=wanted.secrets)
                around = Around(journal=kept, hcas=hcas)
                return await while_alive(measure(part, access, pulumi.log.info, fingerprint, around), PLUGIN_LEVELS)

        missing = ""
        try:
            access = access_to(lab, root, self._setting)
        except LabError as error:
            access, missing = None, str(error)
        wanted = Wanted(
            lab=lab,
            plan=plan,
            root=root,
            before=history_in(olds.get("history")),
            rebaseline=os.environ.get(ASKED) == "rebaseline",
            secrets=needles_of(self._setting, access),
        )
        done = asyncio.run(carried_out(wanted, run, pulumi.log.info))
        return {
            "fingerprint": fingerprint,
            "plan": props["plan"],
            "left_out": props["left_out"],
            "measured_on": props["measured_on"],
            "rerun": props["rerun"],
            "record": compact(done.record, LARGEST_RECORD_BYTES),
            "history": done.history.model_dump_json(exclude_defaults=True),
            "settled": done.settled,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementArgs:
    """Inputs of `Measurement`."""

    plan: Plan
    """What is to be measured."""
    fingerprint: pulumi.Input[str]
    """Of all that the result depends on."""
    left_out: pulumi.Input[Sequence[str]]
    """Nodes of the plan that take no part."""
    measured_on: pulumi.Input[str]
    """What counts of the hosts, packed: by it a later run says what has changed since."""
    rerun: str
    """`on_change` or `asked`."""


class Measurement(Resource, module="validation", name="Measurement"):
    """One run of the plan, kept until something changes that it depends on."""

    plan: pulumi.Output[str]
    """The plan that was carried out, as JSON: with `rerun: asked` not always that of the lab file."""
    record: pulumi.Output[str]
    """A `RunRecord` as JSON, at most `LARGEST_RECORD_BYTES`."""
    settled: pulumi.Output[bool]
    """Whether everything planned was measured and works; if not, the next up measures again."""
    history: pulumi.Output[str]
    """A `History` as JSON, this run in it."""
    measured_on: pulumi.Output[str]
    """The input of that name when it was measured."""

    provider: ClassVar[ResourceProvider] = MeasurementProvider()

    def __init__(self, name: str, args: MeasurementArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs: dict[str, pulumi.Input[str] | pulumi.Input[Sequence[str]] | None] = {
            "plan": args.plan.model_dump_json(),
            "fingerprint": args.fingerprint,
            "left_out": args.left_out,
            "measured_on": args.measured_on,
            "rerun": args.rerun,
            "record": None,
            "settled": None,
            "history": None,
        }
        super().__init__(self.provider, name, inputs, opts)


def _why(olds: Properties, news: Properties, setting: Setting) -> str | None:
    """Why it has to be measured again; None when it has not. An empty text needs no words: the fingerprint shows."""
    if os.environ.get(ASKED):
        return f"{ASKED} asks for it"
    if not _readable(olds):
        return "another version of this program wrote the last result"
    if news.get("rerun") == "asked":
        return None
    if olds.get("fingerprint") != news.get("fingerprint"):
        return ""
    # no field of the resource shows why it is to run again
    if not olds.get("settled"):
        return "the last run did not find everything working"
    return "the last run was too slow, and mode is enforce" if _too_slow(olds, configured_lab(setting)) else None


def _too_slow(olds: Properties, lab: Lab) -> bool:
    """Whether its speed fails each up until it is measured again: another cable or transceiver is no fact of a host.

    By the bounds of then and by those of now, since an edit of a bound measures nothing.
    """
    benchmarks, history = lab.benchmarks, history_in(olds.get("history"))
    if benchmarks is None or benchmarks.mode != "enforce":
        return False
    record = RunRecord.model_validate_json(str(olds["record"]))
    entry = history.entry(record.run_id)
    if entry is None or entry.performance != "fail":
        return False
    plan = without(Plan.model_validate_json(str(olds["plan"])), _names(olds["left_out"]))
    return judge(plan, benchmarks, record, Beside(history=history)).performance == "fail"


def _readable(olds: Properties) -> bool:
    try:
        RunRecord.model_validate_json(str(olds.get("record")))
        Plan.model_validate_json(str(olds.get("plan")))
    except ValidationError:
        return False
    return True


def _names(value: JsonValue) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []
