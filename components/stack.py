"""A stack as commands name it: its file, its lab, and what the pulumi CLI knows of it."""

import json
import subprocess
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacks.base import LabError, UnreachableError
from stacks.files import read_text
from stacks.frozen import frozen

if TYPE_CHECKING:
    from stacks.lab import Lab

PROJECT_FILE = "Pulumi.yaml"
MEASUREMENT = "rocelab:validation:Measurement"
NO_PULUMI = 'pulumi is not on PATH: eval "$(make env)" in the checkout, or install the CLI'
UNSET = ("not found for stack", "no stack named")
"""How the pulumi CLI says that a key has no value; after other failures it may have one."""


class NoEngineError(UnreachableError):
    """There is no pulumi to ask."""


@frozen
class Stack:
    """The stack of a command."""

    root: Path
    """Folder of the project; paths in a lab file start there."""
    name: str = "lab"
    config_file: Path | None = None
    """Another file than the project's Pulumi.NAME.yaml."""

    @property
    def file(self) -> Path:
        """The file that describes the lab.

        Raises:
            LabError: when the project has no file of that name; it names those that are close.
        """
        if self.config_file is not None:
            return self.config_file
        file = self.root / f"Pulumi.{self.name}.yaml"
        if not file.is_file():
            known = sorted(path.name.split(".")[1] for path in self.root.glob("Pulumi.*.yaml"))
            near = get_close_matches(self.name, known)
            there = f"stacks there: {', '.join(known) or 'none'}"
            if near:
                there = f"did you mean {' or '.join(near)}?"
            raise LabError(f"--stack {self.name}: {self.root} has no {file.name}; {there}")
        return file

    def lab(self) -> "Lab":
        """The lab that the file describes.

        Raises:
            LabError: when the file is missing, cannot be read, or is refused.
        """
        # the model takes longer than all else of a --help
        from stacks.read import read_stack_file  # noqa: PLC0415

        return read_stack_file(self.file)

    def secret(self, name: str) -> str | None:
        """A secret of the stack, as the engine opens it; None without such a secret or stack.

        Raises:
            UnreachableError: when it cannot be known: no engine, a wrong passphrase, or a state
                that cannot be reached.
        """
        words = ["config", "get", f"rocelab:{name}", "--stack", self.name]
        if self.config_file:
            words += ["--config-file", str(self.config_file)]
        try:
            text = ask_pulumi(*words)
        except UnreachableError as error:
            if not any(text in str(error) for text in UNSET):
                raise
            return None
        return text.rstrip("\n")

    def measurement(self, file: Path | None = None) -> dict[str, Any]:
        """What the state keeps of the last measurement; empty without one.

        Args:
            file: output of `pulumi stack export`, to read instead.

        Raises:
            UnreachableError: when the state cannot be read.
            LabError: when it is not a state.
        """
        if file:
            text = read_text(file)
        else:
            text = ask_pulumi("stack", "export", "--stack", self.name)
        try:
            resources = json.loads(text)["deployment"].get("resources", [])
            of_type = []
            for known in resources:
                if known["type"] == MEASUREMENT:
                    of_type.append(known)
        except (ValueError, KeyError, TypeError, AttributeError):
            name = file or f"stack {self.name}"
            raise LabError(f"{name}: not the output of `pulumi stack export`") from None
        outputs: dict[str, Any] = {}
        if of_type:
            outputs = of_type[0].get("outputs", {})
        return outputs

    def outputs(self, file: Path | None = None) -> dict[str, Any]:
        """All outputs of the stack; secrets stay hidden.

        Args:
            file: output of `pulumi stack output --json`, to read instead.

        Raises:
            LabError: when there is no such stack, or what was read are no outputs.
        """
        text = read_text(file) if file else self._ask_outputs()
        try:
            outputs = json.loads(text)
        except (ValueError, RecursionError):
            outputs = None
        if not isinstance(outputs, dict):
            raise LabError(f"{file or f'stack {self.name}'}: no outputs in JSON were found")
        return outputs

    def _ask_outputs(self) -> str:
        _ = self.file  # raises for an unknown name, with the nearest ones
        try:
            return ask_pulumi("stack", "output", "--json", "--stack", self.name)
        except UnreachableError as error:
            if "no stack named" not in str(error):
                raise
            raise UnreachableError(
                f"{error}. Create it: make up, or on hardware pulumi up"
            ) from None


def project_root(folder: Path) -> Path:
    """The project of a folder, as the pulumi CLI finds it; outside of one, the folder itself."""
    for place in (folder, *folder.parents):
        if (place / PROJECT_FILE).is_file():
            return place
    return folder


def ask_pulumi(*words: str) -> str:
    """What a pulumi command prints.

    Raises:
        NoEngineError: when pulumi is not on PATH.
        UnreachableError: when it fails, with its last line.
    """
    command = ["pulumi", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoEngineError(NO_PULUMI) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise UnreachableError(f"{' '.join(command)} failed: {lines[-1]}")
    return done.stdout
