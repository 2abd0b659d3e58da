"""The revert: a network change undoes itself after a time unless a new connection confirms it."""

import json
import os
import subprocess
from typing import Any, Callable, Collection, Dict, List, Sequence

from .guest import mode_of, reloads
from .host import Host
from .lock import locked
from .machine import Machine, load_json
from .places import REVERT_FILE, REVERTED_FILE, RUN, UNCONFIRMED_FILE

PROGRAM_COPY = RUN + "/host.pyz"
LONGEST_RUN_S = 4 * 3600
"""How long the revert waits for the lock: a run that installs packages and drivers holds it for
hours."""


def arm_revert(
    host: Host,
    pfs: Collection[str],
    files: Sequence[str] = (),
    stop: Sequence[List[str]] = (),
    start: Sequence[List[str]] = (),
) -> None:
    """Makes the host put these links back by itself unless a new connection confirms them in time.

    Args:
        host: this run.
        pfs: whose links are put back.
        files: put back too, before the links: the guest's network tool would set the links again.
        stop: commands before the files are put back.
        start: commands after them, for files that existed before; for new files the tool only
            reloads.
    """
    if host.booting:
        return  # what is applied at boot was confirmed before
    machine, after_s = host.machine, host.document["revert_after_s"]
    pending = load_json(machine, REVERT_FILE)
    links = pending.get("links", {})
    for pf in pfs:
        links.setdefault(
            pf, host.link_state(pf)
        )  # while one is pending, its older values are the proven ones
    kept = pending.get("tools", [])
    if files and not any(entry["files"].keys() & set(files) for entry in kept):
        texts = {path: machine.content(path).decode(errors="replace") for path in files}
        kept.append({"files": texts, "stop": list(stop), "start": list(start)})
    record = {
        "deadline_s": machine.now_s() + after_s,
        "links": links,
        **({"tools": kept} if kept else {}),
    }
    machine.put(REVERT_FILE, json.dumps(record) + "\n")
    failed = load_json(machine, REVERTED_FILE).get("failed", {})
    still = {
        name: entry for name, entry in failed.items() if name not in links and name not in files
    }
    if still:
        _put_record(machine, [], still)
    else:
        machine.remove(REVERTED_FILE)
    if host.armed:
        return
    host.armed = True
    machine.put(PROGRAM_COPY, host.program)
    command = ["python3", "-I", PROGRAM_COPY, "revert"]
    if machine.exists("/run/systemd/system"):
        timer = [
            f"--unit=rocelab-revert-{os.getpid()}",
            f"--on-active={after_s}",
            "--timer-property=AccuracySec=1s",
        ]
        machine.must("systemd-run", "--quiet", "--collect", *timer, "--", "/usr/bin/env", *command)
    else:
        subprocess.Popen(  # it sleeps until the deadline by itself
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def revert(machine: Machine) -> int:
    """Waits for the deadline, which a running apply may move, and puts the links back."""
    while True:
        with locked(machine, "revert", LONGEST_RUN_S):
            pending = load_json(machine, REVERT_FILE)
            left_s = pending["deadline_s"] - machine.now_s() if pending else 0
            if not pending:
                return 0
            if left_s <= 0:
                return _revert_now(machine, pending)
        machine.pause(min(left_s + 0.2, 30))


def _revert_now(machine: Machine, pending: Dict[str, Any]) -> int:
    """Restores what it can, and records the rest with the reason; returns 1 if there is any."""
    host, links, failed = Host(machine, {"pfs": []}, b""), pending["links"], {}
    for entry in pending.get("tools", []):
        reason = _failure(_put_back, machine, entry)
        failed.update({path: {"reason": reason} for path in entry["files"] if reason})
    for pf, before in links.items():
        reason = _failure(_put_link_back, host, pf, before)
        if reason:
            failed[pf] = {"reason": reason, "before": before}
    _put_record(machine, sorted(links.keys() - failed.keys()), failed)
    machine.remove(UNCONFIRMED_FILE)
    machine.remove(REVERT_FILE)
    return 1 if failed else 0


def _failure(act: Callable[..., None], *arguments: Any) -> str:
    """Why this fails; empty when it succeeds."""
    try:
        act(*arguments)
    # whatever fails must not keep the rest from being reverted
    except Exception as error:  # noqa: BLE001
        return str(error) or type(error).__name__
    return ""


def _put_link_back(host: Host, pf: str, before: Dict[str, Any]) -> None:
    host.forget()
    host.ip_batch(host.link_changes(pf, before), force=True)


def _put_record(machine: Machine, reverted: List[str], failed: Dict[str, Any]) -> None:
    machine.put(REVERTED_FILE, json.dumps({"reverted": reverted, "failed": failed}) + "\n")


def unreverted(host: Host) -> List[str]:
    """A warning for each link and file that the revert could not restore and that still differs."""
    failed = load_json(host.machine, REVERTED_FILE).get("failed", {})
    warnings = []
    for name, entry in sorted(failed.items()):
        if "before" not in entry or host.link_changes(name, entry["before"]):
            warnings.append(
                f"{name} could not be reverted after a change that no new connection confirmed in "
                f"time: {entry['reason']}; check it on the host"
            )
    return warnings


def _put_back(machine: Machine, entry: Dict[str, Any]) -> None:
    """Restores files of a network tool and reloads it. What fails here is covered by the links,
    which come next.
    """
    for words in entry["stop"]:
        machine.run(*words)
    for path, text in entry["files"].items():
        if text:
            machine.put(path, text, mode=mode_of(path))
        else:
            machine.remove(path)
    known = any(entry["files"].values())
    for words in entry["start"] if known else reloads(list(entry["files"])):
        machine.run(*words)
