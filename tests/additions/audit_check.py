"""One check of a value that every look reads, as `components/audit/checks/naming.py`."""

from collections.abc import Iterator

from components.audit.findings import AuditFault, Severity
from components.audit.registry import PRACTICE, check
from components.audit.view import View


@check(
    "kernel-flavour",
    Severity.LOW,
    title="Kernel is not the generic one",
    why="a driver that is built for one flavour does not load into another",
    source=PRACTICE,
    remedy="install the generic kernel of the distribution",
)
def kernel_flavour(view: View) -> Iterator[AuditFault]:
    generic = {True: "generic", False: "another"}
    return view.unlike(view.places, lambda place: place.host.system.kernel.map(_is_generic), True, generic.__getitem__)


def _is_generic(release: str) -> bool:
    return release.endswith("-generic")
