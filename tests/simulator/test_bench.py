"""The table of `make bench`: what is over its bound is marked, and what was not measured is no figure."""

import pytest
from rich.console import Console

from simulator.bench import as_table, main
from simulator.bench_validation import read_matrix, read_verdicts
from simulator.hosts.bench import Figure
from simulator.part import SimulatorError
from tests.messages import lines_naming

PRINTED = """\
node           4 nodes 1 rails: 200/200 (100.0%), 45.9% measured again, search <= 0.02 s
nic           64 nodes 8 rails: 199/200 (99.5%), 6.2% measured again, search <= 0.51 s
clean fabrics accused: 1 of 2000, 95 % upper bound of the rate 0.237%
"""


def shown(*figures: Figure) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(as_table(figures, "load 0.1 before"))
    return captured.get()


def test_a_figure_over_its_bound_is_marked_and_one_within_it_is_not() -> None:
    slow = Figure(what="preview", command="make preview", value=5.3, unit="s", bound=5.0)
    good = Figure(what="up", command="make up", value=9.0, unit="s", bound=15.0)
    free = Figure(what="drift", command="make drift", value=99.0, unit="s")

    assert [("OVER" in line) for line in shown(slow, good, free).splitlines() if "make " in line] == [
        True,
        False,
        False,
    ]


def test_the_matrix_is_added_up_over_all_faults_and_sizes() -> None:
    wrong, accused, search = read_matrix(PRINTED, "simulation")

    assert (wrong.value, wrong.unit, wrong.bound) == (1, "of 400", 4.0)
    assert (accused.value, accused.unit, accused.bound) == (1, "of 2000", 1.0)
    assert (search.value, search.unit) == (0.51, "s")


@pytest.mark.parametrize("printed", ["", PRINTED.splitlines()[0], PRINTED.splitlines()[-1]])
def test_a_simulation_that_was_cut_short_gives_no_figure(printed: str) -> None:
    with pytest.raises(SimulatorError, match="printed no matrix"):
        list(read_matrix(printed, "simulation"))


def test_verdicts_are_added_up_over_all_sizes() -> None:
    """The lines as `python -m tests.components.validation.judging.healthy` prints them."""
    lines = (
        "  2 nodes 8 rails: 20/20 healthy pass, 19/20 slow nodes found",
        "256 nodes 1 rails: 18/20 healthy pass, 20/20 slow nodes found",
    )
    healthy, slow = read_verdicts("\n".join(lines), "healthy")

    assert (healthy.value, healthy.unit, healthy.bound) == (2, "of 40", 0)
    assert (slow.value, slow.unit, slow.bound) == (1, "of 40", 0)
    with pytest.raises(SimulatorError, match="printed no verdicts"):
        list(read_verdicts("", "healthy"))


def test_a_part_that_is_not_there_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["valdation"])

    assert lines_naming(capsys.readouterr().err, "valdation", "lab, scale, validation, localisation, verdicts")
