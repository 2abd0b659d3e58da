"""The measurement as a resource: made again when its fingerprint changes, never in a preview.

The path of this module stands in the state of every stack: it must not move.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult
from pydantic import JsonValue

from components.ssh.credentials import access_to
from components.validation.judging.verdict import function_of
from components.validation.memory.bundle import folder_of, write_bundle
from components.validation.planning.plan import Plan
from components.validation.planning.quarantine import without
from components.validation.records import compact
from components.validation.running.parent import while_alive
from components.validation.running.runner import all_failed, measure
from stacks.base import LabError
from stacks.read import parse_lab

LARGEST_RECORD_BYTES = 12_000
PLUGIN_LEVELS = 2
"""The engine starts this provider through a shell that outlives it."""

Properties = dict[str, JsonValue]


class MeasurementProvider(ResourceProvider):
    """Runs the plan in create and update. What it finds is data: it fails for no verdict and no silent host."""

    serialize_as_secret_always = False  # its code holds no secret, and a preview should say nothing of it

    def configure(self, req: ConfigureRequest) -> None:
        """Takes the stack's configuration: the only way in which credentials come here."""
        names = ("lab", "sshPrivateKey", "kubeconfig")
        self._config: dict[str, str] = {name: str(value) for name in names if (value := req.config.get(name))}

    def diff(self, _id: str, _olds: Properties, _news: Properties) -> DiffResult:
        """Only the fingerprint counts; and what ended without a full result is measured again."""
        same, settled = _olds.get("fingerprint") == _news.get("fingerprint"), bool(_olds.get("settled"))
        if same and not settled:
            # no field of the resource shows why it is to run again
            pulumi.log.info("validation is measured again: the last run did not find everything working")
        return DiffResult(changes=not (same and settled))

    def create(self, props: Properties) -> CreateResult:
        """Measures."""
        return CreateResult("measurement", self._measured(props))

    def update(self, _id: str, _olds: Properties, _news: Properties) -> UpdateResult:
        """Measures again."""
        return UpdateResult(self._measured(_news))

    def _measured(self, props: Properties) -> Properties:
        plan = without(Plan.model_validate_json(str(props["plan"])), _names(props.get("left_out")))
        lab = parse_lab(self._config["lab"], "the stack's configuration")
        fingerprint, root = str(props["fingerprint"]), Path.cwd()
        try:
            access = access_to(lab, root, self._config.get)
            run = asyncio.run(while_alive(measure(plan, access, pulumi.log.info, fingerprint), PLUGIN_LEVELS))
        except LabError as error:
            run = all_failed(plan, str(error), fingerprint)
        digest = write_bundle(folder_of(lab.name, root, simulated=lab.simulated), run.record.run_id, run.raw)
        record = run.record.model_copy(update={"raw_sha256": digest})
        return {
            "fingerprint": fingerprint,
            "plan": props["plan"],
            "left_out": props.get("left_out"),
            "record": compact(record, LARGEST_RECORD_BYTES),
            "settled": function_of(plan, record) == "pass",
        }


class Measurement(Resource, module="validation", name="Measurement"):
    """One run of the plan, kept until something changes that it depends on."""

    record: pulumi.Output[str]
    """A `RunRecord` as JSON, at most `LARGEST_RECORD_BYTES`."""
    settled: pulumi.Output[bool]
    """Whether everything planned was measured and works; if not, the next up measures again."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        fingerprint: pulumi.Input[str],
        left_out: pulumi.Input[Sequence[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Registers the measurement.

        Args:
            name: of the resource.
            plan: what is to be measured.
            fingerprint: of all that the result depends on.
            left_out: nodes of the plan that take no part.
            opts: of the resource.
        """
        inputs: dict[str, pulumi.Input[str] | pulumi.Input[Sequence[str]] | None] = {
            "plan": plan.model_dump_json(),
            "fingerprint": fingerprint,
            "left_out": left_out,
            "record": None,
            "settled": None,
        }
        super().__init__(MeasurementProvider(), name, inputs, opts)


def _names(value: JsonValue) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []
