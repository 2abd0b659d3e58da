"""A changed copy of a pinned Go module, for builds that cannot use it as it was published.

Called by the prepare scripts in the folders of the parts, in the scratch copy of such a folder.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

COPY = Path("upstream")


def copy(module: str) -> None:
    """Copies the module to ./upstream, and lets the go.mod beside it build against the copy."""
    # go compares the module with go.sum before it names the folder
    command = ["go", "mod", "download", "-json", module]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    told = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in told:
        sys.exit(f"{' '.join(command)}: {told.get('Error', 'failed')}")
    shutil.copytree(told["Dir"], COPY)
    for path in [COPY, *COPY.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)  # the module cache is read-only
    subprocess.run(["go", "mod", "edit", f"-replace={module}=./{COPY}"], check=True)


def edit(file: str, replacements: Iterable[tuple[str, str]]) -> None:
    """Replaces texts in a file of the copy; one that is not there exactly once ends the build."""
    path = COPY / file
    text = path.read_text()
    for old, new in replacements:
        if text.count(old) != 1:
            sys.exit(f"{path}: expected {old!r} once, found it {text.count(old)} times")
        text = text.replace(old, new)
    path.write_text(text)
