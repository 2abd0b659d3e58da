"""The judgement over a record: two axes, and the reasons for both. Pure, so that a threshold edit measures nothing."""

from collections.abc import Mapping, Sequence
from typing import Literal

from components.validation.physics.ceilings import looks_like_path_mtu, nccl_ceiling_gbyte_s
from components.validation.planning.plan import Plan, PlannedRail
from components.validation.records import NcclResult, RunRecord, Series, TransferResult
from components.validation.summary import JudgedTest, Pair, Performance, Summary
from stacks.benchmarks import Benchmarks, Threshold

SIMULATED = "simulated"
MOST_TEXTS = 8
"""Reasons and hints in a summary; the record has all of them."""


def judge(plan: Plan, benchmarks: Benchmarks, record: RunRecord, cluster_faults: Sequence[str] = ()) -> Summary:
    """Judges what was measured by what the lab demands. What was planned and has no result is never a pass.

    A cluster at fault does not work as declared, whatever was measured on its other nodes.
    """
    tests = [_judge_rail(plan, rail, benchmarks.verbs.threshold, record) for rail in plan.rails if len(rail.ends) > 1]
    if plan.nccl:
        tests.append(_judge_nccl(plan, benchmarks, record))
    rated = [test for test in tests if test.function != "replayed"]
    performance, because = _performance(plan, rated)
    reasons = [
        *cluster_faults,
        *_reasons(record),
        *(_slow(test) for test in rated if test.performance in ("warn", "fail")),
    ]
    if not rated:
        reasons.append("nothing to measure: a rail needs two active nodes")
    return Summary(
        lab=plan.lab,
        simulated=record.simulated,
        mode=benchmarks.mode,
        function="fail" if cluster_faults else function_of(plan, record),
        performance=performance,
        performance_because=because,
        reasons=_few(reasons),
        hints=_few(_hints(plan, record)),
        tests=tuple(tests),
        run_id=record.run_id,
        started_at=record.started_at,
        duration_s=record.duration_s,
        fingerprint=record.fingerprint,
        raw_sha256=record.raw_sha256,
    )


def in_part(judged: Summary, quarantined: Mapping[str, str]) -> Summary:
    """The same judgement when hosts took no part: what works, works in part only, and never as declared."""
    if not quarantined:
        return judged
    named = [f"{name} is quarantined: {text}" for name, text in quarantined.items()]
    return judged.model_copy(
        update={
            "function": "fail" if judged.function == "fail" else "partial",
            "quarantined": dict(quarantined),
            "reasons": _few([*named, *judged.reasons]),
        }
    )


def function_of(plan: Plan, record: RunRecord) -> Literal["pass", "fail", "skip"]:
    """Whether everything that was planned ran and did what the lab declares; thresholds have no part in it."""
    functions = [_rail_function(plan, rail, record) for rail in plan.rails if len(rail.ends) > 1]
    if plan.nccl and (record.nccl is None or not record.nccl.replayed):
        functions.append(_nccl_function(record.nccl))
    if "fail" in functions:
        return "fail"
    return "pass" if functions and set(functions) == {"pass"} else "skip"


def _judge_rail(plan: Plan, rail: PlannedRail, threshold: Threshold, record: RunRecord) -> JudgedTest:
    result = _series(plan, rail, record) or Series(rail=rail.name, measured=0, failed=0, skipped=0)
    measured = [
        t
        for t in record.transfers
        if (t.test, t.shape, t.rail, t.outcome) == (plan.verbs.test, "one_way", rail.name, "measured")
    ]
    function = _rail_function(plan, rail, record)
    slowest = min(measured, key=_value, default=None)
    shown = JudgedTest(
        test=plan.verbs.test,
        rail=rail.name,
        function=function,
        performance="not rated",
        because=SIMULATED if record.simulated else "nothing measured",
        median=result.median,
        unit="Gbit/s",
        worst=Pair(client=slowest.client, server=slowest.server, value=_value(slowest)) if slowest else None,
        measured=result.measured,
        failed=result.failed,
        skipped=result.skipped,
    )
    if record.simulated or not measured:
        return shown
    rated = [(_value(t) / (t.line_rate_gbit_s * rail.ceiling_ratio), t) for t in measured if t.line_rate_gbit_s]
    if not rated:
        return shown.model_copy(update={"because": "the ports do not tell their line rate"})
    ratio, worst = min(rated, key=lambda pair: pair[0])
    return shown.model_copy(
        update={
            "performance": _rate(ratio, threshold),
            "because": "",
            "ceiling": round((worst.line_rate_gbit_s or 0) * rail.ceiling_ratio, 3),
            "basis": f"line rate {worst.line_rate_gbit_s:g} Gbit/s at path MTU {rail.path_mtu_bytes}",
            "ratio": round(ratio, 4),
            "worst": Pair(client=worst.client, server=worst.server, value=_value(worst)),
        }
    )


def _rail_function(plan: Plan, rail: PlannedRail, record: RunRecord) -> Literal["pass", "fail", "skip"]:
    planned = plan.planned(plan.verbs.stages[0], rail.name)
    result = _series(plan, rail, record)
    if result is None or result.measured + result.failed + result.skipped != planned:
        return "fail"  # a result that is missing is no pass
    if result.failed:
        return "fail"
    return "skip" if result.skipped else "pass"


