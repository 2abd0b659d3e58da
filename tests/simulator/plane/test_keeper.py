"""When the MPI operator is to run, and as whom."""

from simulator.plane.keeper import Wanted, wanted


def deployment(image: str, namespace: str = "mpi-operator", **spec: object) -> dict[str, object]:
    pod = {"serviceAccountName": "runner", "containers": [{"image": image, "args": ["--lock-namespace=x"]}]}
    return {"metadata": {"namespace": namespace}, "spec": {"template": {"spec": pod}, **spec}}


def test_the_operator_runs_as_its_deployment_says():
    found = wanted([deployment("nginx:1"), deployment("docker.io/mpioperator/mpi-operator:0.8.0")])

    assert found == Wanted("mpi-operator", "runner", ("--lock-namespace=x",))


def test_without_a_deployment_there_is_no_operator():
    assert wanted([]) is None
    assert wanted([deployment("example.org/not-mpi-operator:1")]) is None


def test_a_mirror_and_a_digest_are_the_same_operator():
    assert wanted([deployment("registry.lab:5000/mirror/mpi-operator@sha256:" + "0" * 64)]) is not None
    assert wanted([deployment("mpi-operator:0.8.0@sha256:" + "0" * 64)]) is not None


def test_an_operator_scaled_to_zero_does_not_run():
    assert wanted([deployment("mpioperator/mpi-operator:0.8.0", replicas=0)]) is None
