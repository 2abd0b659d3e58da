"""The judgement over the rails in pods: does each node's pod get them, and does it reach the
others? Pure.
"""

from collections.abc import Iterator

from components.finding import Finding
from components.validation.benchmarks.plan import Plan
from components.validation.records import PodFault, PodRails, RunRecord
from components.validation.summary import (
    SHOWN_ONLY,
    SIMULATED,
    Function,
    JudgedTest,
    not_run,
    unrated,
)
from stacks.words import some

TEST = "pod_rails"
NO_RESULT = "no result"
MOST_NODES = 3


def judge_pods(plan: Plan, record: RunRecord) -> Iterator[JudgedTest]:
    """One test per rail, or one that enters no verdict where the check was not run."""
    if plan.pods is None:
        return
    pods = record.pods
    if plan.pods.impossible or (pods is not None and pods.played):
        because = plan.pods.impossible or (pods.reason if pods else "")
        yield not_run(TEST, because)
        return
    if pods is None or not pods.rails:
        pairs = sum(len(rail.pairs) for rail in plan.pods.rails)
        if pods is not None and pods.outcome == "skipped":
            yield unrated(TEST, "skip", pods.reason, skipped=pairs)
            return
        why = pods.reason if pods else NO_RESULT
        function: Function = "fail"
        if pods is not None and not pods.faults:
            function = "error"
        yield unrated(TEST, function, why, errors=pairs)
        return
    counts = {count.rail: count for count in pods.rails}
    for rail in plan.pods.rails:
        count = counts.get(rail.name)
        reached = count.reached if count else 0
        whole = count is not None and reached == len(rail.pairs) and count.pods == len(rail.nodes)
        broken = any(fault.rail in ("", rail.name) for fault in pods.faults)
        function = "fail" if broken else "pass" if whole else "error"
        because = SIMULATED if plan.simulated else SHOWN_ONLY
        missing = len(rail.pairs) - reached
        failed, errors = (0, missing) if function == "error" else (missing, 0)
        shares = {"measured": reached, "failed": failed, "errors": errors}
        yield unrated(TEST, function, because, rail=rail.name, **shares)


def pod_reasons(record: RunRecord) -> Iterator[str]:
    """Why the function axis is not a pass."""
    pods = record.pods
    if pods is None or pods.outcome == "measured" or pods.played:
        return
    if pods.reason:
        yield f"{TEST} {pods.outcome}: {pods.reason}"
    for where, faults in _grouped(pods):
        yield f"{where}: {TEST} failed: {faults[0].what}"
    if pods.left_out:
        yield f"{TEST}: and {pods.left_out} more faults"


def pod_findings(record: RunRecord) -> Iterator[Finding]:
    """The faults in pods; nodes with the same fault share a finding."""
    if record.pods is None:
        return
    for where, faults in _grouped(record.pods):
        yield Finding(
            code=faults[0].code, where=where, evidence=faults[0].what, hint=faults[0].hint
        )


def broken_pods(pods: PodRails | None) -> str:
    """Why a job over the rails would hang; empty if pods have them, or if that is unknown."""
    if pods is None or pods.outcome != "failed":
        return ""
    if pods.faults:
        return f"{TEST} did not pass: {pods.faults[0].code}"
    return f"{TEST} did not pass"


def _grouped(pods: PodRails) -> list[tuple[str, list[PodFault]]]:
    """The faults by what they are, each with the nodes in one text."""
    groups: dict[tuple[str, str, str], list[PodFault]] = {}
    for fault in pods.faults:
        groups.setdefault((fault.code, fault.rail, fault.hint), []).append(fault)
    return [(_where(faults), faults) for faults in groups.values()]


def _where(faults: list[PodFault]) -> str:
    nodes = some(list(dict.fromkeys(fault.node or "all nodes" for fault in faults)), MOST_NODES)
    return f"{nodes}, {faults[0].rail or 'all rails'}"
