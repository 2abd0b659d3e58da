"""The registry of checks: decorated functions in any module of `components/audit/checks`."""

import importlib
import pkgutil
import re
from collections.abc import Callable
from functools import cache

from components.audit.findings import Faults, Severity
from components.audit.view import View
from stacks.frozen import frozen

PRACTICE = "practice"
"""Source of what we know from practice alone."""
COUNTERS = "https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html"
MONITOR = "https://github.com/NVIDIA/NVSentinel/blob/main/docs/nic-health-monitor.md"
THRESHOLDS = (
    "https://github.com/NVIDIA/NVSentinel/blob/main/docs/configuration/nic-health-monitor.md"
)
OPTIMIZED = "https://github.com/Mellanox/nic-configuration-operator"
CUMULUS = (
    "https://docs.nvidia.com/networking-ethernet-software/cumulus-linux-514/"
    "Layer-1-and-Switch-Ports/"
    "Quality-of-Service/RDMA-over-Converged-Ethernet-RoCE"
)
CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

Judge = Callable[[View], Faults]


@frozen
class Check:
    """One thing that can be wrong."""

    code: str
    """Stable name, which waivers and dashboards use."""
    group: str
    """The subject: name of the module."""
    severity: Severity
    title: str
    """The fault, in a few words."""
    why: str
    """What goes wrong otherwise."""
    source: str
    """Page that says so, or `practice`."""
    remedy: str
    judge: Judge


_CHECKS: dict[str, Check] = {}


def check(  # noqa: PLR0913  # each is a sentence of the report
    code: str, severity: Severity, *, title: str, why: str, source: str, remedy: str
) -> Callable[[Judge], Judge]:
    """Registers a check.

    >>> @check(
    ...     "kernel-release",
    ...     Severity.LOW,
    ...     title="Kernel is not the site's",
    ...     why="drivers are built for this release alone",
    ...     source=PRACTICE,
    ...     remedy="install linux-image-6.8.0-40-generic and reboot",
    ... )
    ... def kernel_release(view):
    ...     def kernel(place):
    ...         return place.host.system.kernel
    ...
    ...     return view.unlike(view.places, kernel, "6.8.0-40-generic")
    >>> [(fault.node, fault.actual) for fault in kernel_release(view)]
    [('gpu01', '6.8.0-60-generic'), ('gpu02', '6.8.0-60-generic')]
    """

    def register(judge: Judge) -> Judge:
        if code in _CHECKS or not CODE.fullmatch(code):
            raise ValueError(f"check {code!r}: each check has its own code, such as link-down")
        _CHECKS[code] = Check(
            code=code,
            group=judge.__module__.rpartition(".")[2],
            severity=severity,
            title=title,
            why=why,
            source=source,
            remedy=remedy,
            judge=judge,
        )
        return judge

    return register


@cache
def checks() -> dict[str, Check]:
    """All checks by code, in the order of their subjects and of their text."""
    package = importlib.import_module("components.audit.checks")
    for module in sorted(actual.name for actual in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return dict(sorted(_CHECKS.items(), key=lambda item: item[1].group))
