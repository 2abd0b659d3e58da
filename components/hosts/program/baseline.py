"""What was there before us: written down before anything changes, given back when we leave."""

import json
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .carriers import refuse_what_carries_the_host
from .host import Host
from .machine import StepError, load_json
from .places import BASELINE_FILE
from .steps import STEPS

BASELINE_SCHEMA = 2


def record_baseline(host: Host) -> None:
    """Writes down what was there before us. What is recorded already stays; a step that is new joins."""
    baseline = _recorded(host) or {"schema": BASELINE_SCHEMA, "steps": {}, "pfs": {}}
    known = json.dumps(baseline, sort_keys=True)
    for step in STEPS:
        if step.name not in baseline["steps"] and step.wanted(host.document):
            baseline["steps"][step.name] = step.before(host)
    for name in (pf["interface"] for pf in host.pfs):
        recorded: Dict[str, Any] = baseline["pfs"].setdefault(name, {})
        for step in STEPS:
            found = step.before_pf(host, name) if step.wanted(host.document) else {}
            recorded.update({key: value for key, value in found.items() if key not in recorded})
    if json.dumps(baseline, sort_keys=True) != known:
        _save(host, baseline)


def give_back(host: Host, names: Iterable[str]) -> None:
    """Puts PFs back to the baseline and forgets them there."""
    baseline = _recorded(host)
    failed: List[StepError] = []
    for name in names:
        before = baseline["pfs"][name]
        try:
            if name in host.links():
                refuse_what_carries_the_host(host, [name])
                for step in reversed(STEPS):
                    step.undo_pfs(host, {name: before})
                host.changed.append(name)
            del baseline["pfs"][name]
        except (StepError, OSError) as error:
            failed.append(error if isinstance(error, StepError) else StepError(f"{name}: {error}"))
    _save(host, baseline)
    if failed:
        raise failed[0]


def give_all_back(host: Host) -> None:
    """Puts the whole host back to the baseline."""
    baseline = _recorded(host)
    if not baseline:
        return
    give_back(host, sorted(baseline["pfs"]))
    for step in reversed(STEPS):
        if step.name in baseline["steps"]:
            step.undo(host, baseline["steps"][step.name])


def give_steps_back(host: Host) -> Optional[Tuple[str, StepError]]:
    """Undoes each step that the document no longer asks for; the first that failed. It is tried again by each run."""
    baseline = _recorded(host)
    failed = None
    for step in reversed(STEPS):
        if step.name in baseline["steps"] and not step.concerns(host.document):
            try:
                for pf in host.pfs:
                    recorded = baseline["pfs"].get(pf["interface"], {})
                    keys = step.before_pf(host, pf["interface"])
                    if keys and set(keys) <= set(recorded):
                        step.undo_pfs(host, {pf["interface"]: recorded})
                        baseline["pfs"][pf["interface"]] = {k: recorded[k] for k in recorded if k not in keys}
                step.undo(host, baseline["steps"][step.name])
                del baseline["steps"][step.name]
                host.changed.append(f"{step.name} no longer asked for")
                _save(host, baseline)
            except (StepError, OSError) as error:
                failed = failed or (step.name, error if isinstance(error, StepError) else StepError(str(error)))
    return failed


def forgotten(host: Host) -> List[str]:
    """PFs that we changed once and that the document no longer names."""
    known = _recorded(host).get("pfs", {})
    return sorted(set(known) - {pf["interface"] for pf in host.pfs})


def _recorded(host: Host) -> Dict[str, Any]:
    found = load_json(host.machine, BASELINE_FILE)
    if found and found.get("schema") != BASELINE_SCHEMA:
        raise StepError(
            f"{BASELINE_FILE} has schema {found.get('schema')}, not {BASELINE_SCHEMA}: another version wrote it",
            "undo this host with that version (pulumi destroy), then run this one",
        )
    return found


def _save(host: Host, baseline: Dict[str, Any]) -> None:
    host.machine.put(BASELINE_FILE, json.dumps(baseline, indent=1, sort_keys=True) + "\n")
