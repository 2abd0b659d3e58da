"""The vSphere fabric of a lab: distributed switches, one per uplink, and what PVRDMA needs on each ESXi host."""

from ipaddress import IPv4Interface
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stacks.base import InventoryName, LabError, Name, Port, Section

MacAddress = Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]
Vmknic = Annotated[str, Field(pattern=r"^vmk\d{1,2}$")]
Use = Literal["create", "adopt", "reference"]
SwitchVersion = Literal["6.5.0", "6.6.0", "7.0.0", "7.0.2", "7.0.3", "8.0.0", "8.0.3", "9.0.0"]
"""What the provider can set; the oldest ESXi host of the switch decides what may be asked for."""


class UplinkChoice(Section):
    """Which physical NIC of a host becomes the uplink. All that is given must fit, and exactly one NIC may be left."""

    name: str | None = Field(default=None, pattern=r"^vmnic\d{1,3}$")
    mac: MacAddress | None = None
    driver: str | None = Field(default=None, pattern=r"^[a-z0-9_]+$")
    """ESXi's driver, such as `nmlx5_core`."""
    min_speed_mbit: int | None = Field(default=None, ge=1)
    """Least link speed; a NIC without link has none."""
    rdma_device: str | None = Field(default=None, pattern=r"^vmrdma\d{1,3}$")
    """The RDMA device that the NIC carries."""

    @model_validator(mode="after")
    def _something_is_asked_for(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("names no NIC: give name, mac, driver, min_speed_mbit or rdma_device")
        return self


class Vmkernel(Section):
    """The vmkernel adapter of a host that carries PVRDMA's control traffic: one to be made, or one that is there."""

    address: IPv4Interface | None = None
    """Makes an adapter with this address on the switch's port group."""
    existing: Vmknic | None = None
    """Takes one that is there, and never moves it."""
    use: Literal["reference", "adopt"] = "reference"
    """Of an existing one. reference: nothing of it is changed. adopt: what is declared here is set, and stays set."""
    mtu_bytes: int | None = Field(default=None, ge=1280, le=9000)
    """Set on an adopted adapter; one that is made has its switch's."""

    @model_validator(mode="after")
    def _made_or_taken(self) -> Self:
        if (self.address is None) == (self.existing is None):
            raise ValueError("wants either address (one is made) or existing (one is taken, such as vmk0)")
        if (self.use == "adopt") != (self.mtu_bytes is not None) or (self.use == "adopt" and self.existing is None):
            raise ValueError("use: adopt and mtu_bytes go together, with existing: what else it has is never changed")
        return self


class EsxiHost(Section):
    """An ESXi host of the cluster."""

    name: InventoryName
    """As vCenter's inventory has it."""
    uplink: UplinkChoice | None = None
    """Where this host differs from the switch's `uplink`."""
    vmkernel: Vmkernel | None = None
    """None: the host gets no PVRDMA settings."""


class DistributedSwitch(Section):
    """A distributed switch with one uplink a host: PVRDMA supports no teaming, so a second NIC is a second switch."""

    name: InventoryName
    rail: Name
    """The rail that its port group carries."""
    use: Use = "create"
    """create: ours, removed with the stack; the name must be free. adopt: one that is there gets what is declared here
    (version, MTU, network I/O control, the hosts as members), nothing else of it changes, and it is never removed.
    reference: only looked up; its ports, hosts and MTU are left alone."""
    version: SwitchVersion = "7.0.3"
    mtu_bytes: int = Field(default=9000, ge=1280, le=9000)
    """vCenter allows 9000 at most."""
    uplink: UplinkChoice
    network_io_control: bool = False
    """The guides turn it off: it would share bandwidth out between kinds of traffic. Read back after it is made."""
    port_group: InventoryName
    port_group_use: Use | None = None
    """The same choice for the port group; None: as `use`."""
    vlan_id: int = Field(default=0, ge=0, le=4094)
    """VLAN of the port group; 0 is untagged."""
    hosts: tuple[EsxiHost, ...] = Field(min_length=1)

    @property
    def group_use(self) -> Use:
        """Whether the port group is made, adopted or only looked up."""
        return self.port_group_use or self.use

    @property
    def carries_pvrdma(self) -> bool:
        """Whether a host has a vmkernel adapter on it, and PVRDMA so a way between hosts."""
        return any(host.vmkernel is not None for host in self.hosts)

    def declared(self, name: str) -> bool:
        """Whether the lab file itself gives the field: an adopted object gets no default of ours."""
        return name in self.model_fields_set

    @model_validator(mode="after")
    def _a_new_switch_has_new_port_groups(self) -> Self:
        if self.use == "create" and self.group_use != "create":
            raise ValueError(f"port_group_use {self.group_use}: a switch that is made here has no port group yet")
        return self

    @model_validator(mode="after")
    def _each_host_once(self) -> Self:
        names = [host.name for host in self.hosts]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"host {twice[0]} stands here twice: remove one")
        return self


class Fabric(Section):
    """A vCenter and what is placed in it."""

    vcenter: str = Field(pattern=r"^[A-Za-z0-9.-]+$")
    """Host name or address."""
    port: Port = 443
    user: str
    password: Literal["secret", "file"] = "secret"  # noqa: S105  # where it is, not what
    """The stack secret `rocelab:vcenterPassword`, or the simulator's `password_file`."""
    password_file: Path | None = None
    host_keys: Literal["known_hosts", "secret", "file"] = "known_hosts"
    """The SSH host keys of machines that are made here. known_hosts: as of every node, written down by hand. secret:
    derived from the stack secret `rocelab:hostKeySeed` and given to each machine by guestinfo before its first start,
    for cloud-init (21.3 or newer in the template); the same key is what every connection wants to see."""
    host_keys_file: Path | None = None
    """For `file`: the simulator's secret, in place of the stack's."""
    ca_file: Path | None = None
    """Certificate authority of the vCenter. None: the system's, unless a thumbprint is given."""
    thumbprint_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """sha256 of the vCenter's own certificate, hexadecimal without colons; then nothing else may answer."""
    datacenter: InventoryName
    cluster: InventoryName
    switches: tuple[DistributedSwitch, ...] = Field(min_length=1)
    preflight: Literal["enforce", "warn"] = "enforce"
    """What a fault of hosts or switches does before anything is changed: it stops the run, or is only told."""
    pvrdma_firewall: bool = True
    """Opens the `pvrdma` ruleset (TCP 28250 to 28761) on hosts with a vmkernel adapter. Nothing is ever narrowed."""
    allow_management_vmkernel: bool = False
    """Whether PVRDMA may share the adapter of the management address."""

    @model_validator(mode="after")
    def _one_vmkernel_a_host(self) -> Self:
        tagged = [host.name for switch in self.switches for host in switch.hosts if host.vmkernel is not None]
        if twice := sorted({name for name in tagged if tagged.count(name) > 1}):
            raise ValueError(
                f"host {twice[0]} has a vmkernel on two switches, and Net.PVRDMAVmknic names one: leave one out"
            )
        return self


def read_password(fabric: Fabric, root: Path) -> str:
    """The simulator's password.

    Raises:
        LabError: when its file cannot be read.
    """
    path = root / (fabric.password_file or "")
    try:
        return path.read_text().strip()
    except OSError as error:
        raise LabError(
            f"fabric.password_file: {fabric.password_file} cannot be read ({error.strerror}). "
            "The simulator's is written by: make up"
        ) from None
