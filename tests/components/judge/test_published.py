"""Published results: judge agrees with their authors, or has a reason."""

import pytest

from tests.components.judge.published import Published, published

ALL = published() + published("threads")
"""Results with their authors' verdicts, and raw outputs that threads quote."""


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.id)
def test_a_published_result_gets_the_verdict_of_its_authors_or_one_with_a_reason(row: Published) -> None:
    judged = row.judged()

    assert judged.verdict == row.verdict, judged
    assert row.verdict == row.published or row.reason
    assert judged.verdict in ("good", "slow", "broken") or judged.ask or judged.findings
    if row.code:
        assert row.code in {finding.code for finding in judged.findings}


def test_hardly_any_result_that_its_authors_call_good_is_called_slow() -> None:
    good = [row for row in ALL if row.published == "good"]
    slow = [row for row in good if row.judged().verdict in ("slow", "broken")]

    assert len(good) > 40
    # each of these two carries the numbers that contradict its authors in its reason
    assert [row.id for row in slow] == ["P112", "P130"]


def test_nothing_that_its_authors_call_slow_or_broken_is_called_good() -> None:
    assert [row.id for row in ALL if row.published in ("slow", "broken") and row.judged().verdict == "good"] == []
