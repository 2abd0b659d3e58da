"""A provider whose measurements are told, not carried out: for the real engine."""

import json
from pathlib import Path

from components.provider import server
from components.provider.base import ProviderConfig
from components.validation import measuring
from components.validation.benchmarks.plan import Plan
from components.validation.measuring import Run
from components.validation.records import RunRecord
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.conftest import ROOT

PROVIDER = f"""#!{ROOT}/.venv/bin/python -P
import sys

sys.path.insert(0, "{ROOT}")
from tests.components.validation.told import serve

serve()
"""


def project(folder: Path, program: str) -> None:
    """A project with a program, and with a provider whose runs are told."""
    python = {"name": "python", "options": {"toolchain": "pip", "virtualenv": str(ROOT / ".venv")}}
    plugins = {"providers": [{"name": "rocelab", "path": "plugin"}]}
    (folder / "Pulumi.yaml").write_text(json.dumps({"name": "rocelab", "runtime": python, "plugins": plugins}))
    (folder / "Pulumi.lab.yaml").write_text((ROOT / "Pulumi.lab.yaml").read_text())
    (folder / "__main__.py").write_text(program)
    plugin = folder / "plugin" / "pulumi-resource-rocelab"
    plugin.parent.mkdir()
    plugin.write_text(PROVIDER)
    plugin.chmod(0o755)


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


def serve() -> None:
    """The provider, but for the load on a fabric."""
    measuring.measure = measure  # type: ignore[assignment]  # it receives what it would have measured
    ProviderConfig.lab = property(lambda _: lab_told())  # type: ignore[assignment]
    server.main()
