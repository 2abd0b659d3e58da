"""Which rails' peers a host did not hear when it pinged them: told with both ends, and never a failure."""

from collections.abc import Mapping
from contextlib import suppress

from components.hosts.calls import Hosts, each
from components.hosts.facts import Facts, kept
from components.hosts.records import HostRecord
from components.ssh.connection import NoAnswerError


async def silent_peers(hosts: Hosts, records: Mapping[str, HostRecord], facts: dict[str, Facts]) -> dict[str, str]:
    """Per host the peers that did not answer, or no whole frame: a cable, a VLAN, an MTU, or a machine that is down.

    Hosts are looked at while others are put right, so one that heard nothing is asked once more.

    Args:
        hosts: how they are called.
        records: the hosts of the lab.
        facts: what they said of themselves; takes what they say when they are asked again.
    """
    names = _by_address(records)

    async def ask(name: str, record: HostRecord) -> None:
        with suppress(NoAnswerError):
            facts[name] = kept(await hosts.call(record.endpoint, "probe", record.document))

    await each({name: records[name] for name in _unheard(facts, names) if name in records}, ask)
    return _unheard(facts, names)


def _by_address(records: Mapping[str, HostRecord]) -> dict[str, str]:
    """Whose each address on a rail is."""
    found = {}
    for name, record in records.items():
        pfs = record.document.get("pfs")
        for pf in pfs if isinstance(pfs, list) else ():
            if isinstance(pf, dict):
                found[str(pf.get("address", "")).partition("/")[0]] = name
    return found


def _unheard(facts: Mapping[str, Facts], names: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for host, known in sorted(facts.items()):
        network = known.get("guest_network")
        answers = network.get("ping") if isinstance(network, dict) else None
        lines = []
        for interface, answer in sorted(answers.items()) if isinstance(answers, dict) else ():
            address, _, said = str(answer).partition(" ")
            if said != "answers":
                lines.append(f"{interface} to {names.get(address, 'a host')} ({address}): {said}")
        if lines:
            found[host] = "; ".join(lines)
    return found
