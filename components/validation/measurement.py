"""The measurement as a resource: repeated when its fingerprint changes or on request, never in a preview.

Every state contains the path of this module, so it must not move.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult
from pydantic import JsonValue, ValidationError

from components.ssh.configured import Configured
from components.ssh.credentials import Setting, access_to, configured_lab
from components.validation.benchmarks.verbs.hcas import hcas_of
from components.validation.judging.stale import HostStates
from components.validation.measured import MeasurementRequest, carried_out, verdict_by
from components.validation.memory.history import history_in
from components.validation.memory.journal import JournalOptions
from components.validation.memory.redact import needles_of, redacted_fields
from components.validation.planning.part import quarantined, without
from components.validation.planning.plan import Plan, plan_of
from components.validation.running.parent import while_alive
from components.validation.running.runner import Run, RunContext, all_failed, measure
from components.validation.summary import Summary
from stacks.base import LabError
from stacks.lab import Lab

PLUGIN_LEVELS = 2
"""The engine starts this provider through a shell that survives the engine."""

ASKED = "ROCELAB_VALIDATE"
"""Environment variable that requests a measurement: `again`, or `rebaseline`, which also discards earlier baselines.
An input would cause a second measurement when it is removed."""

Properties = dict[str, JsonValue]


class MeasurementProvider(Configured, ResourceProvider):
    """Runs the plan in create and update. Results are data: no verdict and no silent host makes it fail."""

    serialize_as_secret_always = False  # its code holds no secret, and a preview should say nothing of it

    def diff(self, _id: str, _olds: Properties, _news: Properties) -> DiffResult:
        """Measures again when the fingerprint changed, the last result was incomplete or too slow, or on request."""
        why = _why(_olds, _news, self._setting)
        if why:
            pulumi.log.info(f"validation is measured again: {why}")
        return DiffResult(changes=why is not None)

    def create(self, props: Properties) -> CreateResult:
        return CreateResult("measurement", self._measured({}, props))

    def update(self, _id: str, _olds: Properties, _news: Properties) -> UpdateResult:
        return UpdateResult(self._measured(_olds, _news))

    def _measured(self, olds: Properties, props: Properties) -> Properties:
        hosts, fingerprint, root = _hosts(props["hosts"]), str(props["fingerprint"]), Path.cwd()
        lab = configured_lab(self._setting)
        whole = plan_of(lab)
        if whole is None:
            raise LabError("benchmarks: missing, or mode is off: there is nothing to measure")

        async def run(part: Plan) -> Run:
            if access is None:
                return all_failed(part, missing, fingerprint)
            with hcas_of(lab, part, self._setting, root) as hcas:
                kept = JournalOptions(folder=request.folder, fresh=request.rebaseline, secrets=request.secrets)
                around = RunContext(journal=kept, hcas=hcas)
                return await while_alive(measure(part, access, pulumi.log.info, fingerprint, around), PLUGIN_LEVELS)

        missing = ""
        try:
            access = access_to(lab, root, self._setting)
        except LabError as error:
            access, missing = None, str(error)
        request = MeasurementRequest(
            lab=lab,
            plan=without(whole, quarantined(whole, hosts)),
            root=root,
            hosts=hosts,
            before=history_in(olds.get("history")),
            rebaseline=os.environ.get(ASKED) == "rebaseline",
            secrets=needles_of(self._setting, access),
        )
        done = asyncio.run(carried_out(request, run, pulumi.log.info))
        return {
            **{name: props[name] for name in ("fingerprint", "plan_digest", "hosts", "rerun")},
            "verdict": redacted_fields(done.verdict.model_dump(mode="json", exclude_defaults=True), request.secrets),
            "history": done.history.model_dump(mode="json", exclude_defaults=True),
            "settled": done.settled,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementArgs:
    plan_digest: str
    fingerprint: pulumi.Input[str]
    """Digest of everything that the result depends on."""
    hosts: pulumi.Input[HostStates]
    """The hosts as they are; a later run reports what has changed since."""
    rerun: str
    """`on_change` or `asked`."""


class Measurement(Resource, module="validation", name="Measurement"):
    """One run of the plan, valid until something changes that it depends on."""

    plan_digest: pulumi.Output[str]
    """Digest of the measured plan; with `rerun: asked` the lab file may have another one."""
    hosts: pulumi.Output[dict[str, Any]]
    """The hosts when it was measured."""
    verdict: pulumi.Output[dict[str, Any]]
    """A `Summary` by the bounds of then, with the digest of the stored run document."""
    settled: pulumi.Output[bool]
    """Whether everything planned was measured and works; if not, the next up measures again."""
    history: pulumi.Output[dict[str, Any]]
    """A `History`, this run in it."""

    provider: ClassVar[ResourceProvider] = MeasurementProvider()

    def __init__(self, name: str, args: MeasurementArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs: dict[str, object] = {
            "plan_digest": args.plan_digest,
            "fingerprint": args.fingerprint,
            "hosts": args.hosts,
            "rerun": args.rerun,
            **dict.fromkeys(("verdict", "settled", "history")),
        }
        super().__init__(self.provider, name, inputs, opts)


def _why(olds: Properties, news: Properties, setting: Setting) -> str | None:
    """Why to measure again; None: no need. Empty: the changed fingerprint shows it."""
    if os.environ.get(ASKED):
        return f"{ASKED} requests it"
    verdict = _verdict(olds)
    if verdict is None:
        return "another version of this program wrote the last result"
    if news.get("rerun") == "asked":
        return None
    if olds.get("fingerprint") != news.get("fingerprint"):
        return ""
    # no field of the resource shows why it is to run again
    if not olds.get("settled"):
        return "the last run did not find everything working"
    return "the last run was too slow, and mode is enforce" if _too_slow(verdict, configured_lab(setting)) else None


def _too_slow(verdict: Summary, lab: Lab) -> bool:
    """Whether the speed fails each up until the next measurement: no fact of a host shows a replaced cable.

    It must fail by the old bounds and by the current ones, because an edited bound measures nothing.
    """
    enforced = lab.benchmarks is not None and lab.benchmarks.mode == "enforce"
    failed = enforced and verdict.performance == "fail"
    return failed and verdict_by(lab, verdict, Path.cwd()).performance == "fail"


def _verdict(olds: Properties) -> Summary | None:
    try:
        return Summary.model_validate(olds.get("verdict"))
    except ValidationError:
        return None


def _hosts(value: JsonValue) -> dict[str, dict[str, JsonValue]]:
    return {name: facts for name, facts in value.items() if isinstance(facts, dict)} if isinstance(value, dict) else {}
