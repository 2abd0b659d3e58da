"""A VM: one that is cloned from a template, with what it is made of and where it may run, or one that is there."""

import re
from ipaddress import IPv4Address
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from stacks.base import InventoryName, Section

DnsName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


LINUX_64 = re.compile(
    r"^(almalinux|amazonlinux|asianux|centos|coreos|debian|fedora|fusionos|genericLinux|opensuse|oracleLinux|"
    r"other\w*Linux|prolinux|rhel|rockylinux|sles|ubuntu|vmwarePhoton)\w*64Guest$"
)
"""vSphere's names of 64-bit Linux systems (VirtualMachineGuestOsIdentifier). PVRDMA has no driver for any other."""
NO_ESXI = 16
"""A version of virtual hardware that VMware's desktop products have, and no ESXi."""
LEAST_MMIO_GBYTES = 64
"""Least MMIO space for vGPUs; VMware's rule is the next power of two above the sum of all GPU memory."""


class Vgpu(Section):
    """NVIDIA vGPUs of a VM, of one profile."""

    profile: str = Field(pattern=r"^(grid|nvidia)_[a-z0-9]+(-\d+)?-\d+[a-z]\d?$")
    """As the host offers it, such as `grid_v100d-32c`: GPU, frame buffer in GB, series. One that it does not offer is
    refused with the list of those that it does."""
    count: int = Field(default=1, ge=1, le=16)
    """How many. More than one wants a profile that takes the whole frame buffer of a GPU (NVIDIA's user guide)."""
    mmio_gbytes: int | None = Field(default=None, ge=1, le=32_768)
    """`pciPassthru.64bitMMIOSizeGB`, a power of two. None: by VMware's rule from the frame buffers."""

    @model_validator(mode="after")
    def _computes(self) -> Self:
        series = self.profile.rstrip("0123456789")[-1]
        if series not in "cq":
            raise ValueError(
                f"profile {self.profile} is of the {series.upper()} series, which has no CUDA; take one of C or Q"
            )
        if self.mmio_gbytes is not None and self.mmio_gbytes & (self.mmio_gbytes - 1):
            raise ValueError(f"mmio_gbytes {self.mmio_gbytes} is no power of two; leave it out, or round it up")
        return self

    @property
    def frame_buffer_gbytes(self) -> int:
        """GPU memory of one vGPU, as its profile's name has it."""
        size = re.search(r"-(\d+)[a-z]\d?$", self.profile)
        return int(size[1]) if size else 0

    @property
    def mmio_space_gbytes(self) -> int:
        """The MMIO space that the VM gets."""
        needed = self.frame_buffer_gbytes * self.count
        return self.mmio_gbytes or max(LEAST_MMIO_GBYTES, 1 << needed.bit_length())


