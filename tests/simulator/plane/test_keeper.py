"""When the MPI operator is to run, and as whom."""

from simulator.plane.keeper import OperatorSpec, operator_spec


def deployment(image: str, namespace: str = "mpi-operator", **spec: object) -> dict[str, object]:
    pod = {"serviceAccountName": "runner", "containers": [{"image": image, "args": ["--lock-namespace=x"]}]}
    return {"metadata": {"namespace": namespace}, "spec": {"template": {"spec": pod}, **spec}}


def test_the_operator_runs_as_its_deployment_says():
    found = operator_spec([deployment("nginx:1"), deployment("docker.io/mpioperator/mpi-operator:0.8.0")])

    assert found == OperatorSpec("mpi-operator", "runner", ("--lock-namespace=x",))


def test_without_a_deployment_there_is_no_operator():
    assert operator_spec([]) is None
    assert operator_spec([deployment("example.org/not-mpi-operator:1")]) is None


def test_a_mirror_and_a_digest_are_the_same_operator():
    assert operator_spec([deployment("registry.lab:5000/mirror/mpi-operator@sha256:" + "0" * 64)]) is not None
    assert operator_spec([deployment("mpi-operator:0.8.0@sha256:" + "0" * 64)]) is not None


def test_an_operator_scaled_to_zero_does_not_run():
    assert operator_spec([deployment("mpioperator/mpi-operator:0.8.0", replicas=0)]) is None
