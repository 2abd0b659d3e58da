"""Finds the class behind a word of the lab file: one folder for each kind of thing, one file in it for each word."""

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
        raise LookupError(f"{package.replace('.', '/')} has no {name}.py: add it, see CONTRIBUTING.md") from None
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, base) and each.__module__ == module.__name__:
            return each
    raise LookupError(f"{module.__file__}: no class with the base {base.__name__}")
