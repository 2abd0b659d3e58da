"""Where PVRDMA VMs run now, and the counters of the HCAs below them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from pyVmomi import vmodl

from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.esxcli import esxcli, number_of
from components.fabric.vcenter.nics import choose
from components.fabric.vcenter.refusals import explained
from components.fabric.vcenter.session import endpoint_of
from components.fabric.vms.spread import hosts_of_machines
from components.ssh.credentials import Setting
from stacks.base import LabError
from stacks.fabric import Fabric
from stacks.frozen import frozen

STATISTICS = "rdma device stats get"
SENT, RECEIVED = "Bytes sent", "Bytes received"
"""Columns of the command's output."""


@frozen
class HcaCounters:
    """Counters of the HCA below one VM on one rail."""

    host: str = ""
    """ESXi host; empty: unknown."""
    device: str = ""
    """RDMA device of the host, such as `vmrdma0`."""
    sent_bytes: int | None = None
    received_bytes: int | None = None
    why: str = ""
    """Why a value is unknown."""


class VcenterHcas:
    """The HCAs of a lab, over one session with its vCenter. Not for two threads at once."""

    def __init__(self, vcenter: VCenter, fabric: Fabric) -> None:
        self._vcenter, self._switches = vcenter, fabric.switch_by_rail
        self._devices: dict[tuple[str, str], str] = {}

    def look(self, machines: Iterable[tuple[str, str]]) -> dict[tuple[str, str], HcaCounters]:
        """Counters by (rail, machine); a value that cannot be read has its reason there. Blocks.

        Raises:
            LabError: when the vCenter does not answer.
        """
        ends = list(machines)
        try:
            return self._looked(ends)
        except (vmodl.MethodFault, OSError, HTTPException) as error:
            raise LabError(
                f"the vCenter does not report where the VMs run: {explained(error)}"
            ) from None

    def _looked(self, ends: list[tuple[str, str]]) -> dict[tuple[str, str], HcaCounters]:
        places = machines_on_hosts(self._vcenter, {machine for _, machine in ends})
        counted: dict[tuple[str, str], HcaCounters] = {}
        counters = {}
        for rail, machine in ends:
            host = places.get(machine)
            if host is None:
                why = f"the vCenter has no single VM named {machine}, or does not report its host"
                counters[rail, machine] = HcaCounters(why=why)
                continue
            if (rail, host) not in counted:
                counted[rail, host] = self._counted(rail, host)
            counters[rail, machine] = counted[rail, host]
        return counters

    def _counted(self, rail: str, host: str) -> HcaCounters:
        device = ""
        try:
            device = self._device(rail, host)
            rows = esxcli(self._vcenter.host(host), host, STATISTICS, device=device)
        except LabError as error:
            return HcaCounters(host=host, device=device, why=str(error))
        row = rows[0] if rows else {}
        sent, received = number_of(row, SENT), number_of(row, RECEIVED)
        lacking = []
        for name, value in ((SENT, sent), (RECEIVED, received)):
            if value is None:
                lacking.append(name)
        reported = ", ".join(sorted(row)) or "nothing"
        reason = ""
        if lacking:
            missing = " and no ".join(lacking)
            reason = f"{host}: esxcli {STATISTICS} reports no {missing}; it reports {reported}"
        return HcaCounters(
            host=host,
            device=device,
            sent_bytes=sent,
            received_bytes=received,
            why=reason[:300],
        )

    def _device(self, rail: str, host: str) -> str:
        """RDMA device of the rail's uplink on an ESXi host.

        Raises:
            LabError: when the rail has no switch there, or not one uplink.
        """
        if (rail, host) not in self._devices:
            switch = self._switches.get(rail)
            known = None
            if switch:
                known = next(
                    (candidate for candidate in switch.hosts if candidate.name == host), None
                )
            if switch is None or known is None:
                raise LabError(
                    f"{host}: the lab file sets no uplink for rail {rail} there; add it in "
                    "fabric.switches"
                )
            nics = self._vcenter.nics(self._vcenter.host(host))
            nic = choose(host, nics, known.uplink or switch.uplink, switch.name, rdma=True)
            self._devices[rail, host] = nic.rdma_device
        return self._devices[rail, host]


def machines_on_hosts(vcenter: VCenter, names: Iterable[str]) -> Mapping[str, str]:
    """ESXi host by VM name; a name that two VMs have is left out."""
    machine_names = set(names)
    machines: dict[str, list[str]] = {}
    for name, host in hosts_of_machines(vcenter, "name"):
        if name in machine_names:
            machines.setdefault(str(name), []).append(host)
    return {name: where[0] for name, where in machines.items() if len(where) == 1 and where[0]}


@contextmanager
def opened(fabric: Fabric, setting: Setting, root: Path) -> Iterator[VcenterHcas]:
    """The HCAs of a lab, over a session that ends with the block.

    Raises:
        LabError: when the login fails.
    """
    with session(endpoint_of(fabric, setting, root)) as vcenter:
        yield VcenterHcas(vcenter, fabric)
