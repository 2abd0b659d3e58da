"""Quality of service: one object, and the values that contradict themselves."""

import pytest
from pydantic import ValidationError

from stacks.qos import Qos
from tests.messages import states


def test_the_defaults_are_those_of_the_switch_and_of_deepops():
    qos = Qos()

    assert (qos.dscp, qos.priority, qos.cnp_dscp, qos.cnp_priority) == (26, 3, 48, 6)
    assert (qos.ecn_min_kbytes, qos.ecn_max_kbytes) == (150, 1500)
    assert qos.tos == 106


@pytest.mark.parametrize(
    ("given", "field", "kind", "facts"),
    [
        ({"cnp_priority": 3}, (), "value_error", ["priority", "DSCP"]),
        ({"cnp_dscp": 26}, (), "value_error", ["priority", "DSCP"]),
        ({"ecn_min_kbytes": 1500}, (), "value_error", ["ecn_max_kbytes 1500", "ecn_min_kbytes 1500"]),
        ({"dscp": 64}, ("dscp",), "less_than_equal", [63]),
        ({"priority": 8}, ("priority",), "less_than_equal", [7]),
    ],
)
def test_a_contradiction_is_refused(given, field, kind, facts):
    with pytest.raises(ValidationError) as refused:
        Qos(**given)

    [fault] = refused.value.errors()
    assert (fault["loc"], fault["type"]) == (field, kind)
    assert states(fault["msg"], *facts)
