"""A program of another project makes a lab with the package, as docs/another-program.md shows it."""

import json
import re
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from engine.places import VENV
from simulator.hosts.running import ManyHosts, many_hosts
from tests.conftest import ROOT
from tests.integration.conftest import require_engine
from tests.integration.stack import Stack, environment
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

FIRST, PORT = IPv4Address("127.1.249.1"), 2222
READY = {"status": "ready"}
PAGE = ROOT / "docs" / "another-program.md"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyHosts]:
    require_engine()
    with many_hosts(tmp_path_factory.mktemp("another") / "hosts", 2, FIRST, PORT, "dev") as running:
        yield running


def blocks() -> dict[str, str]:
    """The files that the page shows, by name."""
    return dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))


def project(hosts: ManyHosts) -> Stack:
    """The page's project, with the lab of the simulated hosts."""
    for name, text in blocks().items():
        where = text.replace("../rocelab", str(ROOT)).replace("virtualenv: .venv", f"virtualenv: {VENV}")
        if not name.startswith("Pulumi.dev"):
            (hosts.folder / name).write_text(where)
    (hosts.folder / "state").mkdir()
    env = {**environment("lab"), "PULUMI_BACKEND_URL": f"file://{hosts.folder / 'state'}"}
    env.pop("PYTHONPATH", None)
    stack = Stack(hosts.stack, hosts.folder, env)
    stack.run("pulumi", "stack", "init", hosts.stack, cwd=hosts.folder).succeeded()
    return stack


def pulumi(stack: Stack, *words: str, cwd: Path) -> str:
    return stack.run("pulumi", *words, "--stack", stack.name, "--non-interactive", "--color", "never", cwd=cwd).text


def test_a_program_elsewhere_makes_a_lab_and_reads_its_verdict(hosts: ManyHosts) -> None:
    stack = project(hosts)
    folder = hosts.folder
    assert len(blocks()["__main__.py"].splitlines()) <= 20

    lab = hosts.stack_file.read_text()
    hosts.stack_file.write_text(lab.replace("kind: virtual", "kind: vague"))
    refused = pulumi(stack, "preview", cwd=folder)
    assert lines_naming(refused, "line 4", "kind", "vague", "virtual")
    assert "components/provider/server.py" not in refused
    hosts.stack_file.write_text(lab)

    assert "lab-hosts-gpu0001" in pulumi(stack, "preview", cwd=folder)
    assert hosts.commands() == []

    shown = pulumi(stack, "up", "--yes", "--skip-preview", cwd=folder)
    outputs = json.loads(pulumi(stack, "stack", "output", "--json", cwd=folder))
    assert outputs == {"hosts": {"gpu0001": READY, "gpu0002": READY}, "verdict": "skip"}, shown
    assert hosts.commands().count("gpu0001 confirm") == 1

    again = pulumi(stack, "up", "--yes", "--skip-preview", "--expect-no-changes", cwd=folder)
    assert "8 unchanged" in again
    assert "8 unchanged" in pulumi(stack, "refresh", "--yes", cwd=folder)
    pulumi(stack, "destroy", "--yes", cwd=folder)
    assert hosts.commands().count("gpu0001 undo") == 1
