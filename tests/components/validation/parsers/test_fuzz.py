"""Thousands of damaged logs through all parsers: no number that the text does not bear out, and no other exception.

What a wrong number is: the text says some numbers twice, in other words or in a sum. Such a one has to be the whole
text's own, to within the roundings of both, or there is no answer. Others stand in the text once (latencies,
the time of a small message): if a digit there is exchanged for another, the text is as good as the whole one.
Of them an answer may differ only where the damage touched the line, and the number has to stand there as returned.
"""

import random
import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.validation.parsers import ResultFormatError
from tests.components.validation.parsers.mutations import MUTATIONS, Mutation
from tests.components.validation.parsers.readings import CASES, Case, Reading

INPUTS = 6_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """What the whole text says."""

    case: Case
    reading: Reading
    known: dict[str, set[float]]

    @classmethod
    def of(cls, case: Case) -> "Truth":
        return cls(case=case, reading=case.read(case.text), known=case.known())

    def wrong_numbers(self, got: Reading, damaged: str) -> list[str]:
        right = self.reading.confirmed
        faults = [
            f"{name}: {value} instead of {right.get(name)}"
            for name, (value, _) in got.confirmed.items()
            if name not in right or abs(value - right[name][0]) > right[name][1]
        ]
        other = {name: value for name, value in got.once.items() if value not in self.known.get(name, ())}
        if other:
            untouched = set(self.case.text.splitlines())
            touched = {float(cell) for line in damaged.splitlines() if line not in untouched for cell in numbers(line)}
            faults += [
                f"{name}: {value} stands in no line that was touched"
                for name, value in other.items()
                if value not in touched
            ]
        return faults


def numbers(line: str) -> list[str]:
    return re.findall(r"[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?", line)


@pytest.mark.whole
def test_damaged_logs_give_no_wrong_number() -> None:
    truths = {case.name: Truth.of(case) for case in CASES}
    tried, refused, differing = 0, 0, 0

    @settings(max_examples=INPUTS)
    @given(name=st.sampled_from(list(truths)), mutation=st.sampled_from(MUTATIONS), dice=st.randoms())
    def check(name: str, mutation: Mutation, dice: random.Random) -> None:
        nonlocal tried, refused, differing
        tried += 1
        truth = truths[name]
        damaged = mutation(truth.case.text, dice)
        try:
            got = truth.case.read(damaged)
        except ResultFormatError:
            refused += 1
        else:
            differing += got.once != truth.reading.once
            assert truth.wrong_numbers(got, damaged) == []

    check()
    assert tried >= INPUTS
    assert tried / 5 < refused < tried * 4 / 5, "neither answer is the only one"
    assert differing < tried / 20


def test_the_oracle_sees_a_wrong_number() -> None:
    truth = Truth.of(next(case for case in CASES if case.name == "deepops.client"))
    (name, (value, open_by)), *_ = truth.reading.confirmed.items()

    assert truth.wrong_numbers(truth.reading, truth.case.text) == []
    assert truth.wrong_numbers(Reading(confirmed={name: (value + 2 * open_by, open_by)}), truth.case.text)
    assert truth.wrong_numbers(Reading(once={"typical": 7.5}), truth.case.text)
