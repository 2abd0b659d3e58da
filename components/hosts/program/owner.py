"""Whose host this is: the first stack that changes it writes its name down, and no other one changes it after that."""

from .host import Host
from .machine import StepError
from .places import OWNER_FILE


class OwnerError(StepError):
    """The host belongs to another stack."""


def refuse_another_owner(host: Host) -> None:
    """Asked before anything changes, an undo or a confirmation included.

    Raises:
        OwnerError: with the owner's name, and how a host is handed over.
    """
    owner, asking = host.machine.read(OWNER_FILE), _name(host)
    if owner and asking and owner != asking:
        raise OwnerError(
            f"this host belongs to {owner}, and {asking} asks: nothing was changed",
            f"take it out of one of them; to hand it over for good: sudo rm {OWNER_FILE} on it, then run again",
        )


def claim(host: Host) -> None:
    """Writes the owner down; a host that was changed before there were owners gets one by it."""
    if _name(host) and not host.machine.read(OWNER_FILE):
        host.machine.put(OWNER_FILE, _name(host) + "\n")


def _name(host: Host) -> str:
    return str(host.document.get("owner", ""))
