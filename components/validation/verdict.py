"""The verdict on a record: function and performance, with the reasons for both. Pure."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from components.finding import Finding
from components.validation.benchmarks.gpu_memory import (
    gpu_memory_findings,
    gpu_memory_reasons,
    judge_gpu_memory,
)
from components.validation.benchmarks.jobs.judge import (
    comparison_findings,
    job_findings,
    job_reasons,
    judge_jobs,
)
from components.validation.benchmarks.nccl.judge import judge_nccl, nccl_reasons, network_findings
from components.validation.benchmarks.nccl.rings import judge_rings, ring_findings, ring_reasons
from components.validation.benchmarks.nccl.search import slow_parts
from components.validation.benchmarks.node.judge import alone_findings, alone_reasons, judge_alone
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.pods.judge import judge_pods, pod_findings, pod_reasons
from components.validation.benchmarks.verbs.judge import (
    compared_stage,
    crowded_reasons,
    judge_stage,
    located,
    second_try_findings,
    transfer_reasons,
    unmeasured_findings,
)
from components.validation.benchmarks.verbs.pvrdma_path import (
    PATH,
    path_findings,
    path_reasons,
    path_tests,
)
from components.validation.benchmarks.verbs.transfer_findings import (
    counter_findings,
    jitter_findings,
    mtu_findings,
    pcie_findings,
)
from components.validation.history import History, confirmed_losses, history_of, relative_changes
from components.validation.history import compared as compared_with_baseline
from components.validation.records import RunRecord
from components.validation.search.measured_fabric import Topology
from components.validation.stale import made_stale
from components.validation.store import RunDocument, document_of
from components.validation.summary import (
    SHOWN_ONLY,
    JudgedTest,
    Performance,
    Regression,
    Summary,
    few,
    function_of_tests,
    not_run,
    performance_of_tests,
    too_many,
    worse_of,
)
from stacks.benchmarks import Benchmarks
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.words import plural

MOST_FINDINGS = 8
MOST_HINTS = 5

NO_HISTORY = History()
NO_TOPOLOGY: Topology = {}


@frozen
class Judgement:
    """A run by the lab's demands alone; its verdict also compares it with earlier runs."""

    plan: Plan
    benchmarks: Benchmarks
    record: RunRecord
    tests: Sequence[JudgedTest]
    findings: Sequence[Finding]

    @property
    def settled(self) -> bool:
        """Whether everything planned ran and works as declared, whatever its speed: else the next
        up measures again.
        """
        # another measurement would neither find a missing counter nor run a job that is impossible
        impossible = set()
        for job in self.plan.jobs:
            if job.workers is None:
                impossible.add((job.program, job.transport))
        if any(test.function == "fail" for test in self.tests):
            return False
        tests = [test for test in self.tests if (test.test, test.shape) not in impossible]
        known = [test.function for test in tests if test.test != PATH]
        return function_of_tests(known) == "pass"

    def verdict(self, history: History = NO_HISTORY) -> Summary:
        """The verdict; of the history, this run's own entry is compared with the others."""
        plan, record, tests = self.plan, self.record, self.tests
        entry, compared = history.entry(record.run_id), None
        if entry is not None:
            earlier = history.before(record.run_id)
            compared = compared_with_baseline(entry, earlier)
            changes, confirmed = relative_changes(entry, earlier), confirmed_losses(entry, earlier)
            tests = [_compared(test, changes, confirmed) for test in tests]
        performance, because = performance_of_tests(tests, simulated=plan.simulated)
        if compared and compared.verdict == "worse":
            performance, because = (
                worse_of(performance, "warn"),
                because if performance == "not rated" else "",
            )
        reasons = [
            *alone_reasons(record),
            *transfer_reasons(record),
            *gpu_memory_reasons(record),
            *ring_reasons(record),
            *nccl_reasons(record),
            *job_reasons(record),
            *pod_reasons(record),
            *crowded_reasons(plan, record),
            *path_reasons(plan, record),
            *(_slow(test) for test in tests if test.performance in ("warn", "fail", "unstable")),
            *(_regressed(compared) if compared else ()),
        ]
        if all(test.function == "not run" for test in tests):
            reasons.append("nothing to measure: a rail needs two active nodes")
        hints = (f"{finding.where}: {finding.hint}" for finding in self.findings if finding.hint)
        return Summary(
            **record.head,
            lab=plan.lab,
            mode=self.benchmarks.mode,
            function=function_of_tests([test.function for test in tests]),
            performance=performance,
            performance_because=because,
            reasons=few(reasons),
            hints=few(hints, most=MOST_HINTS),
            findings=tuple(self.findings[:MOST_FINDINGS]),
            tests=tuple(tests),
            regression=compared,
            bounds=bounds_digest(self.benchmarks),
        )


