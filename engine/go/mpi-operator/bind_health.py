"""Copies the pinned MPI operator to ./upstream and lets its health endpoint listen where it is told.

Upstream's endpoint takes port 8080 of every interface, which nothing of the simulator may do; with
MPI_OPERATOR_HEALTH_ADDRESS set it takes that address instead.
"""

from engine.upstream import copy, edit

ANYWHERE = '\t\tAddr:    fmt.Sprintf(":%d", healthCheckPort),\n'
ADDRESS = '\t\tAddr:    cmp.Or(os.Getenv("MPI_OPERATOR_HEALTH_ADDRESS"), fmt.Sprintf(":%d", healthCheckPort)),\n'
IMPORTS = "import (\n"


def main() -> None:
    """Leaves ./upstream, and a go.mod that builds against it."""
    operator = copy("github.com/kubeflow/mpi-operator")
    edit(operator / "cmd/mpi-operator/app/server.go", ((ANYWHERE, ADDRESS), (IMPORTS, f'{IMPORTS}\t"cmp"\n')))


if __name__ == "__main__":
    main()
