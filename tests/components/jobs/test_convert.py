"""Jobs of the guides' kind in today's form, checked against the real definition: nothing is lost without a word."""

import copy
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.cluster.definitions import parse_definition
from components.cluster.store import Store
from components.jobs.convert.__main__ import main
from components.jobs.convert.conversion import Converted, convert
from components.jobs.convert.schema import Schema, Unknown, deviations, schema_of
from components.jobs.text import to_yaml
from stacks.base import LabError
from stacks.bill import MPIJOBS_DEFINITION
from tests.conftest import ROOT

OLD = Path(__file__).parent / "old"
GOLDEN = ROOT / "tests" / "golden" / "jobs"
FILES = ("seed_a_v1", "seed_b_v1alpha2")


@pytest.fixture(scope="module")
def definition() -> Any:
    try:
        return parse_definition(Store.from_environment().read(MPIJOBS_DEFINITION))
    except LabError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def schema(definition: Any) -> Schema:
    return schema_of(definition, "v2beta1")


def old(name: str) -> str:
    return (OLD / f"{name}.yaml").read_text()


def converted(text: str, schema: Schema, device_resource: str | None = None) -> tuple[dict[str, Any], Converted]:
    done = convert(text, "old.yaml", schema, device_resource)
    job = done.documents[0]
    assert isinstance(job, dict)
    return job, done


def said(done: Converted) -> str:
    return "".join(f"{note}\n" for note in done.notes)


@pytest.mark.parametrize("name", FILES)
def test_the_guides_jobs_become_the_golden_ones(name: str, schema: Schema) -> None:
    job, done = converted(old(name), schema)
    for path, text in ((GOLDEN / f"{name}.yaml", to_yaml(job)), (GOLDEN / f"{name}.notes.txt", said(done))):
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(text)
        assert path.read_text() == text


@pytest.mark.parametrize("name", FILES)
def test_what_comes_out_is_known_to_the_real_definition_to_the_last_field(name: str, schema: Schema) -> None:
    for resource in (None, "rdma/hca_shared"):
        assert list(deviations(converted(old(name), schema, resource)[0], schema)) == []


def test_today_s_definition_has_no_version_of_the_guides(definition: Any) -> None:
    """Applied as they stand in the guides, the jobs have no kind: the first trap."""
    assert [version["name"] for version in definition["spec"]["versions"]] == ["v2beta1"]


def test_the_root_s_clean_pod_policy_would_be_dropped_and_is_moved(schema: Schema) -> None:
    value = yaml.safe_load(old("seed_b_v1alpha2"))
    assert Unknown(path=("spec", "cleanPodPolicy")) in list(deviations(value, schema))

    job, done = converted(old("seed_b_v1alpha2"), schema)
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    assert "cleanPodPolicy" not in job["spec"]
    assert "line 8: spec.cleanPodPolicy: would be dropped without a word here" in said(done)


def test_a_job_without_a_policy_gets_one_since_the_default_keeps_gpus_for_ever(schema: Schema) -> None:
    job, done = converted(old("seed_b_v1alpha2").replace("  cleanPodPolicy: Running\n", ""), schema)

    assert job["spec"]["runPolicy"] == {"cleanPodPolicy": "Running"}
    assert "runPolicy.cleanPodPolicy: Running added" in said(done)


@pytest.mark.parametrize("seed", range(60))
def test_every_field_that_would_be_dropped_is_named_with_its_line(seed: int, schema: Schema) -> None:
    """Fields that no rule has heard of, anywhere in the file: the real definition finds them."""
    drawn = random.Random(seed)  # noqa: S311  # a choice, not a secret
    value = yaml.safe_load(old(FILES[seed % 2]))
    for number in range(3):
        owner = drawn.choice([part for part in parts(value) if isinstance(part, dict)])
        owner[f"unheardOf{number}"] = drawn.choice([1, "x", {"deep": True}, [1]])
    text = yaml.safe_dump(value, sort_keys=False)
    pruned = {found.path for found in deviations(yaml.safe_load(text), schema) if isinstance(found, Unknown)}
    job, done = converted(text, schema)

    named = {note.path: note.line for note in done.notes}
    assert pruned - set(named) == set()
    lines = text.splitlines()
    for path in pruned:
        assert str(path[-1]) in lines[named[path] - 1], "the line is the field's own"
    assert not [found for found in deviations(job, schema) if isinstance(found, Unknown)]


def parts(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value, *(part for each in inner for part in parts(each))]


@pytest.mark.parametrize("seed", range(120))
def test_a_damaged_file_is_converted_or_refused_but_never_a_traceback(seed: int, schema: Schema) -> None:
    drawn = random.Random(seed)  # noqa: S311  # a choice, not a secret
    value = copy.deepcopy(yaml.safe_load(old(FILES[seed % 2])))
    owner = drawn.choice([part for part in parts(value) if isinstance(part, dict | list) and part])
    key = drawn.choice(list(owner) if isinstance(owner, dict) else list(range(len(owner))))
    owner[key] = drawn.choice([None, 7, True, "text", [], {}, [None], {"a": None}])
    with suppress(LabError):
        job, _ = converted(yaml.safe_dump(value), schema)
        assert job["apiVersion"] == "kubeflow.org/v2beta1"


