"""The files of a draft, and what is said of it in short."""

from dataclasses import asdict
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.discovery import first_up, questions
from components.discovery.draft import Draft
from components.hosts.plan import Answers
from stacks.base import LabError, Name
from stacks.files import write_file

NAME = TypeAdapter[str](Name)


def checked_name(name: str) -> str:
    """The name of a lab.

    Raises:
        LabError: when it is none.
    """
    try:
        return NAME.validate_python(name)
    except ValidationError:
        raise LabError(
            f"--name {name}: write lower-case letters, digits and hyphens, at most 40, "
            "a letter first"
        ) from None


def names_of_files(name: str) -> list[str]:
    """The files of a draft."""
    return [f"Pulumi.{name}.yaml", "first-up.md", f"known_hosts.{name}", "questions.md"]


def written(draft: Draft, probes: Answers, folder: Path) -> list[Path]:
    """Writes the files of a draft; without a decided rail only those for people."""
    texts = (
        draft.text,
        first_up.as_markdown(draft, probes),
        draft.known_hosts if draft.text else "",
        questions.as_markdown(draft.name, draft.questions, draft.notices, draft.unread),
    )
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, text in zip(names_of_files(draft.name), texts, strict=True):
        if text:
            write_file(folder / name, text)
            files.append(folder / name)
    return files


def refuse_existing(files: list[Path], *, force: bool) -> None:
    """Keeps files that you may have edited.

    Raises:
        LabError: when a file exists and may not be overwritten.
    """
    if (existing := [str(file) for file in files if file.exists()]) and not force:
        raise LabError(
            f"{', '.join(existing)}: exists; choose another --folder, or overwrite with --force"
        )


def summary_of(draft: Draft, files: list[Path]) -> dict[str, JsonValue]:
    """The draft for programs."""
    rails: dict[str, JsonValue] = {}
    for rail in draft.rails:
        ports: JsonValue = {node: port.interface for node, port in rail.ports.items()}
        rails[rail.name] = {"evidence": list(rail.evidence), "ports": ports}
    return {
        "name": draft.name,
        "files": [str(file) for file in files],
        "rails": rails,
        "drained": list(draft.drained),
        "questions": [asdict(question) for question in draft.questions],
        "notices": [asdict(notice) for notice in draft.notices],
        "unread": list(draft.unread),
    }