def judge(
    plan: Plan, benchmarks: Benchmarks, record: RunRecord, topology: Topology = NO_TOPOLOGY
) -> Judgement:
    """Judges the measurements against the lab's demands. A planned test without a result never
    passes.
    """
    findings, states = _findings(plan, benchmarks, record, topology)
    tests = []
    for test in _tests(plan, benchmarks, record):
        tests.append(_with_state(test, states))
    return Judgement(
        plan=plan, benchmarks=benchmarks, record=record, tests=tests, findings=findings
    )


def verdict_on(document: RunDocument, benchmarks: Benchmarks) -> Summary:
    """The verdict on a stored run by these bounds."""
    judgement = judge(document.plan, benchmarks, document.record, document.leaves)
    return judgement.verdict(history_of(document.history))


def verdict_by(lab: Lab, verdict: Summary, root: Path) -> Summary:
    """The verdict by the current bounds; after an edit of the bounds, the stored run is judged
    again.
    """
    benchmarks = lab.benchmarks or Benchmarks()
    mode = {"mode": benchmarks.mode}
    if verdict.bounds == bounds_digest(benchmarks):
        return verdict.replace(**mode)
    document = document_of(verdict, root)
    if document is None:
        why = (
            f"the bounds in benchmarks changed, and run {verdict.run_id} is not in the store "
            "here: the old bounds apply"
        )
        return made_stale(verdict.replace(**mode), (why,))
    kept = {"store": verdict.store, "document_sha256": verdict.document_sha256}
    return verdict_on(document, benchmarks).replace(**kept)


def bounds_digest(benchmarks: Benchmarks) -> str:
    """Digest of what a verdict depends on beside the run."""
    text = benchmarks.model_dump_json(exclude={"mode", "rerun", "budget_s"})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def in_cluster(judged: Summary, faults: Sequence[str], quarantined: Mapping[str, str]) -> Summary:
    """The verdict together with the cluster's faults and the quarantined hosts.

    Any fault of the cluster fails the function, whatever the other nodes measured. With quarantined
    hosts a pass is only partial.
    """
    if not faults and not quarantined:
        return judged
    function = "partial"
    if faults or judged.function == "fail":
        function = "fail"
    named = []
    for name, text in quarantined.items():
        named.append(f"{name} is quarantined: {text}")
    return judged.replace(
        function=function,
        quarantined=dict(quarantined),
        reasons=few([*named, *faults, *judged.reasons]),
    )


