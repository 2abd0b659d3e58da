"""What an apply would do to this host.

Nothing is changed: the verb runs on a machine that refuses every change.
"""

from typing import Any, Callable, Dict, Iterator

from .host import Host
from .machine import StepError
from .places import OWNER_FILE
from .step import Fields, Step
from .steps import STEPS
from .steps.vfs import refuse_vfs_in_use
from .verbs import Failure, failure, refuse_another_owner, refuse_upgrade

UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


def plan(host: Host, fields: Fields) -> Dict[str, Any]:
    """Files, services and refusals of an apply.

    Args:
        host: the host and its document.
        fields: what a probe read.
    """
    deviating = [step for step in STEPS if _deviates(step, host, fields)]
    files = [path for step in deviating for path in step.files_to_write(host)]
    if host.document.get("owner") and not host.machine.exists(OWNER_FILE):
        files.append(OWNER_FILE)
    return {
        "files": sorted(set(files)),
        "services": sorted(
            {unit for step in deviating for unit in step.services if _has_unit(host, unit)}
        ),
        "refusals": list(_refusals(host, fields)),
    }


def _deviates(step: Step, host: Host, fields: Fields) -> bool:
    return any(fields.get(field) != value for field, value in step.target(host.document).items())


def _has_unit(host: Host, unit: str) -> bool:
    return any(host.machine.exists(f"{folder}/{unit}") for folder in UNIT_FOLDERS)


def _refusals(host: Host, fields: Fields) -> Iterator[Failure]:
    """Every refusal. An apply stops at the first one, before it changes anything."""
    yield from _refused("owner", refuse_another_owner, host)
    for step in STEPS:
        if step.concerns(host.document):
            yield from _refused(step.name, step.refuse, host)
    yield from _refused("upgrade", refuse_upgrade, host, STEPS)
    for pf in host.pfs:
        name, vfs = pf["interface"], pf["vfs"]
        if fields.get(f"{name}.vfs", vfs) != vfs:
            yield from _refused("vfs", refuse_vfs_in_use, host, name, vfs)


def _refused(step: str, check: Callable[..., None], *arguments: Any) -> Iterator[Failure]:
    try:
        check(*arguments)
    except StepError as error:
        yield failure(step, error)
