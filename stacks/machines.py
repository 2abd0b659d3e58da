"""A VM: cloned from a template, with its hardware and placement, or an existing one."""

import re
from ipaddress import IPv4Address
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from stacks.base import InventoryName, Section

DnsName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


LINUX_64 = re.compile(
    r"^(almalinux|amazonlinux|asianux|centos|coreos|debian|fedora|fusionos|genericLinux|opensuse|"
    r"oracleLinux|other\w*Linux|prolinux|rhel|rockylinux|sles|ubuntu|vmwarePhoton)\w*64Guest$"
)
"""vSphere's names of 64-bit Linux systems (VirtualMachineGuestOsIdentifier). PVRDMA has no driver
for any other."""
NO_ESXI = 16
"""A version of virtual hardware that only VMware's desktop products have."""
LEAST_MMIO_GBYTES = 64
"""Least MMIO space for vGPUs; VMware's rule is the next power of two above the sum of all GPU
memory."""


class Vgpu(Section):
    """NVIDIA vGPUs of a VM, all with one profile."""

    profile: str = Field(pattern=r"^(grid|nvidia)_[a-z0-9]+(-\d+)?-\d+[a-z]\d?$")
    """Profile of the ESXi host, such as `grid_v100d-32c`: GPU, frame buffer in GB, series. If the
    ESXi host does not offer it, the error lists the profiles that it offers."""
    count: int = Field(default=1, ge=1, le=16)
    """How many. More than one needs a profile with the whole frame buffer of a GPU (NVIDIA's user
    guide)."""
    mmio_gbytes: int | None = Field(default=None, ge=1, le=32_768)
    """`pciPassthru.64bitMMIOSizeGB`, a power of two. None: computed from the frame buffers by
    VMware's rule."""

    @model_validator(mode="after")
    def _computes(self) -> Self:
        series = self.profile.rstrip("0123456789")[-1]
        if series not in "cq":
            raise ValueError(
                f"profile {self.profile} is of the {series.upper()} series, which has no CUDA; use "
                "series C or Q"
            )
        if self.mmio_gbytes is not None and self.mmio_gbytes & (self.mmio_gbytes - 1):
            raise ValueError(
                f"mmio_gbytes {self.mmio_gbytes} is not a power of two; remove it, or round it up"
            )
        return self

    @property
    def frame_buffer_gbytes(self) -> int:
        """GPU memory of one vGPU, from its profile's name."""
        size = re.search(r"-(\d+)[a-z]\d?$", self.profile)
        return int(size[1]) if size else 0

    @property
    def mmio_space_gbytes(self) -> int:
        """The MMIO space that the VM gets."""
        needed = self.frame_buffer_gbytes * self.count
        return self.mmio_gbytes or max(LEAST_MMIO_GBYTES, 1 << needed.bit_length())


