"""Existing switches, port groups and vmkernel adapters: found by name, read, and set field by
field.

Fields that are not declared keep their values, and nothing is ever removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyVmomi import vim

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.power import finish
from components.fabric.vcenter.properties import known, named
from components.fabric.vcenter.refusals import doing
from stacks.base import LabError

Values = Mapping[
    str, object
]  # by field: mtu_bytes, version, network_io_control, vlan_id, or member.<host>: its NIC
MEMBER = "member."


class Existing(Protocol):
    place: str
    """Its name in errors."""

    @property
    def ids(self) -> Mapping[str, str]:
        """What others need to refer to it."""

    def read(self, fields: Values) -> dict[str, object]:
        """Values of the fields now."""

    def put(self, changes: Values) -> None:
        """Sets fields."""


def find(vcenter: VCenter, kind: str, path: str) -> Existing:
    """An object by its path: `datacenter/switch`, `datacenter/switch/port group` or `host/vmk3`.

    Raises:
        LabError: when it does not exist.
    """
    first, *rest = path.split("/")
    if kind == "vmkernel":
        return ExistingVmkernel(vcenter, first, rest[0])
    place, _ = named(vcenter.content, vim.Datacenter, first)
    switch, _ = named(vcenter.content, vim.DistributedVirtualSwitch, rest[0], place)
    if kind == "switch":
        return ExistingSwitch(vcenter, switch, rest[0])
    for group in known(switch, "portgroup"):
        if group.name == rest[1]:
            return ExistingGroup(vcenter, group, rest[1])
    raise LabError(f"switch {rest[0]} has no port group {rest[1]}")


@dataclass(slots=True)
class ExistingSwitch:
    _vcenter: VCenter
    _switch: Any
    place: str

    @property
    def ids(self) -> Mapping[str, str]:
        """Its UUID is what the provider calls its id."""
        return {"uuid": str(self._switch.uuid), "moid": str(self._switch._GetMoId())}

    def read(self, fields: Values) -> dict[str, object]:
        """Current values of the fields; a member's NICs are separated by commas, and empty for
        other hosts.
        """
        config = self._switch.config
        nics = {}
        for member in config.host or [] if any(key.startswith(MEMBER) for key in fields) else []:
            nics[str(member.config.host.name)] = ",".join(
                spec.pnicDevice for spec in member.config.backing.pnicSpec or []
            )
        own: dict[str, object] = {
            "mtu_bytes": config.maxMtu,
            "version": config.productInfo.version,
            "network_io_control": bool(config.networkResourceManagementEnabled),
        }
        values = {}
        for key in fields:
            values[key] = (
                nics.get(key.removeprefix(MEMBER), "") if key.startswith(MEMBER) else own[key]
            )
        return values

    def put(self, changes: Values) -> None:
        """Sets fields; a member is added with its NIC, and no other member is touched."""
        if "version" in changes:
            self._upgrade(str(changes["version"]))
        members = {
            key.removeprefix(MEMBER): nic for key, nic in changes.items() if key.startswith(MEMBER)
        }
        if "mtu_bytes" in changes or members:
            spec = vim.dvs.VmwareDistributedVirtualSwitch.ConfigSpec(
                configVersion=self._switch.config.configVersion
            )
            if "mtu_bytes" in changes:
                spec.maxMtu = int(str(changes["mtu_bytes"]))
            spec.host = [self._member(host, str(nic)) for host, nic in members.items()]
            what = "change " + ", ".join(sorted(changes))
            finish(self._vcenter, lambda: self._switch.ReconfigureDvs_Task(spec), self.place, what)
        if "network_io_control" in changes:
            with doing(self.place, "set its network I/O control"):
                self._switch.EnableNetworkResourceManagement(bool(changes["network_io_control"]))

    def _upgrade(self, version: str) -> None:
        now = str(self._switch.config.productInfo.version)
        if _numbers(now) > _numbers(version):
            raise LabError(older(self.place, now, version))
        product = vim.dvs.ProductSpec(version=version)
        finish(
            self._vcenter,
            lambda: self._switch.PerformDvsProductSpecOperation_Task("upgrade", product),
            self.place,
            f"upgrade it from {now} to {version}",
        )

    def _member(self, name: str, nic: str) -> vim.dvs.HostMember.ConfigSpec:
        host = self._vcenter.host(name)
        ours = []
        for member in self._switch.config.host or []:
            if member.config.host == host:
                ours.append(member)
        if ours and (nics := [spec.pnicDevice for spec in ours[0].config.backing.pnicSpec or []]):
            raise LabError(f"{name}: {unswapped(self.place, ', '.join(nics), nic)}")
        backing = vim.dvs.HostMember.PnicBacking(
            pnicSpec=[vim.dvs.HostMember.PnicSpec(pnicDevice=nic)]
        )
        operation = "edit" if ours else "add"
        return vim.dvs.HostMember.ConfigSpec(operation=operation, host=host, backing=backing)


@dataclass(slots=True)
class ExistingGroup:
    _vcenter: VCenter
    _group: Any
    place: str

    @property
    def ids(self) -> Mapping[str, str]:
        """The key of a port group is its managed object id."""
        return {"moid": str(self._group._GetMoId())}

    def read(self, fields: Values) -> dict[str, object]:
        """Its VLAN; -1 for a trunk or a private VLAN."""
        vlan = getattr(getattr(self._group.config.defaultPortConfig, "vlan", None), "vlanId", 0)
        return {key: vlan if isinstance(vlan, int) else -1 for key in fields}

    def put(self, changes: Values) -> None:
        """Sets its VLAN; what else its ports do stays."""
        switch = vim.dvs.VmwareDistributedVirtualSwitch
        vlan = switch.VlanIdSpec(vlanId=int(str(changes["vlan_id"])), inherited=False)
        setting = switch.VmwarePortConfigPolicy(vlan=vlan)
        spec = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(
            configVersion=self._group.config.configVersion, defaultPortConfig=setting
        )
        finish(
            self._vcenter,
            lambda: self._group.ReconfigureDVPortgroup_Task(spec),
            self.place,
            f"set VLAN {changes['vlan_id']}",
        )


class ExistingVmkernel:
    def __init__(self, vcenter: VCenter, host: str, device: str) -> None:
        self.place = f"{host}/{device}"
        self._host, self._device = vcenter.host(host), device

    @property
    def ids(self) -> Mapping[str, str]:
        """Its name is its identity."""
        return {"moid": self._device}

    def read(self, fields: Values) -> dict[str, object]:
        for adapter in known(self._host, "config.network").vnic or []:
            if adapter.device == self._device:
                return dict.fromkeys(fields, adapter.spec.mtu or 1500)
        raise LabError(f"{self.place}: the host has no such vmkernel adapter")

    def put(self, changes: Values) -> None:
        """Sets its MTU: fields that a specification leaves out keep their values."""
        network = known(self._host, "configManager.networkSystem")
        with doing(self.place, f"set an MTU of {changes['mtu_bytes']}"):
            network.UpdateVirtualNic(
                self._device, vim.host.VirtualNic.Specification(mtu=int(str(changes["mtu_bytes"])))
            )


def older(switch: str, now: str, declared: str) -> str:
    """The fault of a declared version that is older than the switch's."""
    return f"{switch}: has version {now} and cannot go back to {declared}; set version: {now}"


def unswapped(switch: str, now: str, declared: str) -> str:
    """The fault of a host that is on an adopted switch with another NIC than the lab's."""
    return (
        f"is on {switch} with {now}, but the lab file sets {declared}, and rocelab never replaces "
        "an uplink; correct the lab file's uplink, or change the NIC in vCenter"
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in version.split(".") if word.isdigit())
