"""When a measurement is obsolete: a digest of the plan and of what the hosts are. Pure."""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping

from components.validation.planning.plan import Plan

FACTS = ("machine_id", "boot_id", "repairs", "kernel", "driver", "firmware", "gpu", "gpudirect", "roce_qos")
"""Facts of a host whose change can change a result; whatever else it tells may differ from run to run."""


def host_state(results: Mapping[str, object], facts: Mapping[str, object]) -> str:
    """What counts of the hosts, as JSON: the same hosts give the same text."""
    names = sorted({*results, *facts})
    state = {name: [_part(results.get(name), ("status",)), _part(facts.get(name), FACTS)] for name in names}
    return json.dumps(state, sort_keys=True)


def _part(value: object, keys: tuple[str, ...]) -> object:
    return {key: value[key] for key in keys if key in value} if isinstance(value, Mapping) else None


def fingerprint_of(plan: Plan, state: str) -> str:
    """Digest of everything whose change asks for a new measurement."""
    return hashlib.sha256(f"{plan.digest}\n{state}".encode()).hexdigest()


def packed(state: str) -> str:
    """A host state small enough to be kept beside the measurement: hosts of one kind cost little."""
    return base64.b64encode(zlib.compress(state.encode(), 9)).decode()


def unpacked(text: str) -> str:
    """The host state that was packed."""
    return zlib.decompress(base64.b64decode(text)).decode()
