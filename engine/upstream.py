"""A changed copy of a pinned Go module, for builds that cannot use it as it was published.

Called by the prepare scripts in the folders of the parts, in the scratch copy of such a folder.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


def copy(module: str) -> Path:
    """Copies a module to a folder here, and lets the go.mod beside it build against the copy."""
    # go compares the module with go.sum before it names the folder
    command = ["go", "mod", "download", "-json", module]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    told = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in told:
        sys.exit(f"{' '.join(command)}: {told.get('Error', 'failed')}")
    folder = Path("upstream", *module.split("/"))
    shutil.copytree(told["Dir"], folder, ignore=shutil.ignore_patterns("*_test.go", "testdata"))
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)  # the module cache is read-only
    subprocess.run(["go", "mod", "edit", f"-replace={module}=./{folder}"], check=True)
    return folder


def edit(path: Path, replacements: Iterable[tuple[str, str]]) -> None:
    """Replaces texts in a file of a copy; one that is not there exactly once ends the build."""
    text = path.read_text()
    for old, new in replacements:
        _find(old, text, path)
        text = text.replace(old, new)
    path.write_text(text)


def cut(path: Path, start: str, end: str) -> None:
    """Takes the text from `start` up to `end` out of a file of a copy; both must be there exactly once."""
    text = path.read_text()
    path.write_text(text[: _find(start, text, path)] + text[_find(end, text, path) :])


def _find(wanted: str, text: str, path: Path) -> int:
    if text.count(wanted) != 1:
        sys.exit(f"{path}: expected {wanted!r} once, found it {text.count(wanted)} times")
    return text.index(wanted)
