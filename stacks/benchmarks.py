"""What is measured on the finished lab, how long that may take, and which ratios to a ceiling pass."""

from typing import Literal

from pydantic import Field, model_validator

from stacks.base import Name, Port, Ratio, Seconds, Section


class Threshold(Section):
    """Ratios of a measured median to its ceiling. Published health checks agree on 90 to 95 % of the line rate."""

    fail_below: Ratio = 0.90
    warn_below: Ratio = 0.97

    @model_validator(mode="after")
    def _fail_lies_below_warn(self) -> "Threshold":
        if self.fail_below > self.warn_below:
            raise ValueError(f"fail_below {self.fail_below} lies above warn_below {self.warn_below}: swap them")
        return self


class Verbs(Section):
    """perftest between the hosts, each pair on each rail in both directions."""

    tests: tuple[Literal["ib_write_bw"], ...] = ("ib_write_bw",)
    message_bytes: int = Field(default=65_536, ge=2, le=8_388_608)
    iterations: int = Field(default=5000, ge=100, le=1_000_000)
    """Messages a run sends. The simulator needs few: its links carry about a thousandth of a real one."""
    queue_pairs: int = Field(default=1, ge=1, le=64)
    first_port: Port = 18515
    """TCP rendezvous port of the first pair on a host; further ones follow it."""
    timeout_s: Seconds = 120
    """Bound on one run at both ends."""
    threshold: Threshold = Threshold()


class Nccl(Section):
    """NCCL all-reduce over all active nodes as an MPIJob (seed A's job in v2beta1)."""

    image: str = Field(pattern=r"^[^\s]+[:@][^\s]+$", max_length=255)
    """Benchmark image, by tag or, better, by digest."""
    smallest_bytes: int = Field(default=8, ge=4)
    largest_bytes: int = Field(default=2_147_483_648, le=68_719_476_736)
    timeout_s: Seconds = 900
    threshold: Threshold = Threshold(fail_below=0.85, warn_below=0.93)


class Benchmarks(Section):
    """The validation of the lab. Its verdict has two axes: function, and performance where it can be rated."""

    mode: Literal["off", "warn", "enforce"] = "warn"
    """enforce: a failed verdict fails the deployment, after every result is written."""
    namespace: Name = "rocelab-bench"
    budget_s: Seconds = 900
    """The plan is refused when it would take longer."""
    repeats: int = Field(default=1, ge=1, le=20)
    verbs: Verbs = Verbs()
    nccl: Nccl | None = None
