"""Swap off, now and at every boot: with swap on, the kubelet does not start."""

from typing import List, Set

from ..host import Document, Host
from ..step import Before, Fields, Step

FSTAB = "/etc/fstab"
MARK = "# rocelab: "
"""Marks each fstab line that was commented out, so that an undo can restore it."""
SWAPOFF_S = 300
"""Swapped-out memory has to be read back."""


class Swap(Step):
    """Every swap area off and out of fstab. Applied at boot too, since generators (zram) ignore
    fstab.
    """

    name = "swap"
    order = 710
    at_boot = True
    effects = {"swap": "none"}
    files = (FSTAB,)
    repairs = {"swap": "service"}

    def target(self, document: Document) -> Fields:
        return {"swap": "off"} if document.get("kubernetes") else {}

    def observed(self, host: Host) -> Fields:
        faults = [f"{name} in use" for name in _active(host)]
        faults += [f"{line.split()[0]} in {FSTAB}" for line in _lines(host) if _is_swap(line)]
        return {"swap": "; ".join(faults) or "off"}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        lines = _lines(host)
        if any(map(_is_swap, lines)):
            kept = [MARK + line if _is_swap(line) else line for line in lines]
            host.machine.put(FSTAB, "\n".join(kept) + "\n")
        if _active(host):
            host.machine.must("swapoff", "-a", timeout_s=SWAPOFF_S)

    def before(self, host: Host) -> Before:
        return {"swap_in_use": bool(_active(host))}

    def undo(self, host: Host, before: Before) -> None:
        lines = _lines(host)
        if any(line.startswith(MARK) for line in lines):
            back = [line.replace(MARK, "", 1) for line in lines]
            host.machine.put(FSTAB, "\n".join(back) + "\n")
        if before["swap_in_use"] and not _active(host):
            host.machine.run("swapon", "-a")


def _active(host: Host) -> List[str]:
    names = []
    for line in host.machine.read("/proc/swaps").splitlines()[1:]:
        if line.strip():
            names.append(line.split()[0])
    return names


def _lines(host: Host) -> List[str]:
    return host.machine.content(FSTAB).decode(errors="surrogateescape").splitlines()


def _is_swap(line: str) -> bool:
    words = line.split()
    return len(words) >= 3 and not words[0].startswith("#") and words[2] == "swap"
