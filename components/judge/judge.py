"""The verdict on one result, from what physics allows. An unknown is asked for, never guessed."""

from collections.abc import Callable, Mapping

from components.judge.assessment import Assessment, Judged
from components.judge.bandwidth import judge_bandwidth, judge_latency
from components.judge.collective import judge_collective
from components.judge.known import KnownHardware
from components.judge.results import Kind, Result
from components.physics.signs import GPUDIRECT_HINT, signs_in
from components.validation.benchmarks.verbs.perftest import cause_of


def judge(result: Result, known: KnownHardware) -> Assessment:
    """The verdict on a result; options count more than the log, and never silently."""
    assessment = Assessment(
        program=result.program,
        kind=result.kind,
        findings=list(result.findings),
        gaps=list(result.gaps),
        rows=result.rows,
    )
    facts = known.over(result.facts)
    case = Judged(result=result, options=known, facts=facts, assessment=assessment)
    _find_signs(case)
    _find_differences(case)
    if result.rows:
        JUDGES[result.kind](case)
    else:
        _nothing_measured(case)
    return assessment


def _training(case: Judged) -> None:
    case.assessment.measured(case.last, "img/s")
    case.assessment.leave_open(
        "no physics bounds images per second: model, batch size and GPU decide",
        "the same run on one GPU: the total divided by it and by the number of GPUs is the scaling",
    )


def _unknown(case: Judged) -> None:
    case.assessment.measured(case.last, "Gbit/s")
    case.assessment.leave_open(
        "the text does not say which test produced this",
        "the program that printed it, such as ib_write_bw or all_reduce_perf",
    )


JUDGES: Mapping[Kind, Callable[[Judged], None]] = {
    "bandwidth": judge_bandwidth,
    "collective": judge_collective,
    "latency": judge_latency,
    "training": _training,
    "unknown": _unknown,
}


def _nothing_measured(case: Judged) -> None:
    assessment, result = case.assessment, case.result
    cause = cause_of("\n".join(result.notes))
    if cause is not None and result.program.startswith("ib_"):
        assessment.decide(
            "broken",
            f"the test ended before it measured: {cause}",
            "ibv_devinfo -v on both ends, then the same test with -m 1024",
        )
        return
    why = "the text holds no row of results that confirms itself"
    if assessment.has("CONTRADICTION"):
        why = "the only rows contradict themselves"
    assessment.leave_open(why, "the whole output of the test, from its first line to its last")


def _find_differences(case: Judged) -> None:
    """Options win over the log, but not silently."""
    of_log = case.result.facts
    pairs = (
        ("line rate of a NIC", of_log.nic_gbit_s, case.options.nic_gbit_s),
        ("number of NICs per node", of_log.nics_per_node, case.options.nics_per_node),
        ("path MTU", of_log.path_mtu_bytes, case.options.path_mtu_bytes),
    )
    for what, logged, stated in pairs:
        if logged and stated and logged != stated:
            case.assessment.find(
                "LOG_DIFFERS",
                f"the {what} is {logged:g} in the log, {stated:g} by option, lab file or inventory",
                "the option is used here: check which is right",
            )


def _find_signs(case: Judged) -> None:
    """What the log says of causes, whatever its numbers are."""
    assessment, facts, network = case.assessment, case.result.facts, case.result.network
    for sign, line in signs_in("\n".join(case.result.notes)):
        assessment.find(sign.code, f"{sign.evidence} ({line})", sign.hint)
    if facts.device and "bond" in facts.device:
        assessment.find(
            "BOND",
            f"{facts.device} is a bond: its line rate is that of all ports",
            "ib_write_bw -q 8",
        )
    mtu = facts.path_mtu_bytes
    if mtu is not None and mtu < 4096 and case.result.kind == "bandwidth":
        assessment.find(
            f"MTU_{mtu}",
            f"the path MTU is {mtu}, and headers take more of the line than at 4096",
            "set the interface, the VF and each switch port on the way to MTU 9000",
        )
    over_sockets = network is not None and network.transport == "socket"
    if facts.nodes != 1 and (facts.sockets or over_sockets):
        assessment.find(
            "SOCKETS",
            "NCCL uses TCP sockets, not RDMA",
            "NCCL_NET=IB NCCL_DEBUG=INFO: it then fails and says why",
        )
    if network is not None and network.gpu_direct in ("none", "some"):
        assessment.find(
            "GPUDIRECT_OFF",
            f"{network.gpu_direct} of the network channels use GPUDirect",
            GPUDIRECT_HINT,
        )
