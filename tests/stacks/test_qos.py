"""Quality of service: one object, and the values that contradict themselves."""

import pytest
from pydantic import ValidationError

from stacks.qos import Qos


def test_the_defaults_are_those_of_the_switch_and_of_deepops():
    qos = Qos()

    assert (qos.dscp, qos.priority, qos.cnp_dscp, qos.cnp_priority) == (26, 3, 48, 6)
    assert (qos.ecn_min_kbytes, qos.ecn_max_kbytes) == (150, 1500)
    assert qos.tos == 106


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cnp_priority": 3}, "separate them"),
        ({"cnp_dscp": 26}, "separate them"),
        ({"ecn_min_kbytes": 1500}, "ecn_max_kbytes 1500 is not above"),
        ({"dscp": 64}, "less than or equal to 63"),
        ({"priority": 8}, "less than or equal to 7"),
    ],
)
def test_a_contradiction_is_refused(given, said):
    with pytest.raises(ValidationError, match=said):
        Qos(**given)