def _series(plan: Plan, rail: PlannedRail, record: RunRecord) -> Series | None:
    return record.series_of(plan.verbs.test, "one_way", rail.name)


def _judge_nccl(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> JudgedTest:
    result = record.nccl or NcclResult(outcome="failed", reasons=("no result",))
    replayed = result.replayed
    shown = JudgedTest(
        test="nccl_all_reduce",
        rail=None,
        function="replayed" if replayed else _nccl_function(record.nccl),
        performance="not rated",
        because="replayed" if replayed else SIMULATED if record.simulated else "nothing measured",
        median=result.busbw_gbyte_s,
        unit="GB/s",
        measured=int(result.outcome == "measured"),
        failed=int(result.outcome == "failed"),
        skipped=int(result.outcome == "skipped"),
    )
    if replayed or record.simulated or result.busbw_gbyte_s is None or plan.nccl is None or benchmarks.nccl is None:
        return shown
    of_rails = [_series(plan, plan.rail(name), record) for name in plan.nccl.rails]
    medians = [series.median for series in of_rails if series and series.median]
    if len(medians) < len(plan.nccl.rails):
        return shown.model_copy(update={"because": "a rail that it runs over was not measured"})
    ceiling = nccl_ceiling_gbyte_s(medians)
    ratio = result.busbw_gbyte_s / ceiling
    return shown.model_copy(
        update={
            "performance": _rate(ratio, benchmarks.nccl.threshold),
            "because": "",
            "ceiling": round(ceiling, 3),
            "basis": f"measured {plan.verbs.test} of {len(medians)} rails",
            "ratio": round(ratio, 4),
        }
    )


def _nccl_function(result: NcclResult | None) -> Literal["pass", "fail", "skip"]:
    if result is None:
        return "fail"
    if result.outcome == "measured":
        return "pass"
    return "fail" if result.outcome == "failed" else "skip"


def _rate(ratio: float, threshold: Threshold) -> Performance:
    if ratio < threshold.fail_below:
        return "fail"
    return "warn" if ratio < threshold.warn_below else "pass"


def _performance(plan: Plan, tests: list[JudgedTest]) -> tuple[Performance, str]:
    """The worst of all tests; one that could not be rated keeps the whole from being a pass."""
    if plan.simulated:
        return "not rated", SIMULATED
    found = {test.performance: test for test in tests}
    if "fail" in found:
        return "fail", ""
    if not tests or "not rated" in found:
        return "not rated", found["not rated"].because if tests else "nothing measured"
    return ("warn" if "warn" in found else "pass"), ""


def _reasons(record: RunRecord) -> list[str]:
    """Why the function axis is not a pass; the same reason of several transfers is said once."""
    texts: dict[str, list[str]] = {}
    for t in record.transfers:
        for reason in t.reasons:
            texts.setdefault(f"{t.outcome}: {reason}", []).append(f"{t.rail} {t.client} to {t.server}")
    lines = [f"{where[0]}{f' and {len(where) - 1} more' if where[1:] else ''} {text}" for text, where in texts.items()]
    if record.nccl and not record.nccl.replayed:
        lines += [f"nccl_all_reduce {record.nccl.outcome}: {reason}" for reason in record.nccl.reasons]
    return lines


def _slow(test: JudgedTest) -> str:
    who = f" {test.worst.client} to {test.worst.server}" if test.worst else ""
    value = test.worst.value if test.worst else test.median
    return (
        f"{test.test}{f' {test.rail}' if test.rail else ''}{who}: {value:.2f} {test.unit} is {test.ratio:.1%} of "
        f"{test.ceiling:.2f} ({test.basis}): {test.performance}"
    )


def _hints(plan: Plan, record: RunRecord) -> list[str]:
    """Where to look. Never a cause: a hint may be wrong."""
    if record.simulated:
        return []
    found: dict[tuple[int, int | None, int], list[str]] = {}
    for t in record.transfers:
        rail = plan.rail(t.rail)
        if t.outcome != "measured" or not t.line_rate_gbit_s:
            continue
        value = _value(t)
        seen = looks_like_path_mtu(value, t.line_rate_gbit_s, rail.path_mtu_bytes, plan.verbs.message_bytes)
        if seen:
            where = f"{t.rail} {t.client} to {t.server}: {value:.2f} Gbit/s"
            found.setdefault((seen, t.path_mtu_bytes, rail.path_mtu_bytes), []).append(where)
    return [
        f"{where[0]}{f' (and {len(where) - 1} more)' if where[1:] else ''} looks like path MTU {seen} while "
        f"{reported} is reported: either a smaller MTU somewhere on the path, or a slow path. "
        f"To decide: ib_write_bw -m {wanted} without -R"
        for (seen, reported, wanted), where in found.items()
    ]


def _value(transfer: TransferResult) -> float:
    return transfer.value


def _few(texts: list[str]) -> tuple[str, ...]:
    cut = [text if len(text) <= 300 else f"{text[:297]}..." for text in texts[:MOST_TEXTS]]
    return (*cut, f"and {len(texts) - MOST_TEXTS} more") if len(texts) > MOST_TEXTS else tuple(cut)
