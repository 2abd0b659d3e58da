"""A Pulumi project of a test's own, under the real CLI, with its backend in its folder."""

import os
import subprocess
from pathlib import Path
from textwrap import dedent

from engine.environment import environment
from engine.places import BIN


class Project:
    """A project with one stack, in a folder."""

    def __init__(self, folder: Path, virtualenv: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        backend = folder / "backend"
        backend.mkdir()
        variables = environment("lab", os.environ) | {
            "PULUMI_BACKEND_URL": f"file://{backend}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            # a program that a test writes twice in one second, at the same size, would be run as it was the first time
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.env = {**os.environ, **{name: value for name, value in variables.items() if value is not None}}
        (folder / "Pulumi.yaml").write_text(
            f"name: probe\nruntime: {{name: python, options: {{toolchain: pip, virtualenv: {virtualenv}}}}}\n"
        )
        self.pulumi("stack", "init", "t")

    def write(self, program: str, name: str = "__main__.py") -> None:
        (self.folder / name).write_text(dedent(program))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [BIN / "pulumi", *arguments, "--non-interactive"]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def pulumi(self, *arguments: str, fails: bool = False) -> str:
        with self.start(*arguments) as process:
            printed = process.communicate(timeout=300)[0]
        assert (process.returncode != 0) == fails, printed
        return printed

    def up(self, *, fails: bool = False) -> str:
        return self.pulumi("up", "--yes", "--skip-preview", "--stack", "t", fails=fails)
