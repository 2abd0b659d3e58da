"""Which parts of the engine a stack needs. A lab without vSphere does not wait for the vSphere provider."""

import re
from collections.abc import Sequence

from engine.parts import PARTS, REAL_PODS, SIMULATOR, Part
from engine.places import ROOT

UNKNOWN = {"cluster", "fabric"}
"""A stack without a file counts as hardware that may have everything."""

LAB = re.compile(
    r"""^(?P<indent> *)["']?rocelab:lab["']?: *(?:#.*)?\n(?P<content>(?:(?P=indent) .*\n|[ \t]*\n|[ \t]*#.*\n)*)""",
    re.MULTILINE,
)
KEY = re.compile(r"""(?P<indent> +)["']?(?P<name>\w+)["']?:(?: +(?P<value>[^#\n]*))?""")


def needed(parts: Sequence[Part], stack: str | None) -> tuple[Part, ...]:
    """The parts that the stack's lab needs; all parts without a stack, or if its file cannot be read."""
    if stack is None:
        return tuple(parts)
    path = ROOT / f"Pulumi.{stack}.yaml"
    has = traits(path.read_text(errors="replace")) if path.exists() else UNKNOWN
    return tuple(part for part in parts if not has or has >= part.only_for)


def is_simulated(stack: str) -> bool:
    """Whether the stack's lab needs the simulator."""
    return any(part.only_for >= SIMULATOR for part in needed(PARTS, stack))


def has_real_pods(stack: str) -> bool:
    """Whether the stack's nodes run a kubelet, which is in their image."""
    return any(part.only_for >= REAL_PODS for part in needed(PARTS, stack))


def traits(text: str) -> set[str]:
    """The kind of a stack file's lab and the names of its sections; empty unless the lab is in block style.

    Works without a YAML parser, which the Python that runs setup may not have.
    """
    lab = LAB.search(f"{text}\n")
    keys = [found for line in lab["content"].splitlines() if (found := KEY.match(line))] if lab else []
    sections = {key["name"]: (key["value"] or "").strip("\"' ") for key in keys if key["indent"] == keys[0]["indent"]}
    if "kind" not in sections:
        return set()
    return {sections["kind"], *(name for name, value in sections.items() if value not in ("null", "~"))}
