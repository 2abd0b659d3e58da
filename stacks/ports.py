"""What the port matrix of a lab has to be told: how pods talk to each other, and who else is on the network."""

from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Section

PodNetwork = Literal["flannel", "calico_bgp", "calico_ipip", "calico_vxlan", "other"]


class Ports(Section):
    """The lab's port matrix (`rocelab ports`); it changes nothing, it says what has to be open."""

    pod_network: PodNetwork = "other"
    """Primary network of the pods in a cluster that is not made here. The vSphere RDG's is calico_bgp."""
    typha: bool = False
    """Whether Calico's Typha runs (it does from some dozens of nodes on)."""
    extra_servers: tuple[Annotated[str, Field(pattern=r"^[a-zA-Z0-9.-]+:\d{1,5}$", max_length=260)], ...] = ()
    """Further servers that every node needs, `name:port` over TCP: registries, mirrors, file servers."""
