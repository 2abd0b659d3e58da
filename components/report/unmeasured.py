"""The verdict after an up that failed and did not measure: it is of an earlier run, and not known to hold. Pure."""

from components.validation.judging.stale import made_stale
from components.validation.summary import Summary, closed


def after_up(summary: Summary, begun: str, *, failed: bool) -> Summary:
    """The same judgement where it is of this up; where it is of an earlier one, and this one failed, it is old.

    Args:
        summary: what stands in the state now.
        begun: when `pulumi up` was started, as `Summary.started_at` is written.
        failed: whether it did.
    """
    # the gate fails each up for such a verdict, without measuring: that up says nothing new of the lab
    gate_closed = closed(summary.mode, summary.function, summary.performance)
    if not failed or summary.started_at >= begun or gate_closed:
        return summary
    told = f"pulumi up failed, and did not measure: this is the verdict of run {summary.run_id}"
    return made_stale(summary, (told,))
