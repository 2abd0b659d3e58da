"""Physical NICs and RDMA devices of an ESXi host, and the choice of one NIC without guessing."""

from collections.abc import Iterable, Mapping
from dataclasses import field

from pyVmomi import vim

from components.fabric.vcenter.esxcli import esxcli, text_of
from stacks.base import LabError
from stacks.fabric import UplinkChoice
from stacks.frozen import frozen

RDMA_DEVICE_LIST = "rdma device list"
NAME_COLUMN, UPLINK_COLUMN, STATE_COLUMN = "Name", "Paired Uplink", "State"
"""Columns of the command's output."""
FIRST_WITH_RDMA_DEVICES = 7
"""The first major release of ESXi whose network configuration has `rdmaDevice`."""


@frozen
class RdmaDevice:
    """The RDMA device of a physical NIC."""

    name: str
    """Such as `vmrdma0`."""
    state: str
    """Such as `active` or `down`, in lower case; empty: unknown."""


@frozen
class RdmaDevices:
    """The RDMA devices of an ESXi host."""

    of: Mapping[str, RdmaDevice] = field(default_factory=dict)
    """By NIC."""
    unknown: str = ""
    """Why the devices are unknown; empty: those above are all."""


def needs_esxcli(version: str, network: vim.host.NetworkInfo) -> bool:
    """Whether only esxcli reports the devices: the host is older than 7.0, or of an unknown
    release.
    """
    major = version.partition(".")[0]
    return not network.rdmaDevice and not (
        major.isdecimal() and int(major) >= FIRST_WITH_RDMA_DEVICES
    )


def rdma_in(network: vim.host.NetworkInfo) -> RdmaDevices:
    """The devices in the host's network configuration."""
    names: dict[object, str] = {nic.key: nic.device for nic in network.pnic or []}
    devices = {}
    for device in network.rdmaDevice or []:
        backing = device.backing
        if not isinstance(backing, vim.host.RdmaDevice.PnicBacking):
            continue
        if backing.pairedUplink in names:
            state = str(device.connectionInfo.state or "").lower()
            devices[names[backing.pairedUplink]] = RdmaDevice(name=device.device, state=state)
    return RdmaDevices(of=devices)


def rdma_by_esxcli(host: vim.HostSystem, place: str) -> RdmaDevices:
    """The devices as esxcli lists them; `place` is the host's name. No answer never counts as no
    device.
    """
    try:
        rows = [row for row in esxcli(host, place, RDMA_DEVICE_LIST) if row]
    except LabError as error:
        return RdmaDevices(unknown=str(error).removeprefix(f"{place}: "))
    devices = {}
    for row in rows:
        if (uplink := text_of(row, UPLINK_COLUMN)) and (name := text_of(row, NAME_COLUMN)):
            devices[uplink] = RdmaDevice(name=name, state=text_of(row, STATE_COLUMN).lower())
    if rows and not devices:
        columns = f"{NAME_COLUMN} with a {UPLINK_COLUMN}"
        fields = ", ".join(sorted({key for row in rows for key in row}))
        return RdmaDevices(
            unknown=f"esxcli {RDMA_DEVICE_LIST} reports no {columns}; it reports {fields}"[:300]
        )
    return RdmaDevices(of=devices)


@frozen
class Nic:
    """A physical NIC as vCenter describes it."""

    name: str
    mac: str
    driver: str
    speed_mbit: int
    """0: no link."""
    rdma_device: str = ""
    """Empty: it has none, or that is unknown."""
    rdma_state: str = ""
    """State of that device, such as `active`; empty: unknown."""
    rdma_unknown: str = ""
    """Why it is unknown whether it has one; empty: it is known."""
    switch: str = ""
    """The switch whose uplink it is; empty: it is free."""
    pci: str = ""
    """Where it is plugged in, such as `0000:3b:00.0`."""
    driver_version: str = ""
    """Empty: unknown, as before vSphere 8.0."""
    firmware: str = ""

    def __str__(self) -> str:
        speed = "no link"
        if self.speed_mbit:
            speed = f"{self.speed_mbit} Mbit/s"
        extras = ", ".join(
            filter(None, [self.rdma_device, f"uplink of {self.switch}" if self.switch else ""])
        )
        return f"{self.name} ({self.mac}, {self.driver}, {speed}{', ' + extras if extras else ''})"


