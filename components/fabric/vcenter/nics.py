"""Physical NICs of an ESXi host, and the choice of one: a pure function, so that a doubt is refused, never guessed."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyVmomi import vim

from stacks.base import LabError
from stacks.fabric import UplinkChoice


@dataclass(frozen=True, kw_only=True, slots=True)
class Nic:
    """A physical NIC as vCenter describes it."""

    name: str
    mac: str
    driver: str
    speed_mbit: int
    """0: no link."""
    rdma_device: str = ""
    """Empty: it has none."""
    switch: str = ""
    """The switch whose uplink it is; empty: it is free."""
    pci: str = ""
    """Where it is plugged in, such as `0000:3b:00.0`."""
    driver_version: str = ""
    """Empty: the host does not tell, as before vSphere 8.0."""
    firmware: str = ""

    def __str__(self) -> str:
        speed = f"{self.speed_mbit} Mbit/s" if self.speed_mbit else "no link"
        extras = ", ".join(filter(None, [self.rdma_device, f"uplink of {self.switch}" if self.switch else ""]))
        return f"{self.name} ({self.mac}, {self.driver}, {speed}{', ' + extras if extras else ''})"


def nics_of(network: vim.host.NetworkInfo) -> list[Nic]:
    """The physical NICs of a host's network configuration."""
    rdma: dict[object, str] = {
        device.backing.pairedUplink: device.device
        for device in network.rdmaDevice or []
        if isinstance(device.backing, vim.host.RdmaDevice.PnicBacking)
    }
    used: dict[object, str] = {key: switch.name for switch in network.vswitch or [] for key in switch.pnic or []}
    used |= {key: switch.dvsName for switch in network.proxySwitch or [] for key in switch.pnic or []}
    return [
        Nic(
            name=nic.device,
            mac=nic.mac.lower(),
            driver=nic.driver or "",
            speed_mbit=nic.linkSpeed.speedMb if nic.linkSpeed else 0,
            rdma_device=rdma.get(nic.key, ""),
            switch=used.get(nic.key, ""),
            pci=nic.pci or "",
            driver_version=getattr(nic, "driverVersion", None) or "",
            firmware=getattr(nic, "firmwareVersion", None) or "",
        )
        for nic in network.pnic or []
    ]


def choose(host: str, nics: Iterable[Nic], choice: UplinkChoice, switch: str, *, rdma: bool) -> Nic:
    """The one NIC that fits.

    Args:
        host: the ESXi host, for the error.
        nics: all of its physical NICs.
        choice: what the lab asks for.
        switch: the distributed switch that it is for; a NIC that is its uplink already counts as free.
        rdma: whether only a NIC with an RDMA device will do, as for PVRDMA: without one it falls back to TCP silently.

    Raises:
        LabError: when none fits, more than one does, or the one is another switch's uplink.
    """
    known = sorted(nics, key=lambda nic: nic.name)
    fitting = [nic for nic in known if _fits(nic, choice)]
    listed = "; ".join(map(str, fitting or known)) or "none"
    if not fitting:
        raise LabError(f"{host}: no NIC is {_asked(choice)}; it has {listed}")
    if len(fitting) > 1:
        raise LabError(
            f"{host}: {len(fitting)} NICs are {_asked(choice)}: {listed}. PVRDMA allows one uplink a switch; "
            "name one by uplink.name or uplink.mac"
        )
    nic = fitting[0]
    if nic.switch not in ("", switch):
        raise LabError(f"{host}: {nic} is in use. It is never taken away; choose another, or free it by hand")
    if rdma and not nic.rdma_device:
        raise LabError(f"{host}: {nic} has no RDMA device, so PVRDMA would fall back to TCP without a word")
    return nic


def _fits(nic: Nic, choice: UplinkChoice) -> bool:
    return (
        choice.name in (None, nic.name)
        and choice.mac in (None, nic.mac.lower())
        and choice.driver in (None, nic.driver)
        and choice.rdma_device in (None, nic.rdma_device)
        and nic.speed_mbit >= (choice.min_speed_mbit or 0)
    )


def _asked(choice: UplinkChoice) -> str:
    return ", ".join(f"{key} {value}" for key, value in choice.model_dump(exclude_none=True).items())
