"""A part of a few lines, built in a second, for the tests of setup."""

import io
import shutil

import pytest

from engine import install
from engine.parts import Build, Part
from engine.programs import Programs
from engine.progress import Progress

GO = pytest.mark.skipif(shutil.which("go") is None, reason="no go on PATH")

TINY = Part(
    name="tiny",
    version="1.0",
    binaries=("tiny",),
    build=Build(module="tiny", version_variable="main.version", version="1.0", seconds=1, disk_mb=1),
    wanted_by="tests",
)
SOURCE = 'package main\n\nvar version = ""\n\nfunc main() { println("tiny " + version) }\n'


def place(*parts: Part, **options: bool) -> tuple[list[install.Located], list[install.MissingError]]:
    out = io.StringIO()
    with Progress(out) as progress:
        return install.Setup(progress, Programs()).place(parts, **options)
