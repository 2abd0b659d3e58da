"""Recorded benchmark outputs as pod logs. Pure, except for reading the recordings."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from simulator.plane.api import Object
from stacks.lab import Lab

FOLDER = Path(__file__).parents[1] / "recordings"
DEFAULT = "nccl_all_reduce_deepops"
LAUNCHERS = ("launcher", "launcher-nccl-all-reduce-roce")
"""Containers of launcher pods that show the chosen recording."""
OTHERS = {"launcher-horovod-roce": "horovod_deepops"}
"""Containers with their own recording. All other containers of the namespace are silent."""
NAMESPACE = "rocelab-bench"
"""For labs without a benchmarks section."""
CLUSTER_LOGS = "rocelab-replay"
SILENCE = "silence"


def names() -> list[str]:
    """Names of all recordings."""
    return sorted(path.stem for path in FOLDER.glob("*.log"))


def to_cri(text: str) -> str:
    """A log in the format of container runtimes, with time and stream on each line.

    Times start at the epoch, so that they cannot be mistaken for the time of a measurement.
    """
    began = datetime(1970, 1, 1, tzinfo=UTC)
    stamps = (began + timedelta(milliseconds=n) for n in range(len(text.splitlines())))
    return "".join(
        f"{stamp.isoformat(timespec='microseconds').replace('+00:00', 'Z')} stdout F {line}\n"
        for stamp, line in zip(stamps, text.splitlines(), strict=True)
    )


def write_cri(folder: Path) -> None:
    """Writes every recording and an empty log to the folder that the fake kubelet reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        (folder / f"{name}.log").write_text(to_cri((FOLDER / f"{name}.log").read_text()))
    (folder / f"{SILENCE}.log").touch()


def cluster_logs(lab: Lab, folder: Path, recording: str = DEFAULT) -> Object:
    """Selects the logs of the benchmark namespace's pods. kwok selects by namespace and container name only."""
    namespace = lab.benchmarks.namespace if lab.benchmarks else NAMESPACE
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": CLUSTER_LOGS},
        "spec": {
            "selector": {"matchNamespaces": [namespace]},
            "logs": [
                {"containers": list(LAUNCHERS), "logsFile": str(folder / f"{recording}.log")},
                *({"containers": [name], "logsFile": str(folder / f"{log}.log")} for name, log in OTHERS.items()),
                {"logsFile": str(folder / f"{SILENCE}.log")},
            ],
        },
    }
