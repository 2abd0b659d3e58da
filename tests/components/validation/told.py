"""A measurement whose runs are told, not carried out: for the real engine, which loads providers by their path."""

from pathlib import Path

from components.validation import measurement
from components.validation.measurement import Measurement, MeasurementProvider, Properties
from components.validation.planning.plan import Plan
from components.validation.records import RunRecord
from components.validation.running.runner import Run


async def measure(plan: Plan, _access: object, _say: object, fingerprint: str, *_: object) -> Run:
    """The run that lies in the folder; each one that is carried out leaves a line."""
    record = RunRecord.model_validate_json(Path("record.json").read_text())
    with Path("runs.txt").open("a") as file:
        file.write(f"{record.run_id} {' '.join(stage.name for stage in plan.stages)}\n")
    return Run(record=record.model_copy(update={"fingerprint": fingerprint}), raw={"a": "text"})


class ToldProvider(MeasurementProvider):
    """The real provider, but for the load on a fabric."""

    def _measured(self, olds: Properties, props: Properties) -> Properties:
        measurement.measure = measure  # type: ignore[assignment]  # it is told what it would have measured
        return super()._measured(olds, props)


class Told(Measurement):
    """The real resource with that provider."""

    provider = ToldProvider()
