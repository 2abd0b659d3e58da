"""The pages on validation against the code: they explain every state, code and bound."""

import ast
import re
from collections.abc import Iterator
from typing import get_args

import pytest

from components.report.console import COLOUR, colour_of
from components.validation import history, store
from components.validation import summary as states
from components.validation.benchmarks.verbs import judge as verbs
from components.validation.benchmarks.verbs.transfer_findings import COUNTER_SIGNS
from components.validation.search.located import CODES, CONGESTION, CROWDED_SHARE
from components.validation.search.measured_fabric import BAD_BELOW
from components.validation.summary import Function, Performance, Regression, Summary, closed
from stacks.benchmarks import Benchmarks, LatencyThreshold, Nccl, Threshold, Verbs
from tests.conftest import ROOT

PAGES = [ROOT / "docs" / f"{name}.md" for name in ("validation", "verdict", "localise", "report")]
PAGE = "\n".join(page.read_text() for page in PAGES)
VALIDATION = ROOT / "components" / "validation"
JUDGES = (
    *sorted((VALIDATION / "search").glob("*.py")),
    *sorted((VALIDATION / "benchmarks").rglob("judge.py")),
    VALIDATION / "benchmarks" / "gpu_memory.py",
    *(VALIDATION / "benchmarks" / "nccl" / name for name in ("rings.py", "search.py")),
    *(VALIDATION / "benchmarks" / "verbs" / name for name in ("pvrdma_path.py", "transfer_findings.py")),
    VALIDATION / "verdict.py",
    *(VALIDATION / "benchmarks" / "pods" / name for name in ("faults.py", "run.py")),
    ROOT / "components" / "physics" / "mtu.py",
)
CODE = re.compile(r"[A-Z][A-Z0-9_]{5,}")
FAMILIES = {"MTU_FINGERPRINT_": (256, 512, 1024, 2048)}
"""Codes that are put together, and the endings that occur: 4096 is the largest path MTU, and so never a smaller one."""
NO_CODES = {"PATH_ONE_WAY"}
"""Beginnings of codes that the code compares with."""


def section(title: str) -> str:
    """A chapter of the page, or a part of one."""
    begun = re.search(rf"^(#+) {re.escape(title)}$", PAGE, re.MULTILINE)
    assert begun, f"no page on validation has a section {title}"
    rest = PAGE[begun.end() :]
    following = re.search(rf"^#{{1,{len(begun[1])}}} ", rest, re.MULTILINE)
    return rest[: following.start()] if following else rest


def rows(title: str) -> list[list[str]]:
    """The cells of all tables of a section; heads quote nothing, but for that of the modes."""
    lines = [line.strip("|").split("|") for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in cells] for cells in lines if not set(cells[0]) <= {"-"}]


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def codes() -> Iterator[str]:
    """Every code that a judge can give: they are the only texts in capitals there, and in its table of counters."""
    yield from (sign.code for sign in COUNTER_SIGNS)
    for file in JUDGES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                yield from (f"{node.value}{end}" for end in FAMILIES.get(node.value, ("",)))


def names(annotation: object) -> set[str]:
    return {str(name) for name in get_args(annotation)}


def test_each_code_of_a_finding_has_its_line() -> None:
    told = {code for row in rows("Codes of findings") for code in quoted(row[0])}
    known = set(codes()) - NO_CODES

    assert {code for _, code in CODES.values()} | {CONGESTION, "SOCKET_FALLBACK"} <= known, "they are found at all"
    assert known - told == set(), "describe them in docs/verdict.md, Codes of findings"
    assert told - known - {"…_DOWN", "…_SLOW"} == set(), "they are in no judge any more"


def test_each_state_has_its_line_on_the_axes_on_which_it_occurs() -> None:
    told = {state: row[1] for row in rows("States") for state in quoted(row[0])}
    function = names(Function) | names(Summary.model_fields["function"].annotation)
    performance = names(Performance)

    assert set(told) == function | performance
    for state, axes in told.items():
        on = {axis for axis, of in (("function", function), ("performance", performance)) if state in of}
        assert on == ({"function", "performance"} if axes == "both" else {axes.partition(",")[0]}), state


def test_each_state_has_one_colour_and_only_a_pass_of_now_is_green() -> None:
    function = names(Function) | names(Summary.model_fields["function"].annotation)

    assert set(COLOUR) == function | names(Performance)
    assert [state for state in COLOUR if "green" in colour_of(state)] == ["pass"]
    assert "green" not in {colour_of(state, stale=True) for state in COLOUR}


@pytest.mark.parametrize("setting", ["mode", "verdict"])
def test_each_mode_and_each_comparison_has_its_line(setting: str) -> None:
    modes = rows("Modes"), Benchmarks.model_fields["mode"].annotation
    compared = rows("What a run is compared with"), Regression.model_fields["verdict"].annotation
    lines, annotation = modes if setting == "mode" else compared

    assert {name for row in lines for name in quoted(row[0])} - {"benchmarks.mode"} == names(annotation)


def test_the_bounds_are_the_defaults_of_the_settings_beside_them() -> None:
    sections = {"verbs": Verbs(), "nccl": Nccl(image="x/nccl:1")}
    seen = set()
    for *_, warn, fail, setting in rows("Bounds"):
        if not (name := re.fullmatch(r"`(\w+)\.(\w+)`", setting)):
            continue
        found = getattr(sections[name[1]], name[2])
        seen.add((name[1], name[2]))
        if isinstance(found, Threshold):
            assert (warn, fail) == (f"{found.warn_below * 100:g} %", f"{found.fail_below * 100:g} %"), setting
        else:
            assert (warn, fail) == (f"{found.warn_above_us:g} µs", f"{found.fail_above_us:g} µs"), setting

    kinds = (Threshold, LatencyThreshold)
    assert seen == {
        (of, field)
        for of, values in sections.items()
        for field in type(values).model_fields
        if isinstance(getattr(values, field), kinds)
    }, "each threshold has its line"


def test_fixed_bounds_are_those_of_the_code() -> None:
    compared, bounds, kept = (
        section("What a run is compared with"),
        section("Bounds"),
        section("What is kept, and where"),
    )

    assert f"lost more than {history.LEAST_BANDWIDTH:.0%}".replace("%", " %") in compared
    assert f"grew by more than {history.LEAST_LATENCY:.0%}".replace("%", " %") in compared
    assert f"more than {history.CREEP:.0%} below the best".replace("%", " %") in compared
    assert history.SPREADS == 3, "three times the spread"
    assert f"a spread of {verbs.NOISY_CV:.0%}".replace("%", " %") in bounds
    assert f"{BAD_BELOW:.0%} of a healthy path".replace("%", " %") in section("Codes of findings")
    assert CROWDED_SHARE == 0.2, "a fifth of a rail's transfers"
    assert f"the last {store.KEPT} runs, and the baseline" in kept
    assert f"the last {history.KEPT} runs, and the last one that passed" in kept


def test_the_modes_say_truly_what_the_gate_lets_pass() -> None:
    said = " ".join(section("Modes").split())
    fails = quoted(said.partition("fails when an axis is")[2].partition(".")[0])
    passes = quoted(said.partition("`error`. ")[2].partition(" let the deployment pass")[0])
    function = names(Summary.model_fields["function"].annotation)
    performance = names(Performance)

    for one in function:
        for other in performance:
            assert closed("enforce", one, other) == bool({one, other} & fails), (one, other)
            assert not closed("warn", one, other)
    assert passes == (function | performance) - fails - {"pass"}
    assert states.function_of_tests(["skip", "pass"]) == "skip", "what is left out is no pass"
