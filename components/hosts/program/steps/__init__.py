"""What is done on a host, one file for each step; it is undone the other way round."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Iterator, Tuple

from ..host import Document
from ..step import Fields, Step


def _steps() -> Iterator[Step]:
    for name in (f"{__name__}.{module.name}" for module in iter_modules(__path__)):
        for member in vars(import_module(name)).values():
            if isinstance(member, type) and issubclass(member, Step) and member.__module__ == name:
                yield member()


STEPS: Tuple[Step, ...] = tuple(sorted(_steps(), key=lambda step: step.order))


def target_fields(document: Document) -> Fields:
    """What a conforming host answers to `probe`: pure, so that a preview can compare without a
    connection.
    """
    fields: Fields = {}
    for step in STEPS:
        fields.update(step.target(document))
    return fields


def changed_versions(step: Step, old: Document, new: Document) -> Iterator[Tuple[str, str, str]]:
    """Field, old and new version of software that both documents name and rocelab keeps."""
    before = step.versions(old)
    for field, version in step.versions(new).items():
        if before.get(field, version) != version:
            yield field, before[field], version
