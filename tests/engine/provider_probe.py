"""A resource that does everything that the base of rocelab's resources offers; it lies beside a test's program."""

import asyncio
from pathlib import Path
from typing import Annotated

from components.provider import log
from components.provider.base import REPLACES, SECRET, Failure, PartialError, Properties, Resource
from components.provider.resources import RESOURCES
from stacks.base import Section

RESOURCES["rocelab:probe:Note"] = "provider_probe:Note"


class Style(Section):
    width: int = 80
    margins: dict[int, int]


class NoteInputs(Properties):
    path: Annotated[str, REPLACES]
    """Where the file is."""
    text: str
    pin: Annotated[str, SECRET] = ""
    style: Style | None = None


class NoteState(NoteInputs):
    size_bytes: int
    key: Annotated[str, SECRET]
    """The provider's secret when the note was written."""


class Note(Resource[NoteInputs, NoteState]):
    """A text in a file."""

    async def check(self, old: NoteInputs | None, new: NoteInputs) -> list[Failure]:
        if new.text == "forbidden":
            return [Failure("text", "nobody may write that")]
        return []

    async def create(self, new: NoteInputs) -> NoteState:
        log.warn(f"writes {len(new.text)} characters")
        state = NoteState(**dict(new), size_bytes=len(new.text), key=str(self.config.get("key")))
        if new.text == "slow":
            try:
                Path(new.path).write_text("begun")
                await asyncio.sleep(120)
            finally:
                Path(new.path).write_text("cleaned")
        if new.text == "half":
            Path(new.path).write_text("ha")
            raise PartialError("the disk is full", state.model_copy(update={"size_bytes": 2}))
        Path(new.path).write_text(new.text)
        return state

    async def read(self, old: NoteState) -> NoteState | None:
        path = Path(old.path)
        if not path.exists():
            return None
        text = path.read_text()
        return old.model_copy(update={"text": text, "size_bytes": len(text)})

    async def delete(self, old: NoteState) -> None:
        Path(old.path).unlink()
        Path("deleted").write_text(f"{old.path} {self.config.get('key')}")
