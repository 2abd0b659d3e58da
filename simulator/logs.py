"""The logs of the simulator's processes."""

from pathlib import Path

from simulator.part import SimulatorError


def read(state: Path, name: str, lines: int) -> str:
    """The end of each log of a process or node.

    Raises:
        SimulatorError: naming the existing logs.
    """
    found = _logs(state)
    if name not in found:
        raise SimulatorError(f"no log of {name}; existing logs:\n{names(state)}")
    texts = []
    for path in found[name]:
        end = path.read_text(errors="replace").splitlines()[-lines:]
        texts.append("\n".join([f"==> {path} <==", *end]))
    return "\n".join(texts)


def names(state: Path) -> str:
    """All names that `read` accepts."""
    return "\n".join(f"  {name}" for name in sorted(_logs(state))) or "  none yet: sim up"


def _logs(state: Path) -> dict[str, list[Path]]:
    """Logs by name: of a node, or of the file."""
    found: dict[str, list[Path]] = {}
    for path in sorted([*state.glob("*/*.log"), *state.glob("*/*/*.log")]):
        name = path.parent.name if path.parent.parent.name == "nodes" else path.stem
        found.setdefault(name, []).append(path)
    return found
