"""Input of a lab's port matrix: how pods talk to each other, and which other servers the nodes
need.
"""

from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Section

PodNetwork = Literal["flannel", "calico_bgp", "calico_ipip", "calico_vxlan", "other"]


class Ports(Section):
    """The lab's port matrix (`rocelab ports`): it lists the ports that must be open, and changes
    nothing.
    """

    pod_network: PodNetwork = "other"
    """Primary pod network of a cluster that rocelab does not create. The vSphere RDG uses
    calico_bgp."""
    typha: bool = False
    """Whether Calico's Typha runs (usual from some dozens of nodes)."""
    extra_servers: tuple[
        Annotated[str, Field(pattern=r"^[a-zA-Z0-9.-]+:\d{1,5}$", max_length=260)], ...
    ] = ()
    """Further servers that every node needs, as `name:port` (TCP): registries, mirrors, file
    servers."""
