"""What PVRDMA wants of the network below it, and a vCenter cannot tell. Pure."""

from collections.abc import Iterator

from stacks.lab import Lab


def unlossless(lab: Lab) -> Iterator[str]:
    """A sentence where nothing in the lab keeps frames from being dropped on their way between ESXi hosts.

    A lossless layer 2 is among PVRDMA's requirements ("vSphere Networking" 6.5, on PVRDMA). What the HCA's driver on a
    host does is asked nowhere, so it is named too. The simulator moves no frame of a host.
    """
    switches = lab.fabric.switches if lab.fabric is not None else ()
    pvrdma = any(switch.carries_pvrdma for switch in switches)
    if lab.simulated or not pvrdma or (lab.switches and lab.qos is not None and lab.qos.mode == "lossless"):
        return
    yield (
        "PVRDMA wants a network that drops no frame, and this lab does not see to it (switches, and "
        "qos.mode: lossless): priority flow control or global pause, on the physical switches and on each host's HCA "
        "(nmlx5_core: pfctx and pfcrx)"
    )
