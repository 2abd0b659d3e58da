"""Copies the pinned MPI operator to ./upstream and lets its health endpoint listen where it is told.

Runs in a scratch copy of this folder. Upstream's endpoint takes port 8080 of every interface, which nothing of the
simulator may do; with MPI_OPERATOR_HEALTH_ADDRESS set it takes that address instead.
"""

import shutil
import subprocess
import sys
from pathlib import Path

MODULE = "github.com/kubeflow/mpi-operator"
SERVER = Path("cmd/mpi-operator/app/server.go")
ANCHOR = '\t\tAddr:    fmt.Sprintf(":%d", healthCheckPort),\n'
ADDRESS = '\t\tAddr:    cmp.Or(os.Getenv("MPI_OPERATOR_HEALTH_ADDRESS"), fmt.Sprintf(":%d", healthCheckPort)),\n'
IMPORTS = "import (\n"


def main() -> None:
    """Leaves ./upstream, and a go.mod that builds against it."""
    subprocess.run(["go", "mod", "download", MODULE], check=True)
    command = ["go", "list", "-m", "-f", "{{.Dir}}", MODULE]
    module = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    upstream = Path("upstream")
    shutil.copytree(module, upstream)
    for path in [upstream, *upstream.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)  # the module cache is read-only
    bind(upstream / SERVER)
    subprocess.run(["go", "mod", "edit", f"-replace={MODULE}=./upstream"], check=True)


def bind(source: Path) -> None:
    """Makes the address a choice; an anchor that is not there exactly once ends the build."""
    text = source.read_text()
    for anchor, replacement in ((ANCHOR, ADDRESS), (IMPORTS, IMPORTS + '\t"cmp"\n')):
        if text.count(anchor) != 1:
            sys.exit(f"{source}: expected {anchor!r} once, found it {text.count(anchor)} times")
        text = text.replace(anchor, replacement)
    source.write_text(text)


if __name__ == "__main__":
    main()
