"""Records of many transfers: what is packed comes out unchanged, small, or not at all."""

import json
import random

import pytest
from pydantic import ValidationError

from components.validation.planning.plan import Plan
from components.validation.records import (
    PACKED,
    UNIT_OF,
    CurvePoint,
    RunRecord,
    Shape,
    TransferResult,
    VerbsTest,
    compact,
    summarise,
)
from components.validation.records_packing import pack, raw_names, unpack
from stacks.lab import Lab
from tests.components.validation.labs import changed, hardware, plan_for, record, with_nodes

LIMIT_BYTES = 256_000
"""A record in the state of a stack."""


def busy_plan(lab: Lab, nodes: int) -> Plan:
    """Each node against each on two rails, in three tests."""
    assert lab.benchmarks
    update = {"schedule": "pairs", "tests": ("ib_write_bw", "ib_read_bw", "ib_write_lat"), "sizes": (2, 4096)}
    verbs = lab.benchmarks.verbs.model_copy(update=update)
    return plan_for(changed(with_nodes(hardware(lab), nodes), verbs=verbs, budget_s=86_400))


def lifelike(plan: Plan, repeats: int = 1) -> RunRecord:
    """Values with the digits that perftest prints, and all that a run writes beside them."""
    drawn = random.Random(6)  # noqa: S311  # values for a test
    transfers: list[TransferResult] = []
    for stage in plan.stages:
        for number, transfers_of_round in enumerate(plan.rounds_of(stage)):
            for t in transfers_of_round:
                latency = UNIT_OF[stage.test] == "us"
                values = tuple(round(drawn.gauss(1.9 if latency else 97.2, 0.5), 2) for _ in range(repeats))
                sizes = stage.shape == "sizes"
                transfers.append(
                    TransferResult(
                        test=stage.test,
                        shape=stage.shape,
                        rail=t.rail,
                        client=t.client,
                        server=t.server,
                        outcome="measured",
                        samples=() if sizes else values,
                        tail_us=tuple(value + 1 for value in values) if latency and not sizes else (),
                        curve=tuple(CurvePoint(message_bytes=n, value=values[0]) for n in (2, 4096)) if sizes else (),
                        at_once=len(transfers_of_round),
                        after_s=round(number * 2.5 + drawn.random(), 1),
                        path_mtu_bytes=4096,
                        queue_pairs=None if latency else 2,
                        line_rate_gbit_s=100.0,
                        pcie_gbit_s=114.41,
                        client_gid_index=3,
                        server_gid_index=3,
                        counters={"np_cnp_sent": drawn.randrange(9999)} if drawn.random() < 0.05 else {},
                        raw=raw_names(t.rail, stage.name, t.client, t.server, repeats),
                    )
                )
    return record(plan).model_copy(update={"transfers": tuple(transfers), "series": summarise(transfers)})


@pytest.mark.whole
def test_three_tests_of_64_nodes_on_two_rails_keep_every_value_within_the_limit(lab: Lab) -> None:
    whole = lifelike(busy_plan(lab, 64))

    text = compact(whole, LIMIT_BYTES)

    assert len(whole.transfers) == 3 * 64 * 63 * 2 + 4
    assert len(text.encode()) <= LIMIT_BYTES
    assert RunRecord.model_validate_json(text) == whole


def test_what_exceeds_the_limit_is_counted_and_the_worst_is_kept(lab: Lab) -> None:
    whole = lifelike(busy_plan(lab, 24), repeats=3)

    small = RunRecord.model_validate_json(compact(whole, 10_000))

    assert small.left_out + len(small.transfers) == len(whole.transfers)
    assert 0 < len(small.transfers) < len(whole.transfers)
    assert small.series == whole.series


def test_few_transfers_stay_readable(lab: Lab) -> None:
    text = compact(record(plan_for(lab)), LIMIT_BYTES)

    assert PACKED not in json.loads(text)


@pytest.mark.parametrize("number", range(200))
def test_any_transfers_come_out_as_they_went_in(number: int) -> None:
    drawn = random.Random(number)  # noqa: S311  # values for a test
    tests: tuple[VerbsTest, ...] = ("ib_write_bw", "ib_read_lat")
    shapes: tuple[Shape, ...] = ("one_way", "both_ways", "sizes", "incast")
    transfers = [
        TransferResult(
            test=drawn.choice(tests),
            shape=drawn.choice(shapes),
            rail=drawn.choice(["rail-a", "-", "usual"]),
            client=f"gpu{drawn.randrange(99):02}",
            server=drawn.choice(["-", "usual", "gpu01"]),
            outcome=drawn.choice(["measured", "failed", "skipped"]),
            reasons=tuple(drawn.sample(["-", "usual", "", "ä\n\x00"], drawn.randrange(3))),
            samples=tuple(drawn.choice([0.0, 1e-9, 97.25, 1 / 3]) for _ in range(drawn.randrange(4))),
            counters={"-": drawn.randrange(2**60)} if drawn.random() < 0.3 else {},
            raw=drawn.choice(
                [(), ("usual",), ("retest-1/x.client",), raw_names("rail-a", "ib_write_bw", "gpu01", "-", 2)]
            ),
        )
        for _ in range(drawn.randrange(60))
    ]
    packed = pack([transfer.model_dump(mode="json", exclude_defaults=True) for transfer in transfers])

    assert [TransferResult.model_validate(fields) for fields in unpack(packed)] == transfers


def test_a_damaged_text_is_refused_and_gives_no_other_number(lab: Lab) -> None:
    whole = lifelike(busy_plan(lab, 6))
    fields = json.loads(compact(whole, LIMIT_BYTES))
    packed = fields[PACKED]
    for at in range(0, len(packed), 97):
        damaged = packed[:at] + ("A" if packed[at] != "A" else "B") + packed[at + 1 :]
        with pytest.raises(ValidationError):
            RunRecord.model_validate_json(json.dumps({**fields, PACKED: damaged}))
    with pytest.raises(ValueError, match="cut short"):
        unpack(packed[: len(packed) // 10 * 5])