class Machine(Section):
    """The hardware of a VM. PVRDMA and vGPUs need all memory reserved, so no field sets a smaller
    reservation.
    """

    template: InventoryName
    """A template of a 64-bit Linux whose kernel has `vmw_pvrdma`."""
    datastore: InventoryName
    host: InventoryName | None = None
    """The ESXi host that it stays on; a control plane's may be outside the cluster, with the
    management hosts. None: the cluster places it, one worker per ESXi host (needs DRS)."""
    apart: bool = True
    """Whether a worker has an ESXi host for itself. Two on one ESXi host copy memory instead of
    using the wire."""
    cpus: int = Field(ge=1, le=256)
    memory_mbytes: int = Field(ge=1024, multiple_of=4)
    """Memory. With PVRDMA or a vGPU all of it is reserved and locked, since both map guest memory
    to hardware."""
    disk_gbytes: int = Field(ge=10, le=65_536)
    """Size of the system disk, at least the template's; container images of benchmarks take 8 to 20
    GB each."""
    hardware_version: int = Field(default=17, ge=13, le=22)
    """PVRDMA needs 13; 17 adds namespaces, 18 native endpoints, if ESXi and NIC support them. ESXi
    has no 16."""
    guest_id: str = Field(default="ubuntu64Guest", pattern=r"^[A-Za-z0-9_]+$")
    """vSphere's name of the guest system; it must be the template's, and a 64-bit Linux."""
    firmware: Literal["bios", "efi"] = "bios"
    """The template's firmware. vGPUs need efi, since only efi maps their memory above 4 GB."""
    roce_version: Literal["rocev1", "rocev2"] | None = None
    """Protocol of the PVRDMA adapters. None: vCenter chooses. Only rocev2 crosses a router."""
    management_network: InventoryName
    """Network of the first adapter, a vmxnet3. It carries SSH, never PVRDMA."""
    prefix_length: int = Field(default=24, ge=8, le=30)
    """Prefix length of the node's management address."""
    gateway: IPv4Address | None = None
    dns_servers: tuple[IPv4Address, ...] = ()
    domain: DnsName = "lab"
    clone_timeout_minutes: int = Field(default=30, ge=10, le=1440)
    """Time limit for cloning the template; the provider takes no less than 10. Applies at creation
    only."""
    customize_timeout_minutes: int = Field(default=10, ge=1, le=120)
    """Time limit for the guest to set name and addresses."""
    address_timeout_minutes: int = Field(default=15, ge=1, le=120)
    """Time limit for the guest tools to report an address."""
    several_pvrdma: bool = False
    """Allows more than one PVRDMA adapter: VMware's KB 328676 forbids it for 6.5, the Bitfusion
    guide does it."""

    @model_validator(mode="after")
    def _guest_is_64_bit_linux(self) -> Self:
        if not LINUX_64.match(self.guest_id):
            raise ValueError(
                f"guest_id {self.guest_id} is not a 64-bit Linux, and PVRDMA has drivers for "
                "nothing else; use a template of one, such as ubuntu64Guest"
            )
        return self

    @model_validator(mode="after")
    def _hardware_of_some_esxi(self) -> Self:
        if self.hardware_version == NO_ESXI:
            raise ValueError(
                f"no ESXi has hardware_version {NO_ESXI}, and the provider refuses it; set 15 "
                "(ESXi 6.7 U2) or 17 (7.0)"
            )
        return self


class ExistingMachine(Section):
    """An existing VM: rocelab compares it with what is declared, and never changes it."""

    existing: InventoryName
    """Its name in vCenter, which must be unique in the datacenter."""
    host: InventoryName | None = None
    """The ESXi host that it is on: rocelab verifies it, and never moves the VM."""
    apart: bool = True
    """Whether a worker must have its ESXi host for itself; rocelab moves no VM for that."""
    cpus: int | None = Field(default=None, ge=1, le=256)
    """None: any number."""
    memory_mbytes: int | None = Field(default=None, ge=1024, multiple_of=4)
    """None: any size. With PVRDMA or a vGPU all of it must be reserved and locked."""
    roce_version: Literal["rocev1", "rocev2"] | None = None
    """Protocol of its PVRDMA adapters on the lab's rails. None: any."""

    @model_validator(mode="before")
    @classmethod
    def _nothing_that_only_a_new_one_has(cls, given: object) -> object:
        fields = given if isinstance(given, dict) else {}
        if only := [
            name for name in Machine.model_fields if name in fields and name not in cls.model_fields
        ]:
            raise ValueError(
                f"{', '.join(only)} with existing: {fields.get('existing')}: an existing VM is not "
                f"cloned, moved or rebuilt; remove {'it' if len(only) == 1 else 'them'}, or "
                "remove existing to create a VM"
            )
        return given


def _made_or_existing(machine: object) -> str:
    there = (
        "existing" in machine if isinstance(machine, dict) else isinstance(machine, ExistingMachine)
    )
    return "existing_machine" if there else "new_machine"


AnyMachine = Annotated[
    Annotated[Machine, Tag("new_machine")] | Annotated[ExistingMachine, Tag("existing_machine")],
    Discriminator(_made_or_existing),
]
"""A machine with `existing` exists already; rocelab creates any other."""
