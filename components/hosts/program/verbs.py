"""The verbs of the program. Each may run twice, and an earlier run may have been killed at any
point.
"""

import errno
import hashlib
import json
from typing import Any, Callable, Dict, Iterator, Optional, Set, Tuple

from .baseline import (
    forgotten,
    give_all_back,
    give_back,
    give_steps_back,
    read_baseline,
    record_baseline,
)
from .host import Document, Host
from .identity import remember_nics, restore_names
from .look import lldp
from .machine import Machine, RunError, StepError, load_json
from .places import (
    BASELINE_FILE,
    BOOT_ID,
    COPY_PREFIX,
    DOCUMENT_FILE,
    FIRMWARE_BOOTS_FILE,
    LIBRARY,
    LOCK_FILE,
    NICS_FILE,
    OWNER_FILE,
    PROGRAM_FILE,
    REBOOT_FILE,
    REVERT_FILE,
    REVERTED_FILE,
    RUN,
    STATE,
    SYSTEM_FILES,
    UNCONFIRMED_FILE,
    UNIT,
    copy_of,
)
from .revert import PROGRAM_COPY, arm_revert, unreverted
from .secret_files import login_home
from .step import Fields, Step, Value
from .steps import STEPS, changed_versions, target_fields
from .steps.persistence import UNCONFIRMED
from .steps.vfs import refuse_vfs_in_use

Failure = Dict[str, str]
UNIT_FOLDERS = ("/etc/systemd/system", "/lib/systemd/system")
WARNINGS = "warnings"
"""The only fact that several steps may report; all others have unique names."""


def apply(host: Host, only: Optional[Set[str]]) -> Optional[Failure]:
    """Applies each step whose fields deviate.

    Returns the first failure after all steps were tried.
    """
    # the first refusal ends the run, before later steps read the host
    refusal = next(_refused("link", restore_names, host), None) or next(_refusals(host), None)
    if refusal:
        return refusal
    claim(host)
    _remove_copies(host.machine, copy_of(hashlib.sha256(host.program).hexdigest()))
    record_baseline(host)
    remember_nics(host)
    give_back(host, forgotten(host))
    left = give_steps_back(host)
    failed = failure(*left) if left else None
    for step in STEPS:
        if _left_out_at_boot(host, step) or _waits(host, step):
            continue
        host.at = f"step {step.name}"
        try:
            apply_step(host, step, only)
        except StepError as error:
            # the other steps do not depend on this one, so they still run
            failed = failed or failure(step.name, error)
    host.at = "reading the host"
    if host.armed:
        arm_revert(host, [])  # the time to confirm counts from the end of the work
    return failed


def apply_step(host: Host, step: Step, only: Optional[Set[str]]) -> None:
    """Check, apply, verify."""
    wrong = _wrong_fields(host, step, only)
    if not wrong or (_awaits_confirmation(wrong) and host.machine.exists(REVERT_FILE)):
        return
    try:
        step.apply(host, set(wrong))
    except OSError as error:
        hint = "check dmesg on this host"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free space there, then run again"
        raise StepError(f"{error.filename or step.name}: {error.strerror or error}", hint) from None
    pending = host.reboot_reasons()
    still = {
        key: pair for key, pair in _wrong_fields(host, step, only).items() if key not in pending
    }
    if still and not _awaits_confirmation(still):
        field = min(still)
        actual, target = still[field]
        raise StepError(
            f"{field} is {actual} after it was set to {target}",
            "something else on this host also sets it; find and stop it",
        )
    host.changed += sorted(set(wrong) - set(pending))


def confirm(host: Host) -> None:
    """A new connection proves that the network works, so its changes stay."""
    machine = host.machine
    if machine.remove(REVERT_FILE):
        host.changed.append("confirmed")
    if machine.exists(UNCONFIRMED_FILE):
        machine.put(DOCUMENT_FILE, machine.content(UNCONFIRMED_FILE))
        machine.remove(UNCONFIRMED_FILE)


