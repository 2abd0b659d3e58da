"""The whole conversion: known rules first, then the real schema, so that nothing is lost that no rule has heard of."""

from dataclasses import dataclass

from pydantic import JsonValue

from components.jobs.convert.lines import Document, Path, read_documents, show
from components.jobs.convert.pods import convert_pods
from components.jobs.convert.schema import Schema, Unknown, WrongType, deviations
from components.jobs.convert.spec import API, convert_head, convert_slots, convert_spec
from components.jobs.convert.work import Note, Work, as_map
from stacks.base import LabError

FROM = ("kubeflow.org/v1alpha2", "kubeflow.org/v1", API)


@dataclass(frozen=True, kw_only=True, slots=True)
class Converted:
    """What became of a file."""

    documents: tuple[JsonValue, ...]
    notes: tuple[Note, ...]
    """In the order of the file."""


def convert(text: str, name: str, schema: Schema, device_resource: str | None = None) -> Converted:
    """The jobs of a file in v2beta1. Documents of other kinds are passed on as they are.

    Raises:
        LabError: when the file holds no job, or one of a form that has no replicas.
    """
    documents: list[JsonValue] = []
    notes: list[Note] = []
    for document in read_documents(text, name):
        if as_map(document.value).get("kind") != "MPIJob":
            documents.append(document.value)
            continue
        work = _convert_job(document, name, schema, device_resource)
        documents.append(work.job)
        notes += work.notes
    if not any(as_map(document).get("kind") == "MPIJob" for document in documents):
        raise LabError(f"{name} holds no MPIJob: name a file of kind MPIJob")
    return Converted(documents=tuple(documents), notes=tuple(sorted(notes, key=lambda note: note.line)))


def _convert_job(document: Document, name: str, schema: Schema, device_resource: str | None) -> Work:
    version = as_map(document.value).get("apiVersion")
    if version not in FROM:
        raise LabError(
            f"{name}, line {document.line(('apiVersion',))}: apiVersion {version} cannot be converted; known: "
            f"{', '.join(FROM)}. v1alpha1 has no replicas: begin with `python -m components.jobs --job nccl`"
        )
    work = Work(document=document, device_resource=device_resource)
    if not isinstance(work.job.get("spec"), dict):
        raise LabError(f"{name}, line {document.line(('spec',))}: the job has no spec")
    convert_head(work)
    convert_spec(work)
    convert_slots(work)
    # before the pods are changed: the paths of their parts are still those of the file
    _check(work, schema)
    convert_pods(work)
    return work


def _check(work: Work, schema: Schema) -> None:
    """What the schema still does not know is left out and named; scalars of a wrong type are made text."""
    for found in list(deviations(work.job, schema)):
        if isinstance(found, Unknown):
            _remove(work.job, found.path)
            work.note(found.path, "v2beta1 does not know it and would drop it without a word; left out")
        elif found.wanted == "string" and _as_text(work.job, found):
            work.note(found.path, "a number or truth value where text must stand; quoted, or the API server refuses it")
        else:
            work.note(found.path, f"the API server refuses it: {found.wanted} must stand here")


def _remove(job: JsonValue, path: Path) -> None:
    owner = _at(job, path[:-1])
    if isinstance(owner, dict):
        owner.pop(str(path[-1]), None)


def _as_text(job: JsonValue, found: WrongType) -> bool:
    owner, key = _at(job, found.path[:-1]), found.path[-1]
    value = _at(owner, (key,))
    if not isinstance(value, int | float):
        return False
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(owner, dict):
        owner[str(key)] = text
    elif isinstance(owner, list) and isinstance(key, int):
        owner[key] = text
    return True


def _at(value: JsonValue, path: Path) -> JsonValue:
    for step in path:
        if isinstance(value, dict):
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            raise TypeError(f"nothing stands at {show(path)}")
    return value
