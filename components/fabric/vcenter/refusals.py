"""Errors of the vCenter, in words that name object, privilege and remedy."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyVmomi import vim, vmodl

from stacks.base import LabError


def message(error: Exception) -> str:
    """The text of an error, or its class name when it has none."""
    # a fault without a message would print all its fields, which do not help
    text = getattr(error, "msg", None) or (
        "" if isinstance(error, vmodl.MethodFault) else str(error)
    )
    return str(text or type(error).__name__)


def explained(fault: Exception) -> str:
    """A fault as a sentence; for other errors, their own text."""
    if not isinstance(fault, vmodl.MethodFault):
        return message(fault)
    if isinstance(fault, vim.fault.NoPermission):
        # a host's managers have no name, but the caller has named the host
        place = ""
        if isinstance(fault.object, vim.ManagedEntity):
            place = f" on {_named(fault.object)}"
        return (
            f"fabric.user lacks the privilege {fault.privilegeId or 'that this needs'}{place}. "
            "docs/vsphere.md lists all that rocelab needs"
        )
    if isinstance(fault, vmodl.fault.ManagedObjectNotFound):
        return f"{fault.obj} no longer exists; run again with --refresh"
    refused = _refused_value(fault)
    return f"{_own_words(fault)}{f'; refused value: {refused}' if refused else ''}"


@contextmanager
def doing(place: str, what: str) -> Iterator[None]:
    """Adds to a refused call where it was and what it was for.

    Raises:
        LabError: instead of the fault.
    """
    try:
        yield
    except vim.fault.NotAuthenticated:
        raise
    except (TimeoutError, vmodl.MethodFault) as fault:
        raise LabError(f"{place}: cannot {what}: {explained(fault)}") from None


def _refused_value(fault: vmodl.MethodFault) -> str:
    if isinstance(fault, vmodl.fault.InvalidArgument):
        return str(fault.invalidProperty or "")
    if isinstance(fault, vim.fault.InvalidVmConfig):
        return str(fault.property or "")
    return ""


def _own_words(fault: vmodl.MethodFault) -> str:
    """The fault's own text. The summary is often generic, and then the messages have the reason."""
    summary = message(fault)
    details = (str(part.message or "").strip() for part in fault.faultMessage or ())
    return ": ".join(
        [summary, *dict.fromkeys(part for part in details if part and part not in summary)]
    )


def _named(entity: vim.ManagedEntity) -> str:
    try:
        return str(entity.name)
    except vmodl.MethodFault:
        return str(entity)  # the user may not see the name either
