"""A VM as it is cloned from a template: what it is made of, and where it may run."""

from ipaddress import IPv4Address
from typing import Annotated

from pydantic import Field

from stacks.base import InventoryName, Section, effect

DnsName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


class Machine(Section):
    """The hardware of a VM. PVRDMA wants all memory reserved, so there is no field that says less."""

    template: InventoryName
    """A template of a 64-bit Linux whose kernel has `vmw_pvrdma`."""
    datastore: InventoryName
    host: InventoryName | None = None
    """The ESXi host that it stays on. None: the cluster places it, one worker a host (needs DRS)."""
    cpus: int = Field(ge=1, le=256, json_schema_extra=effect("reboot"))
    memory_mbytes: int = Field(ge=1024, multiple_of=4, json_schema_extra=effect("reboot"))
    """All of it is reserved and locked: the device registers guest memory with the hardware."""
    disk_gbytes: int = Field(ge=10, le=65_536)
    """Size of the system disk, at least the template's; container images of benchmarks take 8 to 20 GB each."""
    hardware_version: int = Field(default=17, ge=13, le=22, json_schema_extra=effect("reboot"))
    """13 is PVRDMA's least; 17 gives namespaces and 18 native endpoints, where ESXi and NIC have them."""
    guest_id: str = Field(default="ubuntu64Guest", pattern=r"^[A-Za-z0-9_]+$")
    """vSphere's name of the guest system; it has to be the template's."""
    management_network: InventoryName
    """Network of the first adapter, a vmxnet3. It carries SSH, never PVRDMA."""
    prefix_length: int = Field(default=24, ge=8, le=30)
    """Of the node's management address."""
    gateway: IPv4Address | None = None
    dns_servers: tuple[IPv4Address, ...] = ()
    domain: DnsName = "lab"
    several_pvrdma: bool = False
    """Allows more than one PVRDMA adapter: VMware's KB 328676 forbids it for 6.5, the Bitfusion guide does it."""
