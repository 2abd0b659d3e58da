"""From a measured bandwidth back to the path MTU that it looks like."""

from dataclasses import replace

from components.physics.ceilings import Path, bandwidth_ceiling, smaller_mtu_at
from stacks.frozen import frozen


@frozen
class MtuFingerprint:
    """A bandwidth that is at the ceiling of a smaller path MTU than the configured one."""

    measured_gbit_s: float
    configured_bytes: int
    reported_bytes: int | None
    seen_bytes: int
    ratio_to_configured: float
    ratio_to_seen: float

    @property
    def code(self) -> str:
        """The finding's code."""
        return f"MTU_FINGERPRINT_{self.seen_bytes}"

    @property
    def contradiction(self) -> bool:
        """Whether the tool's header reports a larger path MTU."""
        return self.reported_bytes is not None and self.reported_bytes > self.seen_bytes

    @property
    def evidence(self) -> str:
        """The numbers in words."""
        header = ""
        if self.contradiction:
            header = f" while the header says {self.reported_bytes}"
        return (
            f"{self.measured_gbit_s:.2f} Gbit/s is {self.ratio_to_configured:.1%} of the ceiling "
            f"at path MTU {self.configured_bytes} and {self.ratio_to_seen:.1%} of the one at "
            f"{self.seen_bytes}{header}"
        )

    @property
    def hint(self) -> str:
        """Both explanations, between which the number cannot decide, and the test that does."""
        good = self.ratio_to_seen * self.measured_gbit_s / self.ratio_to_configured
        return (
            f"either the queue pair ran with path MTU {self.seen_bytes}: an interface, VF or "
            "switch port on the way has a smaller MTU (with -R the header prints the port's MTU, "
            f"not the route's); or the path MTU is {self.configured_bytes} and the path is slow "
            "for another reason: PCIe, congestion, too few queue pairs. To decide: ib_write_bw "
            f"-m {self.configured_bytes} without -R: near {good:.1f} Gbit/s or a failure means "
            f"the MTU, {self.measured_gbit_s:.1f} Gbit/s again means a slow path"
        )


def mtu_fingerprint(
    measured_gbit_s: float, path: Path, *, reported_bytes: int | None = None
) -> MtuFingerprint | None:
    """The fingerprint of a one-way bandwidth on this path; None if it fits no other MTU."""
    if path.both_ways:
        return None
    fitting_mtu = smaller_mtu_at(measured_gbit_s, path)
    if fitting_mtu is None:
        return None
    return MtuFingerprint(
        measured_gbit_s=measured_gbit_s,
        configured_bytes=path.path_mtu_bytes,
        reported_bytes=reported_bytes,
        seen_bytes=fitting_mtu,
        ratio_to_configured=measured_gbit_s / bandwidth_ceiling(path).value,
        ratio_to_seen=measured_gbit_s
        / bandwidth_ceiling(replace(path, path_mtu_bytes=fitting_mtu)).value,
    )
