"""The environment that the pulumi CLI needs in this checkout. `make env` and every command of ours take it from here.

Labs of hosts and a cluster save their state once, at the end of a run (docs/decisions/0007-state-once.md).

Stacks of kind `virtual` get the simulator's file backend, its throwaway passphrase, and a PULUMI_HOME with the
stand-ins. All other stacks keep your own home, backend and passphrase, and cannot find a stand-in.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from engine.errors import EngineError
from engine.places import BIN, HOME, ROOT, STANDINS, VENV

STATE = ROOT / ".sim" / "state"

THROWAWAY_PASSPHRASE = "rocelab-simulator"  # noqa: S105  (protects nothing: simulator stacks hold no real secret)

KEY = "rocelab:lab"
"""As in stacks/read.py, which takes half a second to import."""

PARALLEL = 64
"""Concurrent resource operations. The engine's default, four per core, queues hosts on a small machine."""

GC_PERCENT = 400
"""The engine lives for seconds; with 256 hosts, less garbage collection saves a tenth of its processor time."""


def environment(stack: str | None, current: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """Variables to set on top of `current`; None means unset.

    A variable is unset only if it still has the value that this function gave it for a simulator stack.

    Raises:
        EngineError: if the stack's file exists but cannot be read.
    """
    virtual = {
        "PULUMI_HOME": str(HOME),
        "PULUMI_BACKEND_URL": f"file://{STATE}",
        "PULUMI_CONFIG_PASSPHRASE": THROWAWAY_PASSPHRASE,
        # Takes plugins from PULUMI_HOME by exact version; from PATH the engine takes any version and warns.
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
    }
    lab = traits_of(stack)
    is_virtual = "virtual" in lab
    # a killed run may lose the record of anything that can safely be created twice; virtual machines cannot
    once = {"PULUMI_SKIP_CHECKPOINTS": "true"}
    gives = (virtual if is_virtual else {}) | (once if lab and "fabric" not in lab else {})
    folders = [BIN, STANDINS, VENV / "bin"] if is_virtual else [BIN, VENV / "bin"]
    variables: dict[str, str | None] = {
        "PATH": _path(folders, current.get("PATH", os.defpath)),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_PARALLEL": str(PARALLEL),
        "GOGC": str(GC_PERCENT),
    }
    taken = {name: None for name, value in (virtual | once).items() if current.get(name) == value}
    return variables | taken | gives


def traits_of(stack: str | None) -> set[str]:
    """Kind and sections of a stack's lab; empty without a file, which means hardware.

    Raises:
        EngineError: if the file exists but holds no readable lab.
    """
    path = ROOT / f"Pulumi.{stack}.yaml"
    if stack is None or not path.exists():
        return set()
    try:
        lab = yaml.safe_load(path.read_text())["config"][KEY]
        return {str(lab.get("kind")), *(name for name, value in lab.items() if value is not None)}
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise EngineError(
            f"{path.name} holds no readable lab ({type(error).__name__}: {reason}); list its faults by line: "
            f"python -m stacks.virtual {stack}"
        ) from None


def export_lines(variables: Mapping[str, str | None]) -> str:
    """The variables as shell commands."""
    return "".join(
        f"unset {name}\n" if value is None else f"export {name}={shlex.quote(value)}\n"
        for name, value in variables.items()
    )


def _path(folders: list[Path], current: str) -> str:
    ours = {str(folder) for folder in (BIN, STANDINS, VENV / "bin")}
    others = [folder for folder in current.split(os.pathsep) if folder not in ours]
    return os.pathsep.join([*map(str, folders), *others])


def enter(variables: Mapping[str, str | None]) -> None:
    """Sets the variables in this process."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def main(arguments: list[str] | None = None) -> int:
    """The command `engine/env`."""
    parser = argparse.ArgumentParser(prog="engine/env", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--stack", help="add what this stack needs, if it is a simulator stack")
    parser.add_argument("--enter", action="store_true", help="for engine/steps: print nothing, set it in this process")
    options = parser.parse_args(arguments)
    try:
        variables = environment(options.stack)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if variables.get("PULUMI_BACKEND_URL"):
        STATE.mkdir(parents=True, exist_ok=True)  # the file backend does not create its folder
    if options.enter:
        enter(variables)
    else:
        sys.stdout.write(export_lines(variables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