def _tests(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> list[JudgedTest]:
    tests = []
    for stage in plan.stages:
        for rail in plan.rails:
            if plan.planned(stage, rail.name):
                tests.append(judge_stage(plan, benchmarks, stage, rail, record))
    tests += path_tests(plan, record)
    tests += judge_alone(plan, benchmarks, record)
    tests += judge_pods(plan, record)
    tests += judge_gpu_memory(plan, benchmarks, record)
    if plan.rings:
        tests.append(judge_rings(plan, benchmarks, record))
    if plan.nccl:
        tests.append(judge_nccl(plan, benchmarks, record))
    for test, reason in plan.not_run.items():
        tests.append(not_run(test, reason))
    return [*tests, *judge_jobs(plan, record)]


def _findings(
    plan: Plan, benchmarks: Benchmarks, record: RunRecord, topology: Topology
) -> tuple[list[Finding], dict[tuple[str, str, str], Performance]]:
    """All findings, the most important first, and the states that they give to tests by (test,
    shape, rail).
    """
    findings = unmeasured_findings(record)
    findings += alone_findings(plan, benchmarks, record)
    states: dict[tuple[str, str, str], Performance] = {}
    where = located(plan, record, topology)
    findings += [fault.finding() for fault in where.faults] if where else []
    stage = compared_stage(plan)
    if where and stage and not record.simulated:
        for fault in where.faults:
            for name in [fault.rail] if fault.rail else [rail.name for rail in plan.rails]:
                states[stage.test, stage.shape, name] = "warn"
    findings += pod_findings(record)
    findings += second_try_findings(record)
    findings += path_findings(plan, record)
    findings += mtu_findings(plan, record)
    findings += pcie_findings(plan, record)
    for finding, state, t in (*counter_findings(plan, record), *jitter_findings(record)):
        if finding not in findings:
            findings.append(finding)
        key = (t.test, t.shape, t.rail)
        states[key] = worse_of(state, states.get(key, "not rated"))
    findings += gpu_memory_findings(plan, benchmarks, record)
    findings += ring_findings(plan, benchmarks, record)
    findings += slow_parts(plan, record, topology)
    jobs = (*job_findings(record), *network_findings(plan, record), *comparison_findings(record))
    return [*findings, *jobs], states


def _with_state(test: JudgedTest, states: Mapping[tuple[str, str, str], Performance]) -> JudgedTest:
    """The test with the state that findings give it; an unrated test stays unrated."""
    state = states.get((test.test, test.shape, test.rail or ""))
    if state is None or test.performance == "not rated":
        return test
    return test.replace(performance=worse_of(test.performance, state))


def value_name(test: JudgedTest) -> str:
    """The name of a test's value in the history."""
    return " ".join(part for part in (test.test, test.shape, test.rail or "") if part)


def _compared(
    test: JudgedTest, changes: Mapping[str, float], confirmed: Collection[str]
) -> JudgedTest:
    """The test with its change against the baseline; a confirmed loss fails it."""
    name = value_name(test)
    worse = {}
    if name in confirmed and test.because != SHOWN_ONLY:
        worse = {"performance": "fail", "because": ""}
    return test.replace(change=changes.get(name), **worse)


def _regressed(compared: Regression) -> Iterable[str]:
    if compared.verdict in ("worse", "unconfirmed"):
        words = "once slower than"
        if compared.verdict == "worse":
            words = "slower than"
        for reason in compared.reasons:
            yield f"{words} run {compared.baseline_run}: {reason}"
    elif compared.verdict == "not comparable":
        yield f"not comparable with run {compared.baseline_run}: {'; '.join(compared.reasons)}"


def _slow(test: JudgedTest) -> str:
    who = ""
    if test.worst:
        who = f" {test.worst.client} to {test.worst.server}"
    value = test.worst.value if test.worst else test.median or 0.0
    name = value_name(test).replace(" one_way", "")
    once = f"{test.failed_once} of {plural(test.measured, 'transfer')} failed at one of their tries"
    if test.failed_once and _only_once(test, value):
        return f"{name}: {once}: {test.performance}"
    if test.performance == "unstable":
        return f"{name}: repeats differ too much for one number: unstable"
    also = f", {once}" if test.failed_once else ""
    if test.ratio is None:
        return (
            f"{name}{who}: {value:.2f} {test.unit}, {test.ceiling or 0:g} is the bound{also}: "
            f"{test.performance}"
        )
    return (
        f"{name}{who}: {value:.2f} {test.unit} is {test.ratio:.1%} of {test.ceiling:.2f} "
        f"({test.basis}){also}: "
        f"{test.performance}"
    )


def _only_once(test: JudgedTest, value: float) -> bool:
    """Whether failed tries are the only reason for the state."""
    if test.performance == "unstable":
        return too_many(test.failed_once, test.measured)
    return test.ratio is None and test.performance == "warn" and value <= (test.ceiling or 0)
