"""The verdict after an up that failed and did not measure: it is of an earlier run, and not known to hold. Pure."""

from components.validation.judging.stale import made_stale
from components.validation.summary import Summary


def after_up(summary: Summary, begun: str, *, failed: bool) -> Summary:
    """The same judgement where it is of this up; where it is of an earlier one, and this one failed, it is old.

    Args:
        summary: what stands in the state now.
        begun: when `pulumi up` was started, as `Summary.started_at` is written.
        failed: whether it did.
    """
    if not failed or summary.started_at >= begun or _keeps_the_gate_shut(summary):
        return summary
    told = f"pulumi up failed, and did not measure: this is the verdict of run {summary.run_id}"
    return made_stale(summary, (told,))


def _keeps_the_gate_shut(summary: Summary) -> bool:
    """The gate fails each up for such a verdict, without measuring: a test compares this with `gate.closed`."""
    failed = "fail" in (summary.function, summary.performance) or summary.function in ("partial", "error")
    return summary.mode == "enforce" and failed
