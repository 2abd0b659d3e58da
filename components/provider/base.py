"""The base of rocelab's own Pulumi resources: properties written once, and their behavior."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, get_args

from pydantic import JsonValue, field_validator

from stacks.base import LabError, Section

if TYPE_CHECKING:
    from stacks.lab import Lab

UNKNOWN = object()
"""Value of an input that a preview does not know yet."""
SECRET = "secret"  # noqa: S105  # the mark, not one
"""Marks a property, as in `Annotated[str, SECRET]`: encrypted in the state, hidden on screens."""
REPLACES = "replaces"
"""Marks an input whose change replaces the resource."""


class UnknownValueError(Exception):
    """A preview does not know this input yet."""


class PartialError(LabError):
    """The operation failed halfway; the state keeps what exists, and the next run updates it."""

    def __init__(self, reason: str, state: "Properties") -> None:
        super().__init__(reason)
        self.state = state


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that `check` refuses."""

    property: str
    """The engine prints the value of this property before the reason, so name a short one."""
    reason: str


class Properties(Section):
    """Inputs or state of a resource, fully typed.

    In a preview, reading an input that is not known yet raises `UnknownValueError`.
    """

    @field_validator("*", mode="wrap")
    @classmethod
    def _keep_unknown(cls, value: object, validate: Callable[[object], object]) -> object:
        return value if value is UNKNOWN else validate(value)

    def model_post_init(self, _context: object) -> None:
        for name in [name for name, value in self.__dict__.items() if value is UNKNOWN]:
            del self.__dict__[name]

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> object:
            if name in type(self).model_fields:
                raise UnknownValueError(name)
            return super().__getattr__(name)

    @property
    def unknown(self) -> list[str]:
        """The inputs that a preview does not know yet."""
        return [name for name in type(self).model_fields if name not in self.__dict__]

    @classmethod
    def marked(cls, mark: str) -> set[str]:
        """The properties with `SECRET` or `REPLACES`."""
        return {name for name, field in cls.model_fields.items() if mark in field.metadata}

    def plain(self) -> dict[str, JsonValue]:
        """The known properties as the state keeps them; nested values are without defaults."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        values |= self.model_dump(mode="json", include=self.__dict__.keys() - values.keys())
        return {name: value for name, value in values.items() if value is not None}


def changed(old: Properties, new: Properties) -> list[str]:
    """The inputs that differ from the state, or that a preview does not know yet."""

    def differs(name: str) -> bool:
        return name in new.unknown or getattr(old, name) != getattr(new, name)

    return [name for name in type(new).model_fields if differs(name)]


class ProviderConfig:
    """The provider's configuration: by default the keys `rocelab:…` of the stack."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = settings

    def get(self, key: str) -> object:
        """Value of a key, secrets included; None when there is none."""
        return self._settings.get(key)

    def of_stack(self) -> dict[str, str]:
        """The same as the configuration of a stack, for a program that runs in this process."""
        texts = {key: value for key, value in self._settings.items() if isinstance(value, str)}
        return {f"rocelab:{key}": text for key, text in texts.items()}

    @cached_property
    def lab(self) -> "Lab":
        """The lab of this run.

        Raises:
            LabError: when there is none.
        """
        # here: it takes a fifth of a second, and most previews need no lab
        from stacks.read import parse_lab  # noqa: PLC0415

        text = self.get("lab")
        if not isinstance(text, str):
            raise LabError(
                "the stack's configuration has no rocelab:lab: use the project's folder, or name "
                "the stack file with --config-file"
            )
        return parse_lab(text, "rocelab:lab")


Inputs = TypeVar("Inputs", bound=Properties)
State = TypeVar("State", bound=Properties)


class Resource(Generic[Inputs, State]):
    """What Pulumi's operations do to a resource; a subclass overrides what it needs.

    Each operation has a thread and an event loop of its own, so it may block. One that awaits ends
    early when the run is cancelled or the engine is gone. A `LabError` is shown as its text, any
    other error as a traceback.

    >>> import asyncio
    >>> from pathlib import Path
    >>> from typing import Annotated
    >>> class FileInputs(Properties):
    ...     path: Annotated[str, REPLACES]
    ...     text: str
    >>> class FileState(FileInputs):
    ...     size_bytes: int  # an output: what the state has and the inputs lack
    >>> class File(Resource[FileInputs, FileState]):
    ...     async def create(self, new):
    ...         return FileState(**dict(new), size_bytes=Path(new.path).write_text(new.text))
    ...
    ...     async def delete(self, old):
    ...         Path(old.path).unlink()
    >>> file = File(ProviderConfig({}))
    >>> asyncio.run(file.create(FileInputs(path="motd", text="hi"))).size_bytes
    2
    """

    inputs: ClassVar[type[Properties]]
    state: ClassVar[type[Properties]]
    delete_before_replace: ClassVar[bool] = False
    """Whether a replacement, which `--target-replace` asks for, deletes the old resource first.

    Set it where both are the same real thing: the old one's deletion would take it from the new.
    """

    def __init_subclass__(cls) -> None:
        # the properties are those in the brackets after `Resource`
        for base in cls.__dict__.get("__orig_bases__", ()):
            cls.inputs, cls.state = get_args(base)

    def __init__(self, config: ProviderConfig) -> None:
        self.config = config

    async def complete(self, old: Inputs | None, new: Inputs) -> Inputs:
        """The inputs, with what every run reads (previews too), for `check` and `diff`. By
        default unchanged.
        """
        return new

    async def check(self, old: Inputs | None, new: Inputs) -> Iterable[Failure]:
        """Refuses inputs, also in a preview. `old` is None before the first run.

        A check that reads an input that is not known yet is left to the run.
        """
        return ()

    async def diff(self, old: State, new: Inputs) -> Iterable[str]:
        """The properties that an update changes; none: no update. By default inputs that differ."""
        return changed(old, new)

    async def create(self, new: Inputs) -> State:
        raise NotImplementedError

    def identify(self, state: State) -> str:
        """The ID in the state; empty: the resource's name."""
        return ""

    async def read(self, old: State) -> State | None:
        """The resource as it is; None when it no longer exists. By default as it was."""
        return old

    def inputs_of(self, state: State) -> Properties:
        """The inputs that a refresh keeps; by default those in what was read."""
        return state

    async def update(self, old: State, new: Inputs) -> State:
        return await self.create(new)

    async def delete(self, old: State) -> None:
        """By default there is nothing to delete."""
