"""A stack file as a lab, without Pulumi: for the simulator, the runner, the report and the schema's
tests.
"""

import json
from pathlib import Path

import yaml
from pydantic import JsonValue, ValidationError

from stacks.base import LabError
from stacks.expand import Expanded, expand, flat_text
from stacks.faults import faults_of, field_faults, report
from stacks.lab import Lab
from stacks.lab_file import LabFile, has_groups
from stacks.safe_yaml import load_yaml

KEY = "rocelab:lab"
NO_SECRET = f"{KEY} must not be a secret: reviewers must see it. Keep secrets under separate keys"
LARGEST_FILE_BYTES = 4_000_000
FILE = "file"
"""The only key of a lab that lies in another stack file. An environment variable carries the
configuration to the program and to the provider; it holds 128 KiB, some 300 nodes one by one."""


def parse_lab(text: str, file_name: str, file_text: str | None = None) -> Lab:
    """The lab of a JSON text; all faults of it are reported at once.

    Raises:
        LabError: with one line per fault, at most fifteen.
    """
    named = named_file(json.loads(text))
    return read_stack_file(Path(named)) if named else _parsed(text, file_name, file_text)[0]


def named_file(given: JsonValue) -> str:
    """The stack file that has the lab instead, relative to Pulumi.yaml; empty: the lab is here."""
    if not isinstance(given, dict) or set(given) != {FILE}:
        return ""
    return str(given[FILE])


def expand_text(path: Path) -> str:
    """A stack file with every group of it spelled out, as YAML; it describes the same lab.

    Raises:
        LabError: as `read_stack_file`.
    """
    return flat_text(expanded_lab(path), KEY)


def expanded_lab(path: Path) -> dict[str, JsonValue]:
    """The lab of a stack file as JSON, with every group of it spelled out.

    Raises:
        LabError: as `read_stack_file`.
    """
    return _parsed(*_lab_text(path))[1]


def read_stack_file(path: Path) -> Lab:
    """The lab that a stack file describes.

    Raises:
        LabError: when the file is missing, too large, no YAML, without a lab, or refused.
    """
    return _parsed(*_lab_text(path))[0]


def _parsed(text: str, file_name: str, file_text: str | None) -> tuple[Lab, dict[str, JsonValue]]:
    """A lab, and its JSON with every group spelled out."""
    given: dict[str, JsonValue] = json.loads(text)
    expanded = _expanded(given, text, file_name, file_text) if has_groups(given) else None
    flat = expanded.lab if expanded else given
    try:
        flat_text = json.dumps(flat) if expanded else text
        return Lab.model_validate_json(flat_text, strict=True), flat
    except ValidationError as error:
        faults = faults_of(error, Lab, flat)
        faults = expanded.in_the_file(faults) if expanded else faults
        raise LabError(report(faults, file_name, file_text)) from None


def _expanded(given: object, text: str, file_name: str, file_text: str | None) -> Expanded:
    """A file with groups, spelled out. Faults of its groups come first: nothing can be built on
    them.
    """
    try:
        expanded = expand(LabFile.model_validate_json(text, strict=True))
    except ValidationError as error:
        raise LabError(report(field_faults(error, LabFile, given), file_name, file_text)) from None
    if expanded.faults:
        raise LabError(report(expanded.faults, file_name, file_text))
    return expanded


def _lab_text(path: Path) -> tuple[str, str, str]:
    """The lab of a stack file as JSON, and name and text of the file that has it."""
    lab, text = _read(path)
    named = named_file(lab)
    if named:
        path = path.parent / named
        lab, text = _read(path)
        if named_file(lab):
            raise LabError(f"{path.name}: its {KEY} names another file; write the lab here")
    try:
        return json.dumps(lab, allow_nan=False), path.name, text
    except (TypeError, ValueError, RecursionError) as error:
        raise LabError(f"{path.name} has a value that JSON cannot express: {error}") from None


def _read(path: Path) -> tuple[JsonValue, str]:
    """The lab in a stack file, and the file's text."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise LabError(
                f"{path.name} exceeds {LARGEST_FILE_BYTES} bytes; not a valid stack file"
            )
        text = path.read_text(encoding="utf-8")
        content = load_yaml(text)
        config = content.get("config") if isinstance(content, dict) else None
        lab = config.get(KEY) if isinstance(config, dict) else None
        if lab is None:
            raise LabError(f"{path.name} has no config key {KEY}; copy it from Pulumi.lab.yaml")
        if isinstance(lab, dict) and set(lab) == {"secure"}:
            raise LabError(f"{path.name}: {NO_SECRET}")
    except OSError as error:
        raise LabError(f"{path.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise LabError(f"{path.name} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise LabError(
            f"{path.name} is not YAML{where}: {getattr(error, 'problem', None) or error}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise LabError(f"{path.name} has a value that JSON cannot express: {error}") from None
    return lab, text
