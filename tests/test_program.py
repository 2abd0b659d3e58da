"""The whole program on the reference lab: the names that stand in every state, and no Pulumi warning."""

import json
import os
import runpy
from pathlib import Path

import pytest
import yaml

from components.validation.benchmarks.plan import plan_of
from engine.recover import PROJECT
from stacks.read import KEY, read_stack_file
from tests.components.cluster.conftest import without_upstream
from tests.conftest import ROOT
from tests.engine import Engine, Recorded, dynamic_answer
from tests.labs import HOST_KEY as PUBLIC
from tests.labs import section_of, simulator_files

GOLDEN = ROOT / "tests" / "golden" / "names.txt"
FLEET = "rocelab:hosts:Fleet"
MEASUREMENT = "rocelab:validation:Measurement"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("program")
    simulator_files(folder)
    lab = section_of("Pulumi.lab.yaml")
    with without_upstream(), pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return Engine(dynamic_answer).run(
            lambda: runpy.run_path(str(ROOT / "__main__.py")), preview=True, config={"rocelab:lab": json.dumps(lab)}
        )


def test_the_project_asks_every_stack_for_its_lab_and_for_no_secret() -> None:
    """What the project declares, the engine demands of each stack: an agent's lab has no sshPrivateKey to set."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())

    assert set(project["config"]) == {"lab"}
    assert project["config"]["lab"]["type"] == "object"
    assert not {"default", "secret"} & set(project["config"]["lab"])
    assert (project["name"], f"{project['name']}:lab") == (PROJECT, KEY), "states and stack files are named by it"


def test_the_names_in_the_state_are_the_golden_ones(program: Recorded) -> None:
    names = "".join(f"{seen.type} {name}\n" for name, seen in sorted(program.resources.items()))
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(names)

    assert names == GOLDEN.read_text(), "a renamed resource is deleted and made again: alias it (CONTRIBUTING.md)"


def test_everything_hangs_under_a_layer(program: Recorded) -> None:
    roots = {name for name, seen in program.resources.items() if not seen.parent}

    assert roots == {"switches", "hosts", "cluster", "validation"}


def test_a_host_costs_one_resource(program: Recorded) -> None:
    of_gpu01 = [name for name in program.resources if "gpu01" in name]

    assert len(of_gpu01) == 1, "each more is a connection, a state entry and a rewrite of the whole state"


def test_no_command_has_what_bites_later(program: Recorded) -> None:
    for name, seen in program.of_type("command:remote:Command").items():
        assert not {"triggers", "delete", "environment"} & set(seen.inputs), name
        assert seen.inputs["connection"]["hostKey"].startswith("ssh-ed25519 "), name
        assert seen.inputs["addPreviousOutputInEnv"] is False
        assert "connection" in seen.secrets, "the private key would stand in the state in clear"


def test_64_routed_nodes_without_a_cluster_preview_with_hosts_switches_and_a_plan_of_all_their_rails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = read_stack_file(ROOT / "templates" / "roce-routed" / "Pulumi.slurm1.yaml")
    text = yaml.safe_load((ROOT / "templates" / "roce-routed" / "Pulumi.slurm1.yaml").read_text())["config"][KEY]
    (tmp_path / "known_hosts").write_text("".join(f"{node.address} ssh-ed25519 {PUBLIC}\n" for node in lab.nodes))
    monkeypatch.chdir(tmp_path)

    seen = Engine(dynamic_answer).run(
        lambda: runpy.run_path(str(ROOT / "__main__.py")), preview=True, config={KEY: json.dumps(text)}
    )

    assert {name for name, one in seen.resources.items() if not one.parent} == {"switches", "hosts", "validation"}
    documents = [json.loads(one.inputs["stdin"]) for one in seen.of_type("command:remote:Command").values()]
    assert len(documents) == 64
    assert sum(len(document["pfs"]) for document in documents) == 512
    last = next(document for document in documents if document["host"] == "gpu64")["pfs"][7]
    assert (last["address"], last["routing"]["gateway"]) == ("172.16.7.126/31", "172.16.7.127")
    assert list(seen.of_type(MEASUREMENT)), "what is measured needs no cluster"


def test_the_plan_of_a_routed_lab_has_every_pair_on_its_own_rail() -> None:
    lab = read_stack_file(ROOT / "templates" / "roce-routed" / "Pulumi.slurm1.yaml")

    plan = plan_of(lab)

    assert plan is not None
    assert plan.nccl is None, "jobs need a cluster"
    assert [len(rail.ends) for rail in plan.rails] == [64] * 8
    assert plan.verbs.schedule == "sampled"
    assert {str(end.address).rpartition(".")[0] for end in plan.rails[7].ends} == {"172.16.7"}
    for transfers in plan.rounds_of(plan.stages[0]):
        assert len(
            {(transfer.rail, node) for transfer in transfers for node in (transfer.client, transfer.server)}
        ) == (2 * len(transfers)), "no PF has two transfers at once"
