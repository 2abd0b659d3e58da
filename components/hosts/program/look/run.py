"""Reads all sections at once, each in its own thread: a thread that hangs in the kernel can only be
abandoned.
"""

import json
import os
import threading
import time
from typing import Any, Callable, Dict, List, Sequence

from . import gpu, network, nic, pci, system
from .leaves import Json, LookSection, reading
from .read_only import ReadOnly

SCHEMA = 1
DEADLINE_S = 30.0
"""For reading alone. The caller waits separately for Python to start, which can take 20 s on a busy
host.
"""
NICENESS = 10


def look(machine: ReadOnly, deadline_s: float = DEADLINE_S, firmware: bool = False) -> Json:
    """Reads the host; `firmware` also reads that of the NICs. It never raises, and ends in time."""
    end_s = time.monotonic() + deadline_s
    document: Json = {"schema": SCHEMA, "system": {}, "network": {}, "carriers": {}}
    listed: Dict[str, Json] = {}
    opening = _started(lambda: listed.update(nics=reading(pci.DEVICES, lambda: _readers(machine))))
    _ended_by(opening, end_s)
    nics: Dict[str, Any] = dict(listed.get("nics", {}).get("value", {}))
    sections = [
        LookSection(system.leaves(machine), document["system"]),
        LookSection(
            network.leaves(
                machine, [name for reader in nics.values() for name in reader.interfaces]
            ),
            document["network"],
        ),
        LookSection(network.carrier_leaves(machine), document["carriers"]),
    ]
    pfs: List[Json] = []
    for address, reader in nics.items():
        pf: Json = {"pci": address, "qos": {}}
        pfs.append(pf)
        sections += [
            LookSection(reader.leaves(firmware=firmware), pf),
            LookSection(reader.qos_leaves(), pf["qos"]),
        ]
    gpus: Dict[str, Json] = {}
    of_gpus = _started(lambda: gpus.update(all=reading(pci.DEVICES, lambda: gpu.gpus(machine))))
    read_at_once(sections, end_s, deadline_s)
    _ended_by(of_gpus, end_s)
    late = {"unknown": f"not read within {deadline_s:.0f} s", "source": pci.DEVICES}
    document["gpus"] = dict(gpus).get("all", late)
    known = "value" in listed.get("nics", {})
    document["pfs"] = (
        {"value": pfs, "source": pci.DEVICES} if known else dict(listed).get("nics", late)
    )
    document["system"]["sudo"] = os.geteuid() == 0
    return dict(copied(document))


def read_at_once(sections: Sequence[LookSection], end_s: float, deadline_s: float) -> None:
    """Reads sections at the same time until `end_s`; what hangs is recorded as not read within
    `deadline_s`.
    """
    threads = [(section, _started(section.read)) for section in sections]
    for section, thread in threads:
        if not _ended_by(thread, end_s):
            section.give_up(deadline_s)


def _readers(machine: ReadOnly) -> Dict[str, nic.NicReader]:
    return {address: nic.NicReader(machine, address) for address in pci.nics(machine)}


def _started(read: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _ended_by(thread: threading.Thread, end_s: float) -> bool:
    thread.join(max(0.0, end_s - time.monotonic()))
    return not thread.is_alive()


def copied(readings: Any) -> Any:
    """A copy that a hung thread can no longer change."""
    if isinstance(readings, dict):
        return {key: copied(value) for key, value in list(readings.items())}
    return [copied(value) for value in readings] if isinstance(readings, list) else readings


def look_around(firmware: bool) -> int:
    """The verb: it needs no document, takes no lock, and runs at the lowest priority."""
    os.nice(NICENESS)
    print(flush=True)  # tells the caller that Python has started
    document = look(ReadOnly(), firmware=firmware)
    print(json.dumps(document, separators=(",", ":")))
    return 0