def undo(host: Host) -> None:
    """Restores the host to its state before rocelab. Packages stay."""
    read_baseline(host)  # before anything is removed
    machine = host.machine
    machine.remove(REVERT_FILE)
    runs = machine.names("/run/systemd/transient") + machine.names("/run/systemd/units")
    if any("rocelab-" in name for name in runs):
        machine.run("systemctl", "stop", UNIT, "rocelab-revert-*.timer")
    host.changed += [path for path in SYSTEM_FILES if machine.remove(path)]
    ours = (
        PROGRAM_FILE,
        LIBRARY,
        DOCUMENT_FILE,
        UNCONFIRMED_FILE,
        PROGRAM_COPY,
        REVERTED_FILE,
        REBOOT_FILE,
        RUN,
    )
    for path in ours:
        machine.remove(path)
    _remove_copies(machine)
    give_all_back(host)
    for path in (BASELINE_FILE, NICS_FILE, FIRMWARE_BOOTS_FILE, OWNER_FILE, STATE, LOCK_FILE):
        machine.remove(path)


def probe(host: Host) -> Fields:
    fields: Fields = {}
    for step in STEPS:
        if step.target(host.document):
            fields.update(step.observed(host))
    return fields


def facts(host: Host) -> Dict[str, Any]:
    machine = host.machine
    names = [pf["interface"] for pf in host.pfs if pf["interface"] in host.links()]
    known: Dict[str, Any] = {
        "machine_id": machine.read("/etc/machine-id"),
        "boot_id": machine.read(BOOT_ID),
        "kernel": machine.read("/proc/sys/kernel/osrelease"),
        "carrier": {name: machine.read(f"/sys/class/net/{name}/carrier") == "1" for name in names},
        "vfs_in_use": {},
    }
    for name in names:
        for index, reason in host.uses(name).items():
            known["vfs_in_use"][f"{name} VF {index}"] = reason
    leaves = lldp.leaves(machine, names)
    if leaves:
        known["leaves"] = leaves
    warnings = unreverted(host)
    for step in STEPS:
        if step.concerns(host.document):
            step_facts = step.facts(host)
            warnings += [
                warning for warning in step_facts.pop(WARNINGS, []) if warning not in warnings
            ]
            known.update(step_facts)
    if warnings:
        known[WARNINGS] = warnings
    if machine.exists(REVERTED_FILE):
        known["reverted"] = load_json(machine, REVERTED_FILE).get("reverted", [])
    return known


def reboots_needed(host: Host, fields: Fields) -> Dict[str, str]:
    """Fields that wait for a reboot and still deviate, each with the reason."""
    target, pending = target_fields(host.document), host.reboot_reasons()
    return {
        key: pending[key] for key in pending if key in fields and fields[key] != target.get(key)
    }


def failure(step: str, error: RunError) -> Failure:
    return {"step": step, "reason": error.reason[:1500], "hint": error.hint[:500]}


def _wrong_fields(
    host: Host, step: Step, only: Optional[Set[str]]
) -> Dict[str, Tuple[Value, Value]]:
    """Actual and target value of each field of a step that deviates and may be repaired."""
    target = step.target(host.document)
    observed = step.observed(host) if target else {}
    wrong = {}
    for field, value in target.items():
        if observed[field] != value and (only is None or field in only):
            wrong[field] = (observed[field], value)
    return wrong


def _left_out_at_boot(host: Host, step: Step) -> bool:
    """Whether the boot unit skips the step, so it cannot delay a boot either."""
    return host.booting and not step.at_boot


def _waits(host: Host, step: Step) -> bool:
    """Whether an earlier step needs a reboot before this one makes sense."""
    pending = host.reboot_reasons()
    if not pending:
        return False
    earlier = (other for other in STEPS if other.name in step.waits_for)
    return any(field in pending for other in earlier for field in other.target(host.document))