def nics_of(network: vim.host.NetworkInfo, rdma: RdmaDevices) -> list[Nic]:
    """The physical NICs of a host's network configuration, with its RDMA devices."""
    used: dict[object, str] = {
        key: switch.name for switch in network.vswitch or [] for key in switch.pnic or []
    }
    used |= {
        key: switch.dvsName for switch in network.proxySwitch or [] for key in switch.pnic or []
    }
    nics = []
    for nic in network.pnic or []:
        device = rdma.of.get(nic.device)
        speed_mbit = nic.linkSpeed.speedMb if nic.linkSpeed else 0
        rdma_device = device.name if device else ""
        rdma_state = device.state if device else ""
        nics.append(
            Nic(
                name=nic.device,
                mac=nic.mac.lower(),
                driver=nic.driver or "",
                speed_mbit=speed_mbit,
                rdma_device=rdma_device,
                rdma_state=rdma_state,
                rdma_unknown=rdma.unknown,
                switch=used.get(nic.key, ""),
                pci=nic.pci or "",
                driver_version=getattr(nic, "driverVersion", None) or "",
                firmware=getattr(nic, "firmwareVersion", None) or "",
            )
        )
    return nics


def choose(host: str, nics: Iterable[Nic], choice: UplinkChoice, switch: str, *, rdma: bool) -> Nic:
    """The one NIC that fits.

    Args:
        host: the ESXi host, for the error.
        nics: all of its physical NICs.
        choice: the choice in the lab file.
        switch: the distributed switch that it is for; a NIC that is its uplink already counts as
            free.
        rdma: whether only a NIC with an RDMA device will do, as for PVRDMA: without one it falls
            back to TCP silently.

    Raises:
        LabError: when none fits, more than one does, the one is another switch's uplink, or its
            RDMA device is unknown.
    """
    known = sorted(nics, key=lambda nic: nic.name)
    fitting = [nic for nic in known if _fits(nic, choice)]
    listed = "; ".join(map(str, fitting or known)) or "none"
    if (
        not fitting
        and choice.rdma_device
        and (unknown := next((nic for nic in known if nic.rdma_unknown), None))
    ):
        raise LabError(
            f"{host}: rocelab cannot tell which NIC has {choice.rdma_device}: "
            f"{_esxcli_remedy(unknown)}"
        )
    if not fitting:
        raise LabError(
            f"{host}: no NIC matches {_criteria(choice)}; it has {listed}. A VPI port has none "
            "while its port type is InfiniBand"
        )
    if len(fitting) > 1:
        raise LabError(
            f"{host}: {len(fitting)} NICs match {_criteria(choice)}: {listed}. PVRDMA allows one "
            "uplink per switch; choose one with uplink.name or uplink.mac"
        )
    nic = fitting[0]
    if nic.switch not in ("", switch):
        raise LabError(
            f"{host}: {nic} is in use, and rocelab never takes a NIC away; choose another, or "
            "free it"
        )
    if rdma:
        refuse_without_rdma(host, nic)
    return nic


def refuse_without_rdma(host: str, nic: Nic) -> None:
    """Refuses a NIC without an RDMA device, or with an unknown one.

    Raises:
        LabError: for either, with different texts.
    """
    if nic.rdma_device:
        return
    if nic.rdma_unknown:
        raise LabError(
            f"{host}: rocelab cannot tell whether {nic} has an RDMA device: {_esxcli_remedy(nic)}"
        )
    raise LabError(
        f"{host}: {nic} has no RDMA device, so PVRDMA would silently fall back to TCP; choose "
        "another"
    )


def _esxcli_remedy(nic: Nic) -> str:
    return (
        f"ESXi before 7.0 reports it through esxcli only, and {nic.rdma_unknown}. Let fabric.user "
        "run esxcli on this host, or upgrade the host to 7.0"
    )


def _fits(nic: Nic, choice: UplinkChoice) -> bool:
    return (
        choice.name in (None, nic.name)
        and choice.mac in (None, nic.mac.lower())
        and choice.driver in (None, nic.driver)
        and choice.rdma_device in (None, nic.rdma_device)
        and nic.speed_mbit >= (choice.min_speed_mbit or 0)
    )


def _criteria(choice: UplinkChoice) -> str:
    return ", ".join(
        f"{key} {value}" for key, value in choice.model_dump(exclude_none=True).items()
    )
