"""A cluster of files only, and variations of the reference lab."""

from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.plane import pki
from simulator.plane.layout import Layout
from stacks.lab import Lab

VaryLab = Callable[..., Lab]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """The places of a cluster whose certificates are made and whose processes never start."""
    layout = Layout(tmp_path / "state", tmp_path / "bin", "127.0.77.1")
    layout.folder.mkdir(parents=True)
    pki.issue(layout.folder / "pki", layout.address)
    return layout


@pytest.fixture(scope="session")
def vary(lab: Lab) -> VaryLab:
    """The reference lab with other nodes; each change is `node=dict of fields`."""

    def change(**nodes: dict[str, object]) -> Lab:
        document = lab.model_dump(mode="json", exclude_defaults=True)
        for node in document["nodes"]:
            fields = dict(nodes.get(node["name"], {}))
            vfs = fields.pop("vfs", None)
            for pf in node["pfs"] if vfs is not None else ():
                pf["vfs"] = vfs
            node.update(fields)
        return Lab.model_validate(document)

    return change
