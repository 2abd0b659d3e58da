"""What `pulumi preview --json` prints, as far as a review needs it; the rest is not kept.

The format is `PreviewDigest` of pulumi/pulumi, pkg/display/json.go.
"""

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from components.validation.redact import needles, redacted
from stacks.base import LabError
from stacks.faults import SECRET_KEY

STREAMING = "PULUMI_ENABLE_STREAMING_JSON_PREVIEW"
NO_PREVIEW = (
    "not a complete preview ({}); write it with `pulumi preview --json > preview.json`, without "
    f"stderr and without {STREAMING}"
)
CONTENT = frozenset({"steps", "diagnostics", "changeSummary"})
PREFIX = re.compile(r"^(warning|error|info): ")
"""A dynamic provider's log line has its severity in the text; the field says `info#err`."""

Props = Mapping[str, JsonValue]


class State(BaseModel):
    """A resource before or after."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    outputs: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def known(self) -> Props:
        """What the provider compares with: what was read last, or the inputs where nothing was."""
        return self.outputs or self.inputs


class PreviewStep(BaseModel):
    """What happens to one resource."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    op: str
    urn: str
    old: State | None = Field(default=None, alias="oldState")
    new: State | None = Field(default=None, alias="newState")
    diff_reasons: tuple[str, ...] = Field(default=(), alias="diffReasons")

    @property
    def type(self) -> str:
        """The resource's own type, without those of its parents."""
        return _part(self.urn, 2).rpartition("$")[2]

    @property
    def name(self) -> str:
        """The resource's name in the program."""
        return _part(self.urn, 3)


class Diagnostic(BaseModel):
    """A message of the engine, the program or a provider."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    message: str = ""
    severity: str = ""
    urn: str = ""

    @property
    def level(self) -> str:
        """Its real severity."""
        prefix = PREFIX.match(self.message)
        return prefix[1] if prefix else self.severity.partition("#")[0]

    @property
    def text(self) -> str:
        """Without the severity."""
        return PREFIX.sub("", self.message).strip()


class Preview(BaseModel):
    """A whole preview."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    steps: tuple[PreviewStep, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    corrupt: bool = Field(default=False, alias="maybeCorrupt")

    @property
    def stack(self) -> str:
        """The stack's name, empty where nothing names it."""
        urns = [step.urn for step in self.steps]
        for diagnostic in self.diagnostics:
            if diagnostic.urn:
                urns.append(diagnostic.urn)
        if urns:
            return _part(urns[0], 0).rpartition(":")[2]
        return ""


def read_preview(text: str) -> Preview:
    """The preview in the text of a file.

    Raises:
        LabError: for a text that is no complete preview.
    """
    try:
        content = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise LabError(NO_PREVIEW.format(error)) from None
    if not isinstance(content, dict) or not CONTENT & content.keys():
        raise LabError(NO_PREVIEW.format("it has neither steps nor diagnostics"))
    secrets = needles(_secret_values(content.get("config")))
    try:
        preview = Preview.model_validate(
            {key: value for key, value in content.items() if value is not None}
        )
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise LabError(NO_PREVIEW.format(f"{where}: {first['msg']}")) from None
    clean = []
    for diagnostic in preview.diagnostics:
        message = redacted(diagnostic.message, secrets)
        clean.append(diagnostic.model_copy(update={"message": message}))
    return preview.model_copy(update={"diagnostics": tuple(clean)})


def _secret_values(config: object) -> Iterator[str]:
    """Values that a config keeps in the open under a name that says secret."""
    for key, value in config.items() if isinstance(config, dict) else ():
        if isinstance(value, str) and SECRET_KEY.search(str(key)):
            yield value


def _part(urn: str, place: int) -> str:
    """Of `urn:pulumi:STACK::PROJECT::TYPE::NAME`; a name may hold colons."""
    parts = urn.split("::", 3)
    return parts[place] if place < len(parts) else ""
