"""What the benchmarks section refuses, by path, with value and remedy."""

import copy
import json
from typing import Any

import pytest
import yaml

from stacks.base import LabError
from stacks.benchmarks import Verbs
from stacks.read import parse_lab
from tests.conftest import ROOT

LAB = yaml.safe_load((ROOT / "Pulumi.lab.yaml").read_text())["config"]["rocelab:lab"]


def said_of(**verbs: Any) -> str:
    lab = copy.deepcopy(LAB)
    lab["benchmarks"]["verbs"].update(verbs)
    try:
        parse_lab(json.dumps(lab), "lab.yaml")
    except LabError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("verbs", "expected"),
    [
        ({"tests": ["ib_write_bw", "ib_write_bw"]}, "tests lists ib_write_bw twice"),
        ({"tests": []}, "tests"),
        ({"tests": ["ib_atomic_bw"]}, "tests"),
        ({"tests": ["ib_write_lat"], "both_ways": True}, "both_ways measures bandwidth"),
        ({"queue_pairs": 65}, "queue_pairs is 65; set 1 to 64, or auto"),
        ({"sizes": [4096, 2]}, "sizes are not ascending"),
        ({"sizes": [2, 16_777_216]}, "16777216 bytes, but perftest sends 2 to 8388608"),
        ({"duration_s": 60, "timeout_s": 60}, "at least 70"),
        ({"iterations": None, "timeout_s": 12}, "ends a run of duration_s 5 before it can report; set at least 15"),
        ({"incast": 2}, "benchmarks.verbs.incast: 2 senders need one receiver more"),
        (
            {"first_port": 65_535},
            "benchmarks.verbs.first_port: 65535 leaves too few of the 2 ports",
        ),
        ({"latency": {"warn_above_us": 20, "fail_above_us": 10}}, "warn_above_us 20.0 is above fail_above_us 10.0"),
    ],
)
def test_what_cannot_be_measured_is_refused(verbs: dict[str, Any], expected: str) -> None:
    said = said_of(**verbs)

    assert expected in said
    assert "verbs" in said


def test_a_lab_may_ask_for_everything_that_two_nodes_can_do() -> None:
    tests = ["ib_send_lat", "ib_read_bw", "ib_send_bw", "ib_write_bw", "ib_read_lat", "ib_write_lat"]

    assert said_of(tests=tests, both_ways=True, incast=1, duration_s=10, queue_pairs="auto") == ""


def test_each_test_has_the_threshold_that_fits_it() -> None:
    verbs = Verbs()

    assert verbs.threshold_of("ib_send_bw", "one_way").fail_below == 0.90
    assert verbs.threshold_of("ib_read_bw", "one_way").fail_below == 0.85
    assert verbs.threshold_of("ib_write_bw", "both_ways").warn_below == 0.92
    assert verbs.threshold_of("ib_read_bw", "one_way", pvrdma=True).fail_below == 0.70
    assert verbs.latency_of().fail_above_us == 10
    assert verbs.latency_of(pvrdma=True).fail_above_us == 50
