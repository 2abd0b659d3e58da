"""Links in `.engine`: programs, stand-ins in a folder of their own, and the plugin folder of simulator stacks."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from engine.parts import LANGUAGE_HOST, PARTS, TEST_PARTS, Part
from engine.places import BIN, HOME, SIM, SOURCES, STANDINS

PYTHON = SOURCES / "language_python"
OWN_HOST = PYTHON / LANGUAGE_HOST
"""Used with a CLI that was built: the official host's module is not available."""

ROCELAB = SOURCES / "rocelab"
"""Starts the command line from any folder."""


def place(located: Mapping[str, tuple[str, Path]]) -> None:
    """Makes the links for (origin, folder) per part name, and removes outdated links."""
    links: dict[Path, Path] = {BIN / "sim": SIM, BIN / "rocelab": ROCELAB}
    for part in (*PARTS, *TEST_PARTS):
        if part.name not in located:
            continue
        origin, folder = located[part.name]
        home = STANDINS if origin == "stand-in" else BIN
        for binary in part.binaries:
            links[home / binary] = _target(binary, origin, folder)
        if part.is_plugin:
            # The engine takes a plugin from here silently, by version. For a plugin on PATH it warns at each run.
            links[plugin_folder(part) / part.binaries[0]] = home / part.binaries[0]
    _remove_stale(set(links))
    _refuse_logs()
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.name == "pulumi":
            _place_cli(link, target)
        else:
            _link(link, target)


def _target(binary: str, origin: str, folder: Path) -> Path:
    if binary == LANGUAGE_HOST and origin == "built":
        return OWN_HOST
    return folder / binary


def plugin_folder(part: Part) -> Path:
    """Where the engine looks for a resource plugin of exactly this version."""
    return HOME / "plugins" / f"resource-{part.name}-v{part.version}"


def _remove_stale(links: set[Path]) -> None:
    for folder in (BIN, STANDINS):
        for link in folder.glob("*"):
            if link not in links:
                link.unlink()
    for folder in (HOME / "plugins").glob("resource-*"):
        # The engine keeps files beside the folders, such as the time of the last use.
        if folder.is_dir() and all(link.parent != folder for link in links):
            shutil.rmtree(folder)


def _refuse_logs() -> None:
    """Turns engine logs off for simulator stacks: they take a fifth of the processor time and much disk space."""
    logs = HOME / "logs"
    if logs.is_dir() and not logs.is_symlink():
        shutil.rmtree(logs)
    HOME.mkdir(parents=True, exist_ok=True)
    _link(logs, Path(os.devnull))


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    # Renamed into place, so that the name is never missing for a running command.
    fresh = _fresh(link)
    fresh.symlink_to(target)
    fresh.replace(link)


def _place_cli(path: Path, target: Path) -> None:
    """Makes a hard link: the CLI resolves its own path, and warns without its language host beside it."""
    if path.exists() and not path.is_symlink() and _is_same(path, target):
        return
    fresh = _fresh(path)
    try:
        fresh.hardlink_to(target)
    except OSError:  # the cache is on another file system, or hard links are not allowed
        shutil.copy2(target, fresh)
    fresh.replace(path)


def _is_same(path: Path, target: Path) -> bool:
    one, other = path.stat(), target.stat()
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


def _fresh(path: Path) -> Path:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    return fresh
