"""Prints the kind and the sections of a stack's lab, which need not be valid yet."""

import sys
from pathlib import Path

import yaml

from engine.places import ROOT

KEY = "rocelab:lab"
"""As in stacks/read.py, whose models take half a second to import."""


def traits(path: Path) -> set[str]:
    """The lab's kind, and the name of each section that it has."""
    lab = yaml.safe_load(path.read_text())["config"][KEY]
    return {str(lab.get("kind")), *(name for name, value in lab.items() if value is not None)}


def main() -> int:
    """Asked by setup for the stack that the only argument names; 1 when its file cannot be read."""
    try:
        found = traits(ROOT / f"Pulumi.{sys.argv[1]}.yaml")
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return 1
    sys.stdout.write(" ".join(sorted(found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
