"""What the vCenter says when it refuses, in words that name object, privilege and remedy."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyVmomi import vim, vmodl

from stacks.base import LabError


def message(error: Exception) -> str:
    """The text of an error, or its class name when it has none."""
    # a fault without words prints all its fields, none of which says anything either
    said = getattr(error, "msg", None) or ("" if isinstance(error, vmodl.MethodFault) else str(error))
    return str(said or type(error).__name__)


def explained(fault: Exception) -> str:
    """A fault as a sentence; of what is no fault of the vCenter's, its own words."""
    if not isinstance(fault, vmodl.MethodFault):
        return message(fault)
    if isinstance(fault, vim.fault.NoPermission):
        # managers of a host have no name of their own, and whoever asked them has said which host it was
        place = f" on {_named(fault.object)}" if isinstance(fault.object, vim.ManagedEntity) else ""
        return (
            f"fabric.user lacks the privilege {fault.privilegeId or 'that this needs'}{place}. "
            "`rocelab role` prints a role with all that rocelab needs"
        )
    if isinstance(fault, vmodl.fault.ManagedObjectNotFound):
        return f"{fault.obj} no longer exists; run again with --refresh"
    refused = _refused_value(fault)
    return f"{_own_words(fault)}{f'; refused value: {refused}' if refused else ''}"


@contextmanager
def doing(place: str, what: str) -> Iterator[None]:
    """Tells of a refused call where it was, and what it was for.

    Raises:
        LabError: in place of the fault.
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
    return str(fault.property or "") if isinstance(fault, vim.fault.InvalidVmConfig) else ""


def _own_words(fault: vmodl.MethodFault) -> str:
    """The summary is often one sentence for all faults of a kind; the reason then stands in the messages."""
    summary = message(fault)
    details = (str(one.message or "").strip() for one in fault.faultMessage or ())
    return ": ".join([summary, *dict.fromkeys(one for one in details if one and one not in summary)])


def _named(entity: vim.ManagedEntity) -> str:
    try:
        return str(entity.name)
    except vmodl.MethodFault:
        return str(entity)  # who may not change it may not see it either
