"""Finds the class behind a word of the lab file: a folder per kind of thing, a file per word."""

from importlib import import_module
from typing import Any


def class_named(package: str, name: str, base: type[object]) -> Any:
    """The subclass of `base` that the folder's file `name` defines.

    Raises:
        LookupError: when the folder has no such file, or the file no such class.
    """
    try:
        module = import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{package}.{name}":
            raise
        folder = package.replace(".", "/")
        raise LookupError(f"{folder} has no {name}.py: add it, see CONTRIBUTING.md") from None
    for thing in vars(module).values():
        if not isinstance(thing, type) or thing.__module__ != module.__name__:
            continue
        if issubclass(thing, base):
            return thing
    raise LookupError(f"{module.__file__}: no class with the base {base.__name__}")
