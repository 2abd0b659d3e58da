"""The vSphere fabric of a lab whose rails run over a distributed switch. Thin: where the vCenter is."""

from pydantic import Field

from stacks.base import Name, Port, Section


class Fabric(Section):
    """A vCenter; its password is the stack secret `rocelab:vcenterPassword`."""

    vcenter: str = Field(pattern=r"^[A-Za-z0-9.-]+$")
    """Host name or address."""
    port: Port = 443
    user: str
    datacenter: str
    switch_name: Name
