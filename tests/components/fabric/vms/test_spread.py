"""Judging where machines run: what shares a host, left it, or is gone."""

import pytest

from components.fabric.vms.spread import faults_of
from tests.messages import states

MACHINES = ["gpu01", "gpu02", "plane01"]
APART = ["gpu01", "gpu02"]


def test_machines_on_hosts_of_their_own_are_no_fault():
    places = {"gpu01": "esx1", "gpu02": "esx2", "plane01": "esx1"}

    assert faults_of(places, MACHINES, APART, {"gpu01": "esx1"}) == []


@pytest.mark.parametrize(
    ("places", "pinned", "said"),
    [
        ({"gpu01": "esx1", "gpu02": "esx1", "plane01": "esx1"}, {}, ["gpu01", "gpu02", "esx1"]),
        ({"gpu01": "esx1", "gpu02": "esx2", "plane01": "esx1"}, {"gpu02": "esx3"}, ["gpu02", "esx2", "esx3"]),
        ({"gpu01": "esx1", "gpu02": "esx2"}, {}, ["plane01", "VM"]),
    ],
)
def test_what_is_wrong_is_named(places, pinned, said):
    faults = faults_of(places, MACHINES, APART, pinned)

    assert len(faults) == 1
    assert states(faults[0], *said)
