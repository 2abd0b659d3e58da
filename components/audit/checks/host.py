"""The rest of the host: what makes RDMA jitter, or logs and tokens wrong."""

from components.audit.findings import Faults, Severity
from components.audit.registry import PRACTICE, check
from components.audit.view import View, fault

SWAP = "https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management"


@check(
    "governor",
    Severity.LOW,
    title="CPUs save power",
    why="cores that wake up or speed up slowly add latency and jitter",
    source=PRACTICE,
    remedy="run cpupower frequency-set -g performance at each boot",
)
def governor(view: View) -> Faults:
    for place, reading, names in view.each(view.places, lambda place: place.host.system.governors):
        others = sorted({*names} - {"performance"})
        if others:
            yield fault(place, reading, ", ".join(others), "performance")


@check(
    "swap",
    Severity.LOW,
    title="Swap is on",
    why="memory that is swapped out stalls a rank, and all others wait for it",
    source=SWAP,
    remedy="run swapoff -a, and remove the swap from /etc/fstab",
)
def swap(view: View) -> Faults:
    words = {True: "swap", False: "none"}
    return view.unlike(
        view.places, lambda place: place.host.system.swap_kib.map(bool), False, words.__getitem__
    )


@check(
    "clock",
    Severity.LOW,
    title="Clock is not synchronized",
    why="logs of several hosts cannot be compared, and certificates and tokens are refused",
    source=PRACTICE,
    remedy="enable chrony or systemd-timesyncd with a server that the host reaches",
)
def clock(view: View) -> Faults:
    words = {True: "synchronized", False: "not synchronized"}
    return view.unlike(
        view.places, lambda place: place.host.system.clock_synchronized, True, words.__getitem__
    )
