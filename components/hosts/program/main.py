"""Where the program starts: one verb, one document, one line of JSON."""

import json
import re
import signal
import sys
import threading
import traceback
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from .host import Document, Host
from .identity import devices_are_there
from .lock import locked, wait_for_boot
from .look.read_only import ReadOnly
from .machine import Machine, OutOfTimeError, RunError, StepError
from .membership import CLUSTER_VERBS, answer
from .places import (
    BOOT_DEVICE_WAIT_S,
    BOOT_LOCK_WAIT_S,
    DEADLINE_S,
    DOCUMENT_FILE,
    PROBE_S,
    SCHEMA,
)
from .revert import revert
from .steps import target_fields
from .verbs import (
    Failure,
    OwnerError,
    apply,
    confirm,
    facts,
    failure,
    plan,
    probe,
    reboots_needed,
    refuse_another_owner,
    undo,
)

VERBS = ("apply", "probe", "plan", "confirm", "revert", "undo", "boot", *CLUSTER_VERBS)

PLAN_PROGRAM_S = 30.0
"""Bound on each program of a plan. A tool that asks a NIC's firmware takes longer than those of a
look."""
ANNOUNCE_S = 30.0
"""How often a run reports its step; the caller shows stderr while it waits."""


def main(arguments: Sequence[str], program: bytes) -> int:
    """Runs one verb; its result is the one line on stdout.

    Args:
        arguments: the verb.
        program: this program as it was packed, to be installed on the host.
    """
    if len(arguments) != 1 or arguments[0] not in VERBS:
        sys.stderr.write(f"usage: host.pyz {' | '.join(VERBS)}\n")
        return 2
    verb = arguments[0]
    machine = ReadOnly(program_s=PLAN_PROGRAM_S) if verb == "plan" else Machine()
    if verb == "revert":
        return revert(machine)
    if verb == "boot" and not machine.exists(DOCUMENT_FILE):
        sys.stderr.write("no confirmed document yet: nothing to do\n")
        return 0
    signal.signal(signal.SIGALRM, lambda *_: _out_of_time(machine))
    text = machine.read(DOCUMENT_FILE) if verb == "boot" else sys.stdin.read()
    result = perform(verb, machine, text, program)
    sys.stdout.write(json.dumps(result, sort_keys=True, separators=(",", ":")) + "\n")
    return 1 if verb == "boot" and result["failed"] else 0


def perform(verb: str, machine: Machine, text: str, program: bytes) -> Dict[str, Any]:
    """Runs one verb; the result as data, whatever happens."""
    result: Dict[str, Any] = {"schema": SCHEMA, "host": "", "changed": [], "needs_reboot": []}
    result.update(facts={}, fields={}, failed=None)
    host: Optional[Host] = None
    ended = announce(
        lambda: f"{verb}: {host.at if host else 'its document'}, {machine.awaited or 'no program'}"
    )
    try:
        document = read_document(text, untrusted=verb == "plan")
        only = document.pop("only", None)
        result["host"] = document["host"]
        bound_s = PROBE_S
        if verb not in ("probe", "plan"):
            bound_s = int(document.get("deadline_s", DEADLINE_S))
        signal.alarm(bound_s)
        host = Host(machine, document, program)
        if verb == "boot":
            host, result["failed"] = boot(host, text)
        else:
            wait_for_boot(machine)
            result["failed"] = _change(verb, host, only)
        if verb in CLUSTER_VERBS:
            result["facts"] = answer(host)
        elif verb != "undo":
            _observe(verb, host, result)
    except RunError as error:
        result["failed"] = failure(_place_of(error, host, verb), error)
    # a fault of this program is data too: other hosts go on
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        result["failed"] = {
            "step": verb,
            "reason": f"{type(error).__name__}: {error}"[:1500],
            "hint": "see stderr",
        }
    finally:
        signal.alarm(0)
        ended.set()
    if host is not None:
        result["changed"] = host.changed
    return result


def _change(verb: str, host: Host, only: Optional[Sequence[str]]) -> Optional[Failure]:
    """Runs a verb that changes the host, under its lock; returns what failed in an apply."""
    if verb in ("probe", "plan"):
        return None
    with locked(host.machine, verb):
        refuse_another_owner(host)
        if verb == "apply":
            fields = None if only is None else set(only)
            return apply(host, fields)
        changes = {"confirm": confirm, "undo": undo, **CLUSTER_VERBS}
        changes[verb](host)
    return None


def _observe(verb: str, host: Host, result: Dict[str, Any]) -> None:
    """Enters facts and fields after a verb, each at once: a later failure keeps what was read."""
    # an apply is confirmed next: its facts are read then, and once
    if verb in ("probe", "plan", "confirm"):
        result["facts"] = facts(host)
    fields = probe(host)
    result["needs_reboot"] = sorted(reboots_needed(host, fields).values())
    if verb == "plan":
        result["facts"].update(plan(host, fields))
    if verb in ("apply", "boot"):  # kept in the state or a log: only deviations matter there
        target = target_fields(host.document)
        fields = {key: value for key, value in fields.items() if value != target[key]}
    result["fields"] = fields


def _place_of(error: RunError, host: Optional[Host], verb: str) -> str:
    """What a failure is attributed to: the owner, the step at work when the time was over, or the
    verb.
    """
    if isinstance(error, OwnerError):
        return "owner"
    if isinstance(error, OutOfTimeError) and host is not None and host.at.startswith("step "):
        return host.at[len("step ") :]
    return verb


def boot(host: Host, text: str) -> Tuple[Host, Optional[Failure]]:
    """Applies the confirmed document once the devices exist. The owner installed the unit, so it is
    not checked.
    """
    machine = host.machine
    machine.wait(lambda: devices_are_there(host), BOOT_DEVICE_WAIT_S)
    with locked(machine, "boot", BOOT_LOCK_WAIT_S, confirmed=True):
        confirmed = Host(machine, read_document(machine.read(DOCUMENT_FILE) or text), host.program)
        confirmed.booting = True
        signal.alarm(int(confirmed.document.get("deadline_s", DEADLINE_S)))
        return confirmed, apply(confirmed, None)


def announce(doing: Callable[[], str]) -> threading.Event:
    """Reports progress on stderr at intervals until the event is set."""
    ended = threading.Event()

    def announce_until_ended() -> None:
        waited_s = ANNOUNCE_S
        while not ended.wait(ANNOUNCE_S):
            sys.stderr.write(f"{doing()}, {waited_s:.0f} s since the start\n")
            sys.stderr.flush()
            waited_s += ANNOUNCE_S

    threading.Thread(target=announce_until_ended, daemon=True).start()
    return ended


def read_document(text: str, untrusted: bool = False) -> Document:
    """The document on stdin. An untrusted one comes from a login that may only read; no value
    of it becomes an option or a path.

    Some programs run others by an option, such as `rpm --pipe`.
    """
    try:
        document = json.loads(text)
        known = document["schema"] == SCHEMA and isinstance(document["pfs"], list)
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise StepError(
            f"stdin holds no document of schema {SCHEMA}", "run pulumi up: it sends one"
        )
    if untrusted and re.search(r'"-|\.\./', json.dumps(document)):
        raise StepError(
            "a value of the document begins with a hyphen or contains ../",
            "correct it in the lab file",
        )
    return dict(document)


def _out_of_time(machine: Machine) -> None:
    waits = (
        f"it waits for `{machine.awaited}`"
        if machine.awaited
        else "no program of this host was running"
    )
    raise OutOfTimeError(
        f"exceeded its time limit: {waits}", "see what hangs on this host: ps, dmesg"
    )
