"""The vSphere fabric of a lab: distributed switches, one per uplink, and what PVRDMA needs on each
ESXi host.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stacks.base import InterfaceAddress, InventoryName, LocalFile, Name, Port, Section, repeated
from stacks.files import read_simulator_file
from stacks.nodes import VsphereVm

MacAddress = Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]
Vmknic = Annotated[str, Field(pattern=r"^vmk\d{1,2}$")]
Use = Literal["create", "adopt", "reference"]
SwitchVersion = Literal["6.5.0", "6.6.0", "7.0.0", "7.0.2", "7.0.3", "8.0.0", "8.0.3", "9.0.0"]
"""Versions that the provider can set; the switch's oldest ESXi host limits the choice."""


class UplinkChoice(Section):
    """Which physical NIC of an ESXi host becomes the uplink: exactly one NIC must match everything
    that is set.
    """

    name: str | None = Field(default=None, pattern=r"^vmnic\d{1,3}$")
    mac: MacAddress | None = None
    driver: str | None = Field(default=None, pattern=r"^[a-z0-9_]+$")
    """ESXi's driver, such as `nmlx5_core`."""
    min_speed_mbit: int | None = Field(default=None, ge=1)
    """Minimum link speed; a NIC without link has none."""
    rdma_device: str | None = Field(default=None, pattern=r"^vmrdma\d{1,3}$")
    """The RDMA device that the NIC carries."""

    @model_validator(mode="after")
    def _something_is_asked_for(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("selects no NIC; set name, mac, driver, min_speed_mbit or rdma_device")
        return self


class Vmkernel(Section):
    """The vmkernel adapter of an ESXi host that carries PVRDMA's control traffic: a new or an
    existing one.
    """

    address: InterfaceAddress | None = None
    """Creates an adapter with this address on the switch's port group."""
    existing: Vmknic | None = None
    """Uses an existing adapter, and never moves it."""
    use: Literal["reference", "adopt"] = "reference"
    """How to use an existing adapter. reference: never changes it. adopt: sets what is declared
    here, and keeps it."""
    mtu_bytes: int | None = Field(default=None, ge=1280, le=9000)
    """MTU of an adopted adapter; a new one has its switch's."""

    @model_validator(mode="after")
    def _made_or_taken(self) -> Self:
        if (self.address is None) == (self.existing is None):
            raise ValueError("set either address (for a new adapter) or existing (such as vmk0)")
        if (self.use == "adopt") != (self.mtu_bytes is not None) or (
            self.use == "adopt" and self.existing is None
        ):
            raise ValueError(
                "use: adopt needs existing and mtu_bytes, and mtu_bytes needs use: adopt; set them "
                "together"
            )
        return self


class EsxiHost(Section):
    """An ESXi host of the cluster."""

    name: InventoryName
    """Name in vCenter's inventory."""
    uplink: UplinkChoice | None = None
    """Where this host differs from the switch's `uplink`."""
    vmkernel: Vmkernel | None = None
    """None: the host gets no PVRDMA settings."""


class DistributedSwitch(Section):
    """A distributed switch with one uplink per ESXi host. PVRDMA has no teaming: a second NIC is a
    second switch.
    """

    name: InventoryName
    rail: Name
    """The rail that its port group carries."""
    use: Use = "create"
    """create: a new switch, removed with the stack; its name must be free. adopt: an existing
    switch that gets what is declared here (version, MTU, network I/O control, the hosts as
    members); nothing else changes, and it is never removed. reference: only looked up; its ports,
    hosts and MTU are left alone."""
    version: SwitchVersion = "7.0.3"
    mtu_bytes: int = Field(default=9000, ge=1280, le=9000)
    """vCenter allows 9000 at most."""
    uplink: UplinkChoice
    network_io_control: bool = False
    """Network I/O control. The guides turn it off, since it would divide bandwidth between kinds of
    traffic."""
    port_group: InventoryName
    port_group_use: Use | None = None
    """How to use the port group, as in `use`; None: the same as `use`."""
    vlan_id: int = Field(default=0, ge=0, le=4094)
    """VLAN of the port group; 0 is untagged."""
    hosts: tuple[EsxiHost, ...] = Field(min_length=1)

    @property
    def group_use(self) -> Use:
        """Whether the port group is created, adopted or only looked up."""
        return self.port_group_use or self.use

    @property
    def carries_pvrdma(self) -> bool:
        """Whether an ESXi host has a vmkernel adapter on it, as PVRDMA needs."""
        return any(host.vmkernel is not None for host in self.hosts)

    def declared(self, name: str) -> bool:
        """Whether the lab file sets the field: rocelab applies no defaults to an adopted object."""
        return name in self.model_fields_set

    @model_validator(mode="after")
    def _a_new_switch_has_new_port_groups(self) -> Self:
        if self.use == "create" and self.group_use != "create":
            raise ValueError(
                f"port_group_use is {self.group_use}, but a new switch has no port group yet; set "
                "create"
            )
        return self

    @model_validator(mode="after")
    def _each_host_once(self) -> Self:
        if twice := repeated(host.name for host in self.hosts):
            raise ValueError(f"host {twice[0]} is listed twice; remove one")
        return self


class Fabric(Section):
    """A vCenter, and what rocelab creates in it."""

    vcenter: str = Field(pattern=r"^[A-Za-z0-9.-]+$")
    """Host name or address."""
    port: Port = 443
    user: str
    password: Literal["secret", "file"] = "secret"  # noqa: S105  # where it is, not what
    """The stack secret `rocelab:vcenterPassword`, or the simulator's `password_file`."""
    password_file: LocalFile | None = None
    host_keys: Literal["known_hosts", "secret", "file"] = "known_hosts"
    """The SSH host keys of VMs that rocelab creates. known_hosts: you add them, as for every node.
    secret: derived from the stack secret `rocelab:hostKeySeed` and passed to each VM by guestinfo
    before its first start, for cloud-init (21.3 or newer in the template); every connection then
    requires that key."""
    host_keys_file: LocalFile | None = None
    """For `file`: the simulator's secret, instead of the stack's."""
    ca_file: LocalFile | None = None
    """Certificate authority of the vCenter. None: the system's, unless a thumbprint is set."""
    thumbprint_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """sha256 of the vCenter's certificate, hexadecimal without colons; no other certificate is then
    accepted."""
    datacenter: InventoryName
    cluster: InventoryName
    switches: tuple[DistributedSwitch, ...] = Field(min_length=1)
    preflight: Literal["enforce", "warn"] = "enforce"
    """What a fault of ESXi hosts or switches does before anything is changed: stop the run, or only
    warn."""
    pvrdma_firewall: bool = True
    """Opens the `pvrdma` ruleset (TCP 28250 to 28761) on ESXi hosts with a vmkernel adapter. Never
    closes a port."""
    allow_management_vmkernel: bool = False
    """Whether PVRDMA may share the adapter of the management address."""

    @property
    def switch_by_rail(self) -> dict[str, DistributedSwitch]:
        return {switch.rail: switch for switch in self.switches}

    def hosts_of(self, node: VsphereVm) -> list[str]:
        """Where a VM may run: its pinned ESXi host, or every ESXi host of its rails' switches."""
        if node.machine.host:
            return [node.machine.host]
        names: set[str] = set()
        for switch in self.switches:
            if node.pf_on(switch.rail):
                names.update(host.name for host in switch.hosts)
        return sorted(names)

    @model_validator(mode="after")
    def _one_vmkernel_a_host(self) -> Self:
        tagged = []
        for switch in self.switches:
            for host in switch.hosts:
                if host.vmkernel is not None:
                    tagged.append(host.name)
        if twice := repeated(tagged):
            raise ValueError(
                f"host {twice[0]} has a vmkernel on two switches, but Net.PVRDMAVmknic takes one; "
                "remove one"
            )
        return self


def read_password(fabric: Fabric, root: Path) -> str:
    """The simulator's password.

    Raises:
        LabError: when its file cannot be read.
    """
    return read_simulator_file("fabric.password_file", fabric.password_file, root).strip()