class Machine(Section):
    """The hardware of a VM. PVRDMA and vGPUs want all memory reserved, so there is no field that says less."""

    template: InventoryName
    """A template of a 64-bit Linux whose kernel has `vmw_pvrdma`."""
    datastore: InventoryName
    host: InventoryName | None = None
    """The ESXi host that it stays on; for a control plane it may stand outside the cluster, with the management hosts.
    None: the cluster places it, one worker a host (needs DRS)."""
    apart: bool = True
    """Whether a worker has its host for itself. Two on one host talk by memory copies, not over the wire."""
    cpus: int = Field(ge=1, le=256)
    memory_mbytes: int = Field(ge=1024, multiple_of=4)
    """All of it is reserved and locked where there is PVRDMA or a vGPU: both hand guest memory to hardware."""
    disk_gbytes: int = Field(ge=10, le=65_536)
    """Size of the system disk, at least the template's; container images of benchmarks take 8 to 20 GB each."""
    hardware_version: int = Field(default=17, ge=13, le=22)
    """13 is PVRDMA's least; 17 gives namespaces, 18 native endpoints, where ESXi and NIC have them. ESXi has no 16."""
    guest_id: str = Field(default="ubuntu64Guest", pattern=r"^[A-Za-z0-9_]+$")
    """vSphere's name of the guest system; it has to be the template's, and of a 64-bit Linux."""
    firmware: Literal["bios", "efi"] = "bios"
    """The template's; vGPUs need efi, since only that maps their memory above 4 GB."""
    roce_version: Literal["rocev1", "rocev2"] | None = None
    """Protocol of the PVRDMA adapters. None: vCenter's own choice stays. Only rocev2 crosses a router."""
    management_network: InventoryName
    """Network of the first adapter, a vmxnet3. It carries SSH, never PVRDMA."""
    prefix_length: int = Field(default=24, ge=8, le=30)
    """Of the node's management address."""
    gateway: IPv4Address | None = None
    dns_servers: tuple[IPv4Address, ...] = ()
    domain: DnsName = "lab"
    clone_timeout_minutes: int = Field(default=30, ge=10, le=1440)
    """How long the copy of the template may take; the provider takes no less than 10. Counts at its creation only."""
    customize_timeout_minutes: int = Field(default=10, ge=1, le=120)
    """How long its guest may take for name and addresses."""
    address_timeout_minutes: int = Field(default=15, ge=1, le=120)
    """How long its guest tools may take to tell an address."""
    several_pvrdma: bool = False
    """Allows more than one PVRDMA adapter: VMware's KB 328676 forbids it for 6.5, the Bitfusion guide does it."""

    @model_validator(mode="after")
    def _guest_is_64_bit_linux(self) -> Self:
        if not LINUX_64.match(self.guest_id):
            raise ValueError(
                f"guest_id {self.guest_id} is no 64-bit Linux, and PVRDMA has a driver for nothing else; "
                "take a template of one, such as ubuntu64Guest"
            )
        return self

    @model_validator(mode="after")
    def _hardware_of_some_esxi(self) -> Self:
        if self.hardware_version == NO_ESXI:
            raise ValueError(
                f"hardware_version {NO_ESXI} is of no ESXi, and the provider refuses it: take 15, of ESXi 6.7 U2, "
                "or 17, of 7.0"
            )
        return self


class ExistingMachine(Section):
    """A VM that somebody else made: what is declared is set, what was there before is given back, and it stays."""

    existing: InventoryName
    """Its name in vCenter, which exactly one VM of the datacenter has to have. It is neither cloned nor renamed."""
    host: InventoryName | None = None
    """The ESXi host that it is on: verified, and never moved there."""
    apart: bool = True
    """Whether a worker has to have its host for itself; nobody is moved for that."""
    cpus: int | None = Field(default=None, ge=1, le=256)
    """None: as many as it has."""
    memory_mbytes: int | None = Field(default=None, ge=1024, multiple_of=4)
    """None: as much as it has. All of it is reserved and locked where there is PVRDMA or a vGPU."""
    roce_version: Literal["rocev1", "rocev2"] | None = None
    """Protocol of its PVRDMA adapters on the lab's rails. None: as it is, or vCenter's own choice."""
    several_pvrdma: bool = False
    """Allows more than one PVRDMA adapter, those counted that it has on other networks."""
    allow_power_off: bool = False
    """Whether it may be shut down, changed and started again. Without it a machine that runs is refused what cannot be
    changed while it runs: everything but the reservation of its memory."""

    @model_validator(mode="before")
    @classmethod
    def _nothing_that_only_a_new_one_has(cls, given: object) -> object:
        fields = given if isinstance(given, dict) else {}
        if only := [name for name in Machine.model_fields if name in fields and name not in cls.model_fields]:
            raise ValueError(
                f"{', '.join(only)} beside existing: {fields.get('existing')}: a machine that is there is not cloned, "
                f"moved or rebuilt; take {'it' if len(only) == 1 else 'them'} out, or take existing out and have one "
                "made"
            )
        return given


def _made_or_existing(machine: object) -> str:
    there = "existing" in machine if isinstance(machine, dict) else isinstance(machine, ExistingMachine)
    return "existing_machine" if there else "new_machine"


AnyMachine = Annotated[
    Annotated[Machine, Tag("new_machine")] | Annotated[ExistingMachine, Tag("existing_machine")],
    Discriminator(_made_or_existing),
]
"""A machine with `existing` is one that is there; every other is made."""
