"""Runs of a lab's history."""

from components.validation.history import Entry, Value

RUNS = [(1, 97.0, "pass", True), (2, 97.5, "warn", True), (3, 80.0, "fail", False)]


def entries() -> list[Entry]:
    return [
        Entry(
            lab="lab",
            run_id=f"20261121-06000{n}-abcd",
            started_at=f"2026-11-21T06:00:0{n}Z",
            duration_s=1,
            simulated=False,
            function="pass",
            performance=performance,
            passed=passed,
            fingerprint="f",
            config={"nodes": "2"},
            values={"ib_write_bw one_way rail-a": Value(median=gbit_s, unit="Gbit/s", again=80.1 if n == 3 else None)},
        )
        for n, gbit_s, performance, passed in RUNS
    ]
