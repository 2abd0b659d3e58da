"""The judgement over the rails in pods: does each node's pod get them, and does it reach the others? Pure."""

from collections.abc import Iterator

from components.finding import Finding
from components.validation.benchmarks.plan import Plan
from components.validation.records import PodFault, PodRails, RunRecord
from components.validation.summary import SHOWN_ONLY, SIMULATED, JudgedTest, not_run
from stacks.words import some

TEST = "pod_rails"
NO_RESULT = "no result"
MOST_NODES = 3


def judge_pods(plan: Plan, record: RunRecord) -> Iterator[JudgedTest]:
    """One test a rail; one line without a rail where the check was not run, which then enters no verdict."""
    if plan.pods is None:
        return
    found = record.pods
    if plan.pods.impossible or (found is not None and found.played):
        because = plan.pods.impossible or (found.reason if found else "")
        yield not_run(TEST, because)
        return
    if found is None or not found.rails:
        pairs = sum(len(rail.pairs) for rail in plan.pods.rails)
        if found is not None and found.outcome == "skipped":
            yield JudgedTest(**_shown("skip", found.reason), rail=None, measured=0, failed=0, skipped=pairs)
            return
        why = found.reason if found else NO_RESULT
        function = "error" if found is not None and not found.faults else "fail"
        yield JudgedTest(**_shown(function, why), rail=None, measured=0, failed=0, skipped=0, errors=pairs)
        return
    counts = {one.rail: one for one in found.rails}
    for rail in plan.pods.rails:
        one = counts.get(rail.name)
        reached = one.reached if one else 0
        whole = one is not None and reached == len(rail.pairs) and one.pods == len(rail.nodes)
        broken = any(_concerns(fault, rail.name) for fault in found.faults)
        function = "fail" if broken else "pass" if whole else "error"
        because = SIMULATED if plan.simulated else SHOWN_ONLY
        missing = len(rail.pairs) - reached
        failed, errors = (0, missing) if function == "error" else (missing, 0)
        yield JudgedTest(
            **_shown(function, because), rail=rail.name, measured=reached, failed=failed, skipped=0, errors=errors
        )


def pod_reasons(record: RunRecord) -> Iterator[str]:
    """Why the function axis is not a pass."""
    found = record.pods
    if found is None or found.outcome == "measured" or found.played:
        return
    if found.reason:
        yield f"{TEST} {found.outcome}: {found.reason}"
    yield from (f"{where}: {TEST} failed: {faults[0].what}" for where, faults in _grouped(found))
    if found.left_out:
        yield f"{TEST}: and {found.left_out} more faults"


def pod_findings(record: RunRecord) -> Iterator[Finding]:
    """The faults in pods; nodes with the same fault share a finding."""
    if record.pods is None:
        return
    for where, faults in _grouped(record.pods):
        yield Finding(code=faults[0].code, where=where, evidence=faults[0].what, hint=faults[0].hint)


def broken_pods(found: PodRails | None) -> str:
    """Why a job over the rails would hang; empty if pods have them, or if that is unknown."""
    if found is None or found.outcome != "failed":
        return ""
    return f"{TEST} did not pass: {found.faults[0].code}" if found.faults else f"{TEST} did not pass"


def _grouped(found: PodRails) -> list[tuple[str, list[PodFault]]]:
    """The faults by what they are, each with the nodes in one text."""
    groups: dict[tuple[str, str, str], list[PodFault]] = {}
    for fault in found.faults:
        groups.setdefault((fault.code, fault.rail, fault.hint), []).append(fault)
    return [(_where(faults), faults) for faults in groups.values()]


def _where(faults: list[PodFault]) -> str:
    nodes = some(list(dict.fromkeys(fault.node or "all nodes" for fault in faults)), MOST_NODES)
    return f"{nodes}, {faults[0].rail or 'all rails'}"


def _concerns(fault: PodFault, rail: str) -> bool:
    return fault.rail in ("", rail)


def _shown(function: str, because: str) -> dict[str, str]:
    return {"test": TEST, "shape": "", "function": function, "performance": "not rated", "because": because, "unit": ""}