def test_variables_of_the_workers_travel_with_mpirun_since_sshd_would_lose_them(schema: Schema) -> None:
    job, _ = converted(old("seed_a_v1"), schema)
    words = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"]

    assert words[:4] == ["-x", "NCCL_IB_DISABLE=0", "-x", "NCCL_NET_GDR_LEVEL=PXB"]
    assert "NCCL_IB_GID_INDEX" not in " ".join(words), "it differs from pod to pod"


def test_the_old_transport_is_gone_and_workers_run_sshd(schema: Schema) -> None:
    job, done = converted(old("seed_a_v1"), schema)
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]

    assert "kube" not in to_yaml(job).replace("kubeflow.org", "")
    assert "command" not in worker, "with a command the operator would not start sshd"
    assert worker["readinessProbe"] == {"tcpSocket": {"port": 22}, "periodSeconds": 2}
    assert "the image must have openssh server and client, StrictModes no" in said(done)


def test_privileged_workers_are_named_and_replaced_when_a_resource_is_given(schema: Schema) -> None:
    kept, notes = converted(old("seed_b_v1alpha2"), schema)
    assert "privileged" in to_yaml(kept)
    assert "securityContext.privileged: works, but opens the host" in said(notes)

    job, _ = converted(old("seed_b_v1alpha2"), schema, "rdma/pvrdma")
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert worker["containers"][0]["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert worker["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 1, "rdma/pvrdma": 1}
    assert "volumes" not in worker
    assert "volumeMounts" not in worker["containers"][0]


def test_a_shell_text_is_left_alone_and_what_is_old_in_it_is_named(schema: Schema) -> None:
    value = yaml.safe_load(old("seed_b_v1alpha2"))
    launcher = value["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    script = "mpirun -x NCCL_IB_GDR_LEVEL=0 -mca btl ^openib python train.py"
    launcher["command"] = ["sh", "-c", script]
    job, done = converted(yaml.safe_dump(value), schema)

    assert script in job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
    assert "NCCL_IB_GDR_LEVEL inside a shell text" in said(done)
    assert "^openib inside a shell text" in said(done)
    assert "no list of words that begins with mpirun, so it is left as it is" in said(done)


def test_a_job_of_today_comes_out_as_it_went_in(schema: Schema) -> None:
    once, _ = converted(old("seed_a_v1"), schema)
    twice, done = converted(to_yaml(once), schema)

    assert twice == once
    assert "dropped" not in said(done)


def test_other_documents_of_the_file_are_passed_on(schema: Schema) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\n---\n{old('seed_a_v1')}"
    done = convert(text, "old.yaml", schema)

    assert [document["kind"] for document in done.documents if isinstance(document, dict)] == ["ConfigMap", "MPIJob"]
    assert done.notes[0].line == 6, "lines are those of the whole file"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: Job\n", "holds no MPIJob"),
        ("", "holds no MPIJob"),
        ("kind: MPIJob\napiVersion: kubeflow.org/v1alpha1\nspec: {gpus: 8}\n", r"line 2: apiVersion .*v1alpha1 cannot"),
        ("kind: MPIJob\napiVersion: kubeflow.org/v1\nspec: 7\n", "line 3: the job has no spec"),
        ("a: [", "is not YAML at line"),
        (
            "a: &a [x,x]\nb: &b [*a,*a]\n" + "".join(f"c{i}: &c{i} [{','.join(['*b'] * 9)}]\n" for i in range(9)),
            "no MPIJob",
        ),
    ],
)
def test_what_is_no_job_is_refused_with_line_and_reason(text: str, why: str, schema: Schema) -> None:
    with pytest.raises(LabError, match=why):
        convert(text, "old.yaml", schema)


def test_aliases_of_aliases_end_early(schema: Schema) -> None:
    text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    text += "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))

    with pytest.raises(LabError, match="more than 100000 parts"):
        convert(text, "old.yaml", schema)


def test_the_command_prints_the_job_and_tells_the_rest_on_stderr(
    schema: Schema, capsys: pytest.CaptureFixture[str]
) -> None:
    del schema  # the command reads it itself, so it has to be there
    assert main([str(OLD / "seed_a_v1.yaml")]) == 0
    out, err = capsys.readouterr()

    assert yaml.safe_load(out)["apiVersion"] == "kubeflow.org/v2beta1"
    assert "seed_a_v1.yaml, line 8: spec.cleanPodPolicy" in err


def test_a_missing_file_is_one_line(schema: Schema, capsys: pytest.CaptureFixture[str]) -> None:
    del schema
    assert main(["nowhere.yaml"]) == 2
    assert capsys.readouterr().err == "nowhere.yaml cannot be read: No such file or directory\n"
