"""What rocelab may do to the hosts by itself: reboots, repairs, and how careful to be."""

from typing import Literal

from pydantic import Field

from stacks.base import Seconds, Section

RepairClass = Literal["none", "link", "service", "reboot"]
"""How much a repair disturbs, least first: nothing, a link flap, a restarted service, a reboot."""


class HostPolicy(Section):
    """Limits of automatic changes. The defaults never reboot a host and never take a VF away from a
    pod.
    """

    repair: RepairClass = "service"
    """Drift is repaired up to this class, and otherwise only reported."""
    reboot: Literal["never", "stage", "roll"] = "never"
    """What becomes of a change that needs a reboot. never: it is refused, or only reported, and
    nothing is set. stage: firmware settings, kernel arguments and RDMA namespaces are set for the
    next boot, and you reboot the host. roll: rocelab also replaces drivers, and reboots the hosts:
    one canary, then batches."""
    max_unavailable: int = Field(default=1, ge=1, le=64)
    """Number of hosts that a roll takes down at once after the canary."""
    reboot_budget_s: Seconds = 1800
    """Time limit of the whole roll; the next run does the rest."""
    reboot_wait_s: Seconds = 900
    """How long one host may take to come back: servers with much memory need minutes."""
    revert_after_s: Seconds = 120
    """A network step undoes itself after this time unless a new connection confirms it."""
    rdma_namespaces: Literal["shared", "exclusive"] = "shared"
    """Whether pods see each RDMA device (shared), or the RDMA CNI gives each pod its own
    (exclusive)."""
