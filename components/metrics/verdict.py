"""Value and age of a stack's verdict in the text format of Prometheus. Pure."""

from datetime import datetime

from components.gate.measured import MeasuredState


def verdict_text(lab: str, measured: MeasuredState | None) -> str:
    """0: the axis failed, or the lab works only in part. No text for a lab without measurement."""
    if measured is None:
        return ""
    verdict = measured.verdict
    good = {
        "function": verdict.function in ("pass", "skip"),
        "performance": verdict.performance != "fail",
    }
    name = "rocelab_verdict"
    lines = [f"# TYPE {name} gauge"]
    for axis, is_good in good.items():
        lines.append(f'{name}{{lab="{lab}",axis="{axis}"}} {int(is_good)}')
    begun_s = datetime.fromisoformat(verdict.started_at).timestamp()
    is_stale = bool(verdict.stale or measured.lab_changes)
    for metric, value in (("timestamp_seconds", begun_s), ("stale", int(is_stale))):
        lines += [f"# TYPE {name}_{metric} gauge", f'{name}_{metric}{{lab="{lab}"}} {value:.15g}']
    return "".join(f"{line}\n" for line in lines)
