"""PVRDMA: proven by the counters of both physical ports, or not at all."""

import pytest

from components.validation.judging.pvrdma import FALLBACK, UNKNOWN, Grown, between_hosts, proof_of_hardware

SENT = 5000 * 65_536
IDLE = Grown(sent_bytes=0, received_bytes=0)


def grew(share: float) -> Grown:
    return Grown(sent_bytes=round(SENT * share), received_bytes=round(SENT * share))


@pytest.mark.parametrize("share", [0.95, 1.0, 1.08])
def test_counters_that_grew_by_what_was_sent_prove_the_hardware_path(share: float) -> None:
    assert proof_of_hardware(SENT, grew(share), grew(share)).outcome == "pass"


@pytest.mark.parametrize(("client", "server"), [(IDLE, IDLE), (grew(1), IDLE), (IDLE, grew(1)), (grew(0.5), grew(1))])
def test_a_counter_that_did_not_grow_is_a_fallback(client: Grown, server: Grown) -> None:
    proof = proof_of_hardware(SENT, client, server)

    assert (proof.outcome, proof.code) == ("fail", FALLBACK)
    assert str(SENT) in proof.evidence


UNREADABLE = Grown(sent_bytes=None, received_bytes=None)


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (UNREADABLE, UNREADABLE),
        (grew(1), UNREADABLE),
        (UNREADABLE, grew(1)),
        (grew(-1), grew(1)),  # the counter was reset in between
        (grew(20), grew(1)),  # somebody else's traffic hides ours
    ],
)
def test_what_cannot_be_known_is_unknown_and_never_a_pass(client: Grown, server: Grown) -> None:
    proof = proof_of_hardware(SENT, client, server)

    assert (proof.outcome, proof.code) == ("unknown", UNKNOWN)


def test_one_idle_port_is_a_fallback_though_the_other_cannot_be_read() -> None:
    assert proof_of_hardware(SENT, IDLE, UNREADABLE).code == FALLBACK


def test_a_transfer_of_nothing_proves_nothing() -> None:
    assert proof_of_hardware(0, IDLE, IDLE).outcome == "unknown"


def test_only_pairs_on_two_known_hosts_say_something_about_the_fabric() -> None:
    placement = {"vm1": "esx1", "vm2": "esx1", "vm3": "esx2", "vm4": None}

    kept, left = between_hosts([("vm1", "vm2"), ("vm1", "vm3"), ("vm3", "vm4"), ("vm3", "vm5")], placement)

    assert kept == (("vm1", "vm3"),)
    assert "both run on esx1" in left["vm1", "vm2"]
    assert "vm4" in left["vm3", "vm4"]
    assert "vm5" in left["vm3", "vm5"]
