"""What a host had before rocelab: recorded before anything changes, restored when the host leaves
the lab.
"""

import json
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .carriers import refuse_what_carries_the_host
from .host import Host
from .machine import StepError, load_json
from .places import BASELINE_FILE
from .step import Step
from .steps import STEPS

BASELINE_SCHEMA = 3


def record_baseline(host: Host) -> None:
    """Records what was there before rocelab, per step and per PF. What is recorded already
    stays.
    """
    baseline = read_baseline(host) or {"schema": BASELINE_SCHEMA, "steps": {}, "pfs": {}}
    known = json.dumps(baseline, sort_keys=True)
    for pf in host.pfs:
        baseline["pfs"].setdefault(pf["interface"], {})
    for step in (step for step in STEPS if step.target(host.document)):
        if step.name not in baseline["steps"]:
            baseline["steps"][step.name] = step.before(host)
        for name in (pf["interface"] for pf in host.pfs):
            before = None if step.name in baseline["pfs"][name] else step.before_pf(host, name)
            if before is not None:
                baseline["pfs"][name][step.name] = before
    if json.dumps(baseline, sort_keys=True) != known:
        _save(host, baseline)


def give_back(host: Host, names: Iterable[str]) -> None:
    """Restores PFs to the baseline and removes them from it."""
    baseline = read_baseline(host)
    failed: List[StepError] = []
    for name in names:
        before = baseline["pfs"][name]
        try:
            if name in host.links():
                refuse_what_carries_the_host(host, [name])
                for step in reversed(STEPS):
                    if step.name in before:
                        step.undo_pf(host, name, before[step.name])
                host.changed.append(name)
            del baseline["pfs"][name]
        except (StepError, OSError) as error:
            fault = error if isinstance(error, StepError) else StepError(f"{name}: {error}")
            failed.append(fault)
    _save(host, baseline)
    if failed:
        raise failed[0]


def give_all_back(host: Host) -> None:
    """Restores the whole host to the baseline."""
    baseline = read_baseline(host)
    if not baseline:
        return
    give_back(host, sorted(baseline["pfs"]))
    for step in reversed(STEPS):
        if step.name in baseline["steps"]:
            step.undo(host, baseline["steps"][step.name])


def give_steps_back(host: Host) -> Optional[Tuple[str, StepError]]:
    """Undoes each step that the document no longer asks for, and returns the first failure; each
    run tries again.
    """
    baseline = read_baseline(host)
    failed = None
    for step in reversed(STEPS):
        if step.name in baseline["steps"] and not step.concerns(host.document):
            try:
                for name in (pf["interface"] for pf in host.pfs):
                    recorded = baseline["pfs"].get(name, {})
                    # what a step leaves on the PF, such as firmware settings, keeps its record
                    if step.name in recorded and type(step).undo_pf is not Step.undo_pf:
                        step.undo_pf(host, name, recorded[step.name])
                        del recorded[step.name]
                step.undo(host, baseline["steps"][step.name])
                del baseline["steps"][step.name]
                host.changed.append(f"{step.name} no longer declared")
                _save(host, baseline)
            except (StepError, OSError) as error:
                failed = failed or (
                    step.name,
                    error if isinstance(error, StepError) else StepError(str(error)),
                )
    return failed


def forgotten(host: Host) -> List[str]:
    """PFs that rocelab changed and that the document no longer names."""
    known = read_baseline(host).get("pfs", {})
    return sorted(set(known) - {pf["interface"] for pf in host.pfs})


def read_baseline(host: Host) -> Dict[str, Any]:
    """The baseline, empty if there is none; refuses one that another version of rocelab wrote."""
    baseline = load_json(host.machine, BASELINE_FILE)
    if baseline and baseline.get("schema") != BASELINE_SCHEMA:
        raise StepError(
            f"{BASELINE_FILE} has schema {baseline.get('schema')}, not {BASELINE_SCHEMA}: another "
            "version wrote it",
            "undo this host with that version (pulumi destroy), then run this one",
        )
    return baseline


def _save(host: Host, baseline: Dict[str, Any]) -> None:
    host.machine.put(BASELINE_FILE, json.dumps(baseline, indent=1, sort_keys=True) + "\n")
