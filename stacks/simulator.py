"""What the simulator is made of beyond what every simulated lab has."""

from typing import Literal

from stacks.base import Section


class Simulator(Section):
    """How the machines of a lab of kind virtual are simulated."""

    kubelets: Literal["real"]
    """real: each node runs a kubelet, containerd and runc, and takes 2 processors and 2 GB. Without
    this section kwok plays the kubelets: pods of the lab are objects in the API, and nothing runs
    in them."""
