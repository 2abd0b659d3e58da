"""The measurement as a resource: repeated when its fingerprint changes, or on request."""

import os
from pathlib import Path

from pydantic import JsonValue, ValidationError

from components.provider import log
from components.provider.base import Properties, ProviderConfig, Resource, changed
from components.validation.history import History, history_in
from components.validation.summary import Summary

ASKED = "ROCELAB_VALIDATE"
"""Environment variable: `again` measures again, `rebaseline` also discards earlier baselines."""


class MeasurementInputs(Properties):
    plan_digest: str
    """Digest of the measured plan; with `rerun: asked` the lab file may have another one."""
    fingerprint: str
    hosts: dict[str, dict[str, JsonValue]]
    """The hosts as they were measured."""
    rerun: str


class MeasurementState(MeasurementInputs):
    verdict: dict[str, JsonValue]
    """A `Summary` by the bounds of then."""
    settled: bool
    """Whether everything planned works; if not, the next up measures again."""
    history: dict[str, JsonValue]
    """A `History`, this run in it."""


class Measurement(Resource[MeasurementInputs, MeasurementState]):
    """One run of the plan, valid until something changes that it depends on.

    Results are data: no verdict and no silent host makes it fail.
    """

    async def diff(self, old: MeasurementState, new: MeasurementInputs) -> list[str]:
        """Measures again when something changed, after an incomplete or slow run, or on request."""
        why = self._why(old, new)
        if why is None:
            return []
        if why:
            log.info(f"validation is measured again: {why}")
        return [*changed(old, new), "verdict"]

    async def create(self, new: MeasurementInputs) -> MeasurementState:
        return await self._measured(new, History())

    async def update(self, old: MeasurementState, new: MeasurementInputs) -> MeasurementState:
        return await self._measured(new, history_in(old.history))

    async def _measured(self, new: MeasurementInputs, before: History) -> MeasurementState:
        # here: most runs measure nothing, and this imports more than the rest of the provider
        from components.validation.measuring import measure_lab  # noqa: PLC0415

        rebaseline = os.environ.get(ASKED) == "rebaseline"
        fields = await measure_lab(
            self.config, new.hosts, new.fingerprint, before, rebaseline=rebaseline
        )
        return MeasurementState.model_validate({**dict(new), **fields})

    def _why(self, old: MeasurementState, new: MeasurementInputs) -> str | None:
        """Why to measure again; None: no need. Empty: the changed fingerprint shows it."""
        if os.environ.get(ASKED):
            return f"{ASKED} requests it"
        verdict = _verdict(old)
        if verdict is None:
            return "another version of rocelab wrote the last result"
        if new.rerun == "asked":
            return None
        if old.fingerprint != new.fingerprint:
            return ""
        # no field of the resource shows why it is to run again
        if not old.settled:
            return "the last run did not find everything working"
        slow = _too_slow(verdict, self.config)
        return "the last run was too slow, and mode is enforce" if slow else None


def _too_slow(verdict: Summary, config: ProviderConfig) -> bool:
    """Whether the speed fails each up until the next run: no fact of a host shows a new cable.

    It must fail by the old bounds and by the current ones: an edited bound measures nothing.
    """
    if verdict.performance != "fail":
        return False
    from components.validation.verdict import verdict_by  # noqa: PLC0415  # as in _measured

    lab = config.lab
    enforced = lab.benchmarks is not None and lab.benchmarks.mode == "enforce"
    return enforced and verdict_by(lab, verdict, Path.cwd()).performance == "fail"


def _verdict(old: MeasurementState) -> Summary | None:
    try:
        return Summary.model_validate(old.verdict)
    except ValidationError:
        return None
