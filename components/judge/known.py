"""What is known of the hardware beside the log: options, a lab file, an inventory."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from components.physics.ceilings import Framing
from components.physics.pcie import pcie_link
from stacks.base import LabError

T = TypeVar("T")

if TYPE_CHECKING:
    from components.inventory.model import Inventory, Pf
    from stacks.lab import Lab


@dataclass(kw_only=True, slots=True)
class KnownHardware:
    """None is unknown, and stays so: a ceiling that needs it is not computed."""

    nic_gbit_s: float | None = None
    """Line rate of one NIC; of a bond all its ports."""
    nics_per_node: int | None = None
    path_mtu_bytes: int | None = None
    framing: Framing | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    gpu: str | None = None
    pcie_gbit_s: float | None = None
    """Payload of the NIC's slot each way."""

    def over(self, weaker: "KnownHardware") -> "KnownHardware":
        """These facts, and where they are silent the other ones."""
        values = {}
        for name in KnownHardware.__slots__:
            own = getattr(self, name)
            values[name] = getattr(weaker, name) if own is None else own
        return KnownHardware(**values)


def nic_gbit_s(text: str) -> float:
    """`400G`, `400` or, for a bond, `2x200G`.

    Raises:
        LabError: for anything else.
    """
    match = re.fullmatch(r"(?:(\d)x)?(\d{1,4})(?:[gG](?:b(?:it)?(?:/s|ps)?)?)?", text.strip())
    if match is None or not 1 <= int(match[2]) <= 1600:
        raise LabError(
            f"--nic {text}: not a line rate; write 400G, or 2x200G for a bond of two ports"
        )
    return int(match[1] or 1) * float(match[2])


def of_lab(lab: "Lab") -> KnownHardware:
    """Rails, MTU and nodes as a lab file declares them; a line rate is the hardware's."""
    mtus = [rail.path_mtu_bytes for rail in lab.rails]
    return KnownHardware(
        nics_per_node=len(lab.rails) or None,
        path_mtu_bytes=min(mtus, default=None),
        nodes=len(lab.nodes) or None,
        gpus_per_node=_only({node.gpus for node in lab.nodes}),
    )


def of_inventory(inventory: "Inventory") -> KnownHardware:
    """The slowest rail, the narrowest slot, and the counts that all hosts share."""
    ports: list[Pf] = []
    counts, gpus, models = set(), set(), set()
    for host in inventory.hosts:
        rails = _rails(host.pfs.or_else(()))
        ports += rails
        counts.add(len(rails))
        gpus.add(len(host.gpus.or_else(())))
        for gpu in host.gpus.or_else(()):
            models.add(gpu.model.or_else(""))
    slots = []
    for pf in ports:
        link = pcie_link(
            f"{pf.pcie_speed_gt_s.or_else(0.0):.1f} GT/s", str(pf.pcie_width.or_else(0))
        )
        if link is not None:
            slots.append(link.payload_gbit_s())
    devices = [device for pf in ports for device in pf.rdma.or_else(())]
    mtus = [device.active_mtu_bytes.or_else(0) for device in devices]
    layers = {device.link_layer.or_else("") for device in devices}
    framing: Framing | None = None
    if layers == {"InfiniBand"}:
        framing = "infiniband"
    elif layers == {"Ethernet"}:
        framing = "roce_v2"
    pcie_gbit_s = None
    if len(slots) == len(ports):
        pcie_gbit_s = _least(slots)
    return KnownHardware(
        nic_gbit_s=_least(pf.speed_mbit_s.or_else(0) / 1e3 for pf in ports),
        nics_per_node=_only(counts),
        gpus_per_node=_only(gpus),
        gpu=_only(models),
        path_mtu_bytes=int(_least(mtus) or 0) or None,
        pcie_gbit_s=pcie_gbit_s,
        framing=framing,
    )


def _rails(pfs: Iterable["Pf"]) -> list["Pf"]:
    """The RDMA ports of the rate that carries most, without those for storage and management."""
    ports_by_rate: dict[int, list[Pf]] = defaultdict(list)
    for pf in pfs:
        if pf.rdma.or_else(()):
            ports_by_rate[pf.speed_mbit_s.or_else(0)].append(pf)
    if not ports_by_rate:
        return []
    rate = max(ports_by_rate, key=lambda rate: rate * len(ports_by_rate[rate]))
    return ports_by_rate[rate]


def _least(values: Iterable[float]) -> float | None:
    known = [value for value in values if value > 0]
    return min(known, default=None)


def _only(values: set[T]) -> T | None:
    """The one value, if all are alike and it says something."""
    if len(values) == 1:
        return values.pop() or None
    return None
