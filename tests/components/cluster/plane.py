"""A control plane of the cluster tests' own, so that no other lab on this machine is touched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.plane.api import Api
from simulator.plane.layout import Layout
from simulator.plane.part import ControlPlane
from stacks.lab import Lab
from tests.conftest import ROOT

ADDRESS = "127.0.12.221"
BINARIES = ROOT / ".engine" / "bin"


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lone")


@pytest.fixture(scope="package")
def layout(lab: Lab, folder: Path) -> Iterator[Layout]:
    needed = ("pulumi", "pulumi-resource-kubernetes", "plane", "kwok")
    if lacking := [name for name in needed if not (BINARIES / name).exists()]:
        pytest.skip(f"needs {', '.join(lacking)} in .engine/bin: run make setup")
    state = folder / "sim"
    plane = ControlPlane(lab, state, BINARIES, address=ADDRESS)
    said: list[str] = []
    try:
        plane.up(said.append)
        yield Layout(state.absolute(), BINARIES, ADDRESS)
    finally:
        plane.down(said.append)


@pytest.fixture(scope="package")
def api(layout: Layout) -> Iterator[Api]:
    with Api(layout) as opened:
        yield opened
