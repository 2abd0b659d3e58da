"""A rail on which nobody answers is told with both ends, once it is sure, and fails no host."""

from typing import Any

import pytest

from components.hosts.records import HostRecord
from components.hosts.repair import Outcome
from tests.components.hosts.fleet_hosts import FakeHosts, converged, crew, record
from tests.messages import states

SILENT = "10.10.11.2 does not answer"
SMALL = "10.10.11.1 answers, but not to frames of 9000 bytes: an MTU on the path is smaller"


class Recovering(FakeHosts):
    """The peer was being put right when it was pinged first."""

    async def call(self, *words: Any) -> Any:
        report = await super().call(*words)
        self.facts = {2201: heard("10.10.11.2 answers")}
        return report


def heard(answer: str) -> dict[str, Any]:
    return {"guest_network": {"tool": "netplan", "ping": {"enp5s0": answer}}}


def two(hosts: FakeHosts) -> dict[str, HostRecord]:
    both = {"gpu01": record("gpu01", 1), "gpu02": record("gpu02", 2)}
    for one in both.values():
        hosts.knows(one)
    return both


@pytest.mark.parametrize(
    ("facts", "name", "told"),
    [
        ({2201: heard(SILENT)}, "gpu01", ["enp5s0", "gpu02 (10.10.11.2)", "not answer"]),
        ({2202: heard(SMALL)}, "gpu02", ["enp5s0", "gpu01 (10.10.11.1)", "9000 bytes"]),
        ({2201: heard("10.10.99.9 does not answer")}, "gpu01", ["enp5s0", "10.10.99.9", "not answer"]),
    ],
)
def test_a_peer_that_is_not_heard_is_a_warning_in_the_output_with_both_ends(facts, name, told):
    hosts, said = FakeHosts(), list[str]()
    both, hosts.facts = two(hosts), facts

    outcome: Outcome = converged(crew(hosts, said), both, both)

    assert outcome.results[name]["status"] == "ready", "the other machine may be the one that is broken"
    assert states(outcome.results[name]["warning"], *told)
    assert [line for line in said if states(line, name, *told)]
    assert [other for other, result in outcome.results.items() if "warning" in result] == [name]


def test_a_peer_that_answers_when_it_is_asked_again_is_no_warning():
    hosts, said = Recovering(), list[str]()
    both, hosts.facts = two(hosts), {2201: heard(SILENT)}

    outcome = converged(crew(hosts, said), both, both)

    assert outcome.results == {"gpu01": {"status": "ready"}, "gpu02": {"status": "ready"}}
    assert "probe" in hosts.verbs(2201)
    assert outcome.facts["gpu01"]["guest_network"] == heard("10.10.11.2 answers")["guest_network"]


def test_hosts_that_reach_each_other_or_ping_no_peer_are_not_asked_again():
    hosts, said = FakeHosts(), list[str]()
    both, hosts.facts = two(hosts), {2201: heard("10.10.11.2 answers")}

    outcome = converged(crew(hosts, said), both, both)

    assert said == []
    assert outcome.results["gpu01"] == {"status": "ready"}
    assert "probe" not in hosts.verbs(2201) + hosts.verbs(2202)
