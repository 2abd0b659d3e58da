"""A measurement whose runs are told, not carried out: for the real engine, which loads providers by their path."""

import json
from pathlib import Path

from pulumi.dynamic import DiffResult

from components.validation import measurement
from components.validation.measurement import Measurement, MeasurementProvider, Properties
from components.validation.planning.plan import Plan
from components.validation.records import RunRecord
from components.validation.running.runner import Run
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.conftest import ROOT

PROJECT = {
    "name": "rocelab",
    "runtime": {"name": "python", "options": {"toolchain": "pip", "virtualenv": str(ROOT / ".venv")}},
    "plugins": {"providers": [{"name": "rocelab", "path": str(ROOT / "components" / "provider")}]},
}


def tell(folder: Path, lab: Lab) -> None:
    """What differs from the reference lab, in the folder of a program."""
    assert lab.benchmarks
    told = {"kind": lab.kind, "benchmarks": lab.benchmarks.model_dump(mode="json")}
    (folder / "told.json").write_text(json.dumps(told))


def lab_told() -> Lab:
    """The lab of the folder: one of real machines on loopback, which no lab file may describe."""
    told = json.loads(Path("told.json").read_text())
    benchmarks = Benchmarks.model_validate_json(json.dumps(told["benchmarks"]))
    return read_stack_file(Path("Pulumi.lab.yaml")).model_copy(update={"kind": told["kind"], "benchmarks": benchmarks})


async def measure(plan: Plan, _access: object, _say: object, fingerprint: str, *_: object) -> Run:
    """The run that lies in the folder; each one that is carried out leaves a line."""
    record = RunRecord.model_validate_json(Path("record.json").read_text())
    with Path("runs.txt").open("a") as file:
        file.write(f"{record.run_id} {' '.join(stage.name for stage in plan.stages)}\n")
    return Run(record=record.model_copy(update={"fingerprint": fingerprint}), raw={"a": "text"})


class ToldProvider(MeasurementProvider):
    """The real provider, but for the load on a fabric."""

    def _measured(self, olds: Properties, props: Properties) -> Properties:
        _tell()
        return super()._measured(olds, props)

    def diff(self, _id: str, _olds: Properties, _news: Properties) -> DiffResult:
        _tell()
        return super().diff(_id, _olds, _news)


def _tell() -> None:
    measurement.measure = measure  # type: ignore[assignment]  # it is told what it would have measured
    measurement.configured_lab = lambda _: lab_told()


class Told(Measurement):
    """The real resource with that provider."""

    provider = ToldProvider()
