"""Words on the kernel's command line: now, and for the next boot through GRUB."""

import re
from typing import Iterable, List, Set

from ..distribution import distribution
from ..host import Document, Host
from ..machine import Machine, StepError
from ..step import Fields, Step

FIELD = "kernel_arguments"
GRUB_FILE = "/etc/default/grub.d/99-rocelab.cfg"
"""Sorts after the drop-ins of cloud images, which overwrite the variable."""
GRUB_HEAD = (
    "# kernel arguments that a rocelab lab asked for; they stay when the lab goes, since others "
    "may rely on them\n"
)
GRUB_LINE = re.compile(
    r'^GRUB_CMDLINE_LINUX_DEFAULT="\$GRUB_CMDLINE_LINUX_DEFAULT (.*)"$', re.MULTILINE
)
BOOT_ENTRY = re.compile(r"^\s*linux(?:efi)?\s+\S+\s+(.*)$", re.MULTILINE)
GRUBBY_ARGS = re.compile(r'^args="(.*)"$', re.MULTILINE)
OWN_ENTRIES = re.compile(
    r"### BEGIN /etc/grub.d/10_linux ###(.*?)### END /etc/grub.d/10_linux ###", re.DOTALL
)
LAST_COUNTS = ("intel_iommu", "amd_iommu", "iommu")
"""Keys for which the kernel takes the last value; for other keys each one may count."""


class KernelArgumentsStep(Step):
    """Adds words and never removes one. With `hosts.reboot: never` a host that lacks a word only
    reports it.
    """

    name = FIELD
    order = 230
    effects = {FIELD: "reboot"}
    files = (GRUB_FILE, "/boot/grub*/grub.cfg")

    def target(self, document: Document) -> Fields:
        return {FIELD: list(document[FIELD]["words"])} if document.get(FIELD) else {}

    def observed(self, host: Host) -> Fields:
        now = host.machine.read("/proc/cmdline").split()
        entries = _boot_entries(host.machine)
        return {FIELD: [_state(word, now, entries) for word in host.document[FIELD]["words"]]}

    def refuse(self, host: Host) -> None:
        missing = _lacking(
            host.document[FIELD]["words"], host.machine.read("/proc/cmdline").split()
        )
        if not missing or _grub(host.machine):
            return
        raise StepError(
            f"{' '.join(missing)} is not on this kernel's command line, and this host "
            f"({distribution(host.machine).name}) boots without a GRUB that update-grub or grubby "
            "can write",
            "add it in its boot loader, or remove it from system.kernel_arguments",
        )

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, words = host.machine, host.document[FIELD]["words"]
        missing = _lacking(words, machine.read("/proc/cmdline").split())
        if missing:
            when = "holds from the next boot on"
            if not host.document.get("may_stage"):
                when = "is missing; nothing was set, since hosts.reboot is never"
            if "intel_iommu=on" in missing:
                when += "; with it Linux switches on ACS redirection, which slows GPUDirect"
            host.wait_for_reboot(FIELD, f"{FIELD}: {' '.join(missing)} {when}")
        if host.document.get("may_stage") or not missing:
            lacking = [word for entry in _boot_entries(machine) for word in _lacking(words, entry)]
            _write(machine, list(dict.fromkeys(lacking)))


def _state(word: str, now: List[str], entries: List[List[str]]) -> str:
    """The word if it is in effect and stays so; otherwise what is missing."""
    holds = _has(now, word)
    # without a readable boot loader, only the running kernel's words are known
    stays = all(_has(entry, word) for entry in entries) if entries else holds
    if holds and stays:
        return word
    if holds:
        return f"{word} until the next boot"
    return f"{word} {'after the next boot' if stays else 'missing'}"


def _lacking(words: Iterable[str], line: List[str]) -> List[str]:
    return [word for word in words if not _has(line, word)]


def _has(line: List[str], word: str) -> bool:
    key, _, value = word.partition("=")
    same_key = [other for other in line if other.partition("=")[0] == key]
    if key in LAST_COUNTS:
        return same_key[-1:] == [word]
    if key == "pci":  # a list of its own in one word: pci=realloc,noaer
        return any(value in other.partition("=")[2].split(",") for other in same_key)
    return word in line


def _grub(machine: Machine) -> str:
    """The program that writes this host's boot entries; empty when there is no known one."""
    if machine.exists("/usr/sbin/update-grub") and machine.exists("/boot/grub/grub.cfg"):
        return "update-grub"
    # on Debian a package of this name is another program
    if distribution(machine).family == "rhel" and machine.exists("/usr/sbin/grubby"):
        return "grubby"
    return ""


def _boot_entries(machine: Machine) -> List[List[str]]:
    """The command line of each boot entry. Rescue entries get only some of the words."""
    kind = _grub(machine)
    if kind == "update-grub":
        text = machine.read("/boot/grub/grub.cfg")
        own = OWN_ENTRIES.search(text)  # other operating systems on this disk do not count
        if own:
            text = own[1]
        entries = [line.split() for line in BOOT_ENTRY.findall(text)]
        return [words for words in entries if not {"single", "recovery"} & set(words)]
    if kind == "grubby":
        # of the entries that kernels of this system have, each line `args="…"` is one
        printed = machine.run("grubby", "--info=ALL", timeout_s=60).out
        return [args.split() for args in GRUBBY_ARGS.findall(printed)]
    return []


def _write(machine: Machine, lacking: List[str]) -> None:
    """Adds words to the boot loader's settings; existing words stay."""
    if not lacking:
        return
    if _grub(machine) == "grubby":
        machine.must("grubby", "--update-kernel=ALL", f"--args={' '.join(lacking)}", timeout_s=120)
        return
    known = GRUB_LINE.search(machine.content(GRUB_FILE).decode(errors="replace"))
    machine.put(GRUB_FILE, grub_text([*(known[1].split() if known else []), *lacking]))
    machine.must("update-grub", timeout_s=180)


def grub_text(words: Iterable[str]) -> str:
    """The drop-in for GRUB. Of several words with one key, the kernel takes the last."""
    return (
        f'{GRUB_HEAD}GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT '
        f'{" ".join(dict.fromkeys(words))}"\n'
    )
