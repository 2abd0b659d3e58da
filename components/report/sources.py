"""The material of a report.

The stack's verdict, the run document, and the list of the run's raw outputs.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, ValidationError

from components.stack import Stack, ask_pulumi
from components.validation.records import RunRecord
from components.validation.store import RAW, RunDocument, folder_of, read_document
from components.validation.summary import Summary
from stacks.base import LabError, UnreachableError
from stacks.files import read_text

PROMPT = "$ "
"""A raw output begins with the command that made it, behind this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RawFile:
    """One output in a run's bundle."""

    name: str
    size_bytes: int
    sha256: str
    command: str
    """Empty when the output does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """Everything that a report shows; each format is a pure function of it."""

    summary: Summary
    """The stack's current verdict, which may be stale, or by other bounds than the run's own."""
    document: RunDocument | None = None
    """None when it is not on this machine."""
    raw: tuple[RawFile, ...] = ()
    """Empty when the outputs are not on this machine, or are not those of this run."""
    missing: tuple[str, ...] = ()
    """What could not be read, and what it means for the report."""

    @property
    def record(self) -> RunRecord | None:
        """What was measured."""
        return self.document.record if self.document else None

    @property
    def bundle(self) -> str:
        """Name of the file with the raw outputs."""
        return f"{self.summary.run_id}{RAW}"


def read_outputs(stack: Stack, file: Path | None) -> dict[str, JsonValue]:
    """All outputs of a stack; secrets stay hidden, a report needs none.

    Raises:
        LabError: when there is no such stack, or what was read are no outputs.
    """
    text = read_text(file) if file is not None else _ask(stack)
    try:
        outputs = json.loads(text)
    except (ValueError, RecursionError):
        outputs = None
    if not isinstance(outputs, dict):
        raise LabError(f"{file or f'stack {stack.name}'}: no outputs in JSON were found")
    return outputs


def _ask(stack: Stack) -> str:
    _ = stack.file  # raises for an unknown name, with the nearest ones
    try:
        return ask_pulumi("stack", "output", "--json", "--stack", stack.name)
    except UnreachableError as error:
        if "no stack named" not in str(error):
            raise
        raise UnreachableError(f"{error}. make up makes it, on hardware pulumi up") from None


def summary_in(outputs: dict[str, JsonValue]) -> Summary | None:
    """The verdict; None when the lab asks for no validation.

    Raises:
        LabError: when there is none yet, or another version of this program wrote it.
    """
    validation = outputs.get("validation")
    if not isinstance(validation, dict):
        raise LabError("the stack has no output `validation` yet: pulumi up makes it")
    if validation.get("mode") == "off":
        return None
    try:
        return Summary.model_validate_json(json.dumps(validation), strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise LabError(
            f"the output `validation` is of another version of this program ({where}: "
            f"{fault['msg']}): run pulumi up"
        ) from None


def gather(summary: Summary, *, root: Path, store: Path | None) -> Material:
    """The material that this machine has.

    What is missing is listed, and is no fault of the verdict.

    Args:
        summary: the stack output `validation`.
        root: of the project; the paths of a store start there.
        store: folder of the lab's runs; None: where the stack keeps them.
    """
    folder = store or folder_of(summary.lab, root, simulated=summary.simulated, store=summary.store)
    document = read_document(folder, summary.run_id, summary.document_sha256)
    raw = raw_of(folder / f"{summary.run_id}{RAW}", summary.raw_sha256)
    missing = []
    if document is None:
        missing.append(
            f"Run {summary.run_id} is not in {folder.name}: pairs, curves and hosts are left out."
        )
    elif not raw:
        missing.append(
            "The raw outputs of this run are not on this machine, so no number here can be "
            "checked on it."
        )
    return Material(summary=summary, document=document, raw=raw, missing=tuple(missing))


def raw_of(file: Path, sha256: str) -> tuple[RawFile, ...]:
    """The outputs in a run's file; none when it is not here, or is not the one that was written."""
    try:
        with file.open("rb") as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
        return raw_files(_outputs_in(file)) if digest == sha256 else ()
    except (OSError, EOFError, zlib.error, ValueError):
        return ()


def _outputs_in(file: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each output, one at a time.

    All of them together may be larger than memory should be.
    """
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            # the file is a JSON object with a line per entry, as the store writes it
            entry = line.strip().removesuffix(",")
            if entry and entry not in ("{", "}", "{}"):
                yield from json.loads(f"{{{entry}}}").items()


def raw_files(outputs: Iterable[tuple[str, str]]) -> tuple[RawFile, ...]:
    """The files of a bundle, by name."""
    return tuple(sorted((_file(name, text) for name, text in outputs), key=lambda file: file.name))


def _file(name: str, text: str) -> RawFile:
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    return RawFile(name=name, size_bytes=len(data), sha256=digest, command=command_in(text))


def command_in(text: str) -> str:
    """The command that an output names in one of its first lines."""
    lines = text[:2000].splitlines()[:3]
    return next((line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)), "")
