"""The environment that the pulumi CLI needs here: the one source of `make env` and of every command of ours.

Labs of hosts and a cluster save their state once, at the end of a run (docs/decisions/0007-state-once.md).

Stacks of kind `virtual` get the file backend of the simulator, its throwaway passphrase, and a PULUMI_HOME with the
stand-ins. All other stacks keep the user's own home, backend and passphrase, and cannot find a stand-in.
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

THROWAWAY_PASSPHRASE = "rocelab-simulator"  # noqa: S105  (protects nothing: simulator stacks hold no secret of anybody)

KEY = "rocelab:lab"
"""As in stacks/read.py, whose models take half a second to import."""

PARALLEL = 64
"""Resource operations at a time. The engine's default, four per core, queues hosts on a small machine."""

GC_PERCENT = 400
"""The engine lives for seconds: at 256 hosts collecting its memory less often saves a tenth of its work."""


def environment(stack: str | None, current: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """Variables to set, or with None to unset, on top of `current`.

    A variable is unset only where it still holds what this function gave it for a simulator stack.

    Raises:
        EngineError: when the stack's file is there but cannot be read.
    """
    virtual = {
        "PULUMI_HOME": str(HOME),
        "PULUMI_BACKEND_URL": f"file://{STATE}",
        "PULUMI_CONFIG_PASSPHRASE": THROWAWAY_PASSPHRASE,
        # Plugins then come from PULUMI_HOME by exact version; on PATH the engine takes any version and warns.
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
    }
    lab = traits_of(stack)
    is_virtual = "virtual" in lab
    # what is made twice without harm may be forgotten by a run that is killed; a virtual machine may not
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
    """Kind and sections of a stack's lab; nothing without a file: what is not known to be a simulator is hardware.

    Raises:
        EngineError: when the file is there and no lab can be read from it.
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
            f"{path.name} holds no lab that can be read ({type(error).__name__}: {reason}); its faults by line: "
            f"python -m stacks.virtual {stack}"
        ) from None


def export_lines(variables: Mapping[str, str | None]) -> str:
    """The variables as lines that a shell evaluates."""
    return "".join(
        f"unset {name}\n" if value is None else f"export {name}={shlex.quote(value)}\n"
        for name, value in variables.items()
    )


def _path(folders: list[Path], current: str) -> str:
    ours = {str(folder) for folder in (BIN, STANDINS, VENV / "bin")}
    others = [folder for folder in current.split(os.pathsep) if folder not in ours]
    return os.pathsep.join([*map(str, folders), *others])


def main() -> int:
    """The command `engine/env`."""
    parser = argparse.ArgumentParser(prog="engine/env", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--stack", help="add what a simulator stack needs, when this stack is one")
    options = parser.parse_args()
    try:
        variables = environment(options.stack)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if variables.get("PULUMI_BACKEND_URL"):
        STATE.mkdir(parents=True, exist_ok=True)  # the file backend does not make its folder
    sys.stdout.write(export_lines(variables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