def _awaits_confirmation(wrong: Dict[str, Tuple[Value, Value]]) -> bool:
    """Whether only the confirmation over a new connection is missing."""
    return "unit" in wrong and wrong["unit"][0] == UNCONFIRMED


def _remove_copies(machine: Machine, but: str = "") -> None:
    """Removes copies of older programs, or all of them in an undo."""
    home = login_home(machine)
    for name in machine.names(home) if home else ():
        if name.startswith(COPY_PREFIX) and name != but:
            machine.remove(f"{home}/{name}")


class OwnerError(StepError):
    """The host belongs to another stack."""


def refuse_another_owner(host: Host) -> None:
    """Refuses every change, undo and confirmation by another stack."""
    owner, asking = host.machine.read(OWNER_FILE), _name(host)
    if owner and asking and owner != asking:
        raise OwnerError(
            f"this host belongs to {owner}, and {asking} tried to change it; nothing was changed",
            f"remove the host from one of these stacks; to transfer it: sudo rm {OWNER_FILE} "
            "there, then run again",
        )


def claim(host: Host) -> None:
    """Records the owner of a host that has none."""
    if _name(host) and not host.machine.read(OWNER_FILE):
        host.machine.put(OWNER_FILE, _name(host) + "\n")


def _name(host: Host) -> str:
    return str(host.document.get("owner", ""))


def refuse_upgrade(host: Host) -> None:
    """Refuses an upgrade. Without a preview the hosts' commands start before the Fleet can refuse
    it.
    """
    before = _last_document(host)
    for step in STEPS:
        for field, old, new in changed_versions(step, before, host.document):
            if step.observed(host)[field] == step.target(host.document)[field]:
                continue  # upgraded by hand
            raise StepError(
                f"{field} {old} => {new}: this host runs {old}, and rocelab cannot upgrade hosts "
                "in use yet",
                f"{step.upgrade}, then pulumi up --refresh; or set the version back to {old}",
            )


def _last_document(host: Host) -> Document:
    """The document that was last confirmed; empty on a host that is new or was undone."""
    try:
        document = json.loads(host.machine.read(DOCUMENT_FILE) or "{}")
    except ValueError:
        return {}  # damaged: this run writes it again, and the Fleet refuses by its own records
    return dict(document) if isinstance(document, dict) else {}


def plan(host: Host, fields: Fields) -> Dict[str, Any]:
    """Files, services and refusals of an apply.

    Args:
        host: the host and its document, on a machine that refuses every change.
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
        "refusals": [
            *_refused("owner", refuse_another_owner, host),
            *_refusals(host),
            *_vf_refusals(host, fields),
        ],
    }


def _deviates(step: Step, host: Host, fields: Fields) -> bool:
    return any(fields.get(field) != value for field, value in step.target(host.document).items())


def _has_unit(host: Host, unit: str) -> bool:
    return any(host.machine.exists(f"{folder}/{unit}") for folder in UNIT_FOLDERS)


def _refusals(host: Host) -> Iterator[Failure]:
    """Every refusal. An apply stops at the first one, before it changes anything."""
    for step in STEPS:
        if step.concerns(host.document) and not _left_out_at_boot(host, step):
            yield from _refused(step.name, step.refuse, host)
    if not host.booting:
        yield from _refused("upgrade", refuse_upgrade, host)


def _vf_refusals(host: Host, fields: Fields) -> Iterator[Failure]:
    for pf in host.pfs:
        name, vfs = pf["interface"], pf["vfs"]
        if fields.get(f"{name}.vfs", vfs) != vfs:
            yield from _refused("vfs", refuse_vfs_in_use, host, name, vfs)


def _refused(step: str, check: Callable[..., None], *arguments: Any) -> Iterator[Failure]:
    try:
        check(*arguments)
    except StepError as error:
        yield failure(step, error)
