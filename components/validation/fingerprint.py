"""When a measurement is obsolete: a digest of the plan and of what the hosts are. Pure."""

import hashlib
import json
from collections.abc import Mapping

from components.validation.plan import Plan

FACTS = ("machine_id", "boot_id", "kernel", "drivers", "driver", "firmware", "ofed")
"""Facts of a host whose change can change a result; whatever else it tells may differ from run to run."""


def host_state(results: Mapping[str, object]) -> str:
    """What counts of the hosts layer's results, as JSON: the same hosts give the same text."""
    return json.dumps({name: _of_host(result) for name, result in sorted(results.items())}, sort_keys=True)


def _of_host(result: object) -> object:
    if not isinstance(result, Mapping):
        return str(result)
    facts = result.get("facts")
    known = facts if isinstance(facts, Mapping) else result
    return {"status": result.get("status"), **{fact: known[fact] for fact in FACTS if fact in known}}


def fingerprint_of(plan: Plan, state: str) -> str:
    """Digest of everything whose change asks for a new measurement."""
    return hashlib.sha256(f"{plan.digest}\n{state}".encode()).hexdigest()
