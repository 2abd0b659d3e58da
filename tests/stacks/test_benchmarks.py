"""What the benchmarks section refuses, by path, with value and remedy."""

import copy
from typing import Any

import pytest

from stacks.base import LabError
from stacks.benchmarks import Verbs
from tests.labs import lab_of, section_of
from tests.stacks.refusals import has_fault

LAB = section_of("Pulumi.lab.yaml")


def said_of(**verbs: Any) -> str:
    lab = copy.deepcopy(LAB)
    lab["benchmarks"]["verbs"].update(verbs)
    try:
        lab_of(lab)
    except LabError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("verbs", "field", "facts"),
    [
        ({"tests": ["ib_write_bw", "ib_write_bw"]}, "", ["tests", "ib_write_bw", "twice"]),
        ({"tests": []}, ".tests", [1]),
        ({"tests": ["ib_atomic_bw"]}, ".tests[0]", ["'ib_atomic_bw'"]),
        ({"tests": ["ib_write_lat"], "both_ways": True}, "", ["both_ways", "ib_write_bw"]),
        ({"queue_pairs": 65}, "", ["queue_pairs", 65, 64, "auto"]),
        ({"sizes": [4096, 2]}, "", ["sizes", "ascending"]),
        ({"sizes": [2, 16_777_216]}, "", ["sizes", 16777216, 2, 8388608]),
        ({"duration_s": 60, "timeout_s": 60}, "", ["timeout_s 60", "duration_s 60", 70]),
        ({"iterations": None, "timeout_s": 12}, "", ["timeout_s 12", "duration_s 5", 15]),
        ({"incast": 2}, ".incast", ["2 senders", "one"]),
        ({"first_port": 65_535}, ".first_port", [65535, "2 ports"]),
        (
            {"latency": {"warn_above_us": 20, "fail_above_us": 10}},
            ".latency",
            ["warn_above_us 20.0", "fail_above_us 10.0"],
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(verbs: dict[str, Any], field: str, facts: list[str | int]) -> None:
    assert has_fault(said_of(**verbs), f"benchmarks.verbs{field}", *facts)


def test_a_lab_may_ask_for_everything_that_two_nodes_can_do() -> None:
    tests = ["ib_send_lat", "ib_read_bw", "ib_send_bw", "ib_write_bw", "ib_read_lat", "ib_write_lat"]

    assert said_of(tests=tests, both_ways=True, incast=1, duration_s=10, queue_pairs="auto") == ""


def test_each_test_has_the_threshold_that_fits_it() -> None:
    verbs = Verbs()

    assert verbs.threshold_of("ib_send_bw", "one_way") is verbs.threshold
    assert verbs.threshold_of("ib_read_bw", "one_way") is verbs.threshold_read
    assert verbs.threshold_of("ib_write_bw", "both_ways") is verbs.threshold_both_ways
    assert verbs.threshold_of("ib_read_bw", "one_way", pvrdma=True) is verbs.threshold_pvrdma
    assert verbs.latency_of() is verbs.latency
    assert verbs.latency_of(pvrdma=True) is verbs.latency_pvrdma


@pytest.mark.parametrize(
    ("placement", "field", "facts"),
    [
        ({"tolerations": [{"key": "sku", "operator": "Exists", "value": "gpu"}]}, ".tolerations[0]", ["Exists", "gpu"]),
        ({"tolerations": [{"effect": "NoSchedule"}]}, ".tolerations[0]", ["key", "Exists"]),
        ({"labels": {"rocelab.dev/run": "mine"}}, "", ["rocelab.dev/run"]),
        ({"annotations": {"k8s.v1.cni.cncf.io/networks": "other"}}, "", ["k8s.v1.cni.cncf.io/networks"]),
    ],
)
def test_a_placement_that_kubernetes_or_rocelab_cannot_keep_is_refused(
    placement: dict[str, Any], field: str, facts: list[str]
) -> None:
    lab = copy.deepcopy(LAB)
    lab["benchmarks"].update(placement)

    with pytest.raises(LabError) as refused:
        lab_of(lab)

    assert has_fault(str(refused.value), f"benchmarks{field}", *facts)
