"""From two running nodes and no lab file to an adopted, measured lab, by the commands of docs/existing-clusters.md.

The nodes are as after their installation: no address on a rail, no VF, no RDMA device. What an up has configured is
drafted in test_lab.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stacks.read import read_stack_file
from tests.conftest import ROOT
from tests.integration.stack import Stack, environment, on_node
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.whole]

DISCOVER = (
    *("rocelab", "discover", "--name", "pod1", "--hosts", "gpu[01-02]=127.0.12.[1-2]", "--port", "2222"),
    *("--user", "nvidia", "--known-hosts", ".sim/nodes/known_hosts", "--key", ".sim/nodes/id_ed25519"),
)
SUBNETS = ("10.10.1.0/24", "10.10.2.0/24")


@pytest.fixture(scope="module")
def stack(simulator: Path) -> Iterator[Stack]:
    """A folder with nothing but the project: no lab file and no stack yet."""
    folder = simulator / "tests-existing"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "state").mkdir(parents=True)
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    stack = Stack("pod1", folder, {**environment("lab"), "PULUMI_BACKEND_URL": f"file://{folder / 'state'}"})
    yield stack
    if stack.file.exists() and stack.outputs():
        stack.pulumi("destroy").succeeded()


def test_nodes_without_a_lab_file_become_an_adopted_and_measured_lab(stack: Stack) -> None:
    """The question's own lines are the answer, but for the subnets, which nobody else can know."""
    asked = stack.run(*DISCOVER, "--folder", str(stack.folder))
    questions = (stack.folder / "questions.md").read_text()
    [answer] = re.findall(r"```yaml\n(.*?)```", questions, re.DOTALL)
    for subnet in SUBNETS:
        answer = answer.replace("SUBNET", subnet, 1)
    answers = stack.folder / "answers.yaml"
    answers.write_text(answer)

    stack.run(*DISCOVER, "--folder", str(stack.folder), "--answers", str(answers), "--force").succeeded()
    drafted = read_stack_file(stack.file)
    stack.run("pulumi", "--cwd", str(stack.folder), "stack", "init", "pod1").succeeded()
    stack.up().succeeded()

    assert (asked.status, "not-set-up" in questions, stack.file.exists()) == (1, True, True)
    assert read_stack_file(stack.file) == drafted, "what `pulumi stack init` writes into the file changes no lab"
    validation = stack.outputs()["validation"]
    assert validation["function"] == "pass", json.dumps(validation)[:3000]
    assert {row["rail"] for row in validation["tests"] if row["test"] == "ib_write_bw"} == {"rail-1", "rail-2"}
    stack.unchanged()


def test_what_the_page_of_the_first_up_announced_is_what_happened(stack: Stack) -> None:
    page = (stack.folder / "first-up.md").read_text()

    assert lines_naming(page, "2 hosts", "2 probed")
    assert lines_naming(page, "gpu[01-02] enp[5,132]s0", "address", "none → 10.10.1.[11-12]/24, 10.10.2.[11-12]/24")
    for node, last in (("gpu01", 11), ("gpu02", 12)):
        assert f"10.10.1.{last}/24" in on_node(node, "ip -br -4 address show enp5s0")


def test_a_second_discovery_finds_the_same_lab_and_who_owns_it(stack: Stack) -> None:
    out = stack.folder / "again"

    stack.look(*DISCOVER, "--folder", str(out), "--force", out=out / "inventory.json").succeeded()

    before, after = read_stack_file(stack.file), read_stack_file(out / "Pulumi.pod1.yaml")
    assert (after.rails, after.nodes) == (before.rails, before.nodes)
    assert "configured by" in (out / "questions.md").read_text()
