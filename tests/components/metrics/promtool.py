"""Prometheus' own program evaluates a lab's rules over series that a test has."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.metrics.prometheus import rules_of
from stacks.lab import Lab
from stacks.safe_yaml import to_yaml

FIRING = 'max by (alertname, node, rail, gpu) (ALERTS{alertstate="firing"}) > 0'


def assert_alerts(
    promtool: Path,
    folder: Path,
    lab: Lab,
    series: Mapping[str, str],
    expected: Mapping[int, set[str]],
    *,
    step_s: int,
) -> None:
    """Asserts which alerts fire and no others, by second, each as `alertname node place`.

    Args:
        promtool: The program.
        folder: Takes the files that it reads.
        lab: Whose rules they are.
        series: Values in the notation of `promtool test rules`, from second 0 on.
        expected: The alerts at each second.
        step_s: Time between two values and between two evaluations.
    """
    (folder / "rules.yml").write_text(to_yaml(rules_of(lab)))
    test: dict[str, Any] = {
        "interval": f"{step_s}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": FIRING, "eval_time": f"{second}s", "exp_samples": _samples(alerts)}
            for second, alerts in expected.items()
        ],
    }
    file = folder / "test.yml"
    document = {"rule_files": ["rules.yml"], "evaluation_interval": f"{step_s}s", "tests": [test]}
    file.write_text(to_yaml(document))
    words = [promtool, "test", "rules", file]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _samples(alerts: set[str]) -> list[dict[str, Any]]:
    samples = []
    for text in sorted(alerts):
        name, node, *places = text.split()
        labels = f'alertname="{name}",node="{node}"'
        for place in places:
            kind = "gpu" if place.startswith("0000") else "rail"
            labels += f',{kind}="{place}"'
        samples.append({"labels": f"{{{labels}}}", "value": 1})
    return samples
