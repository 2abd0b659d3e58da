"""InfiniBand ports: refused as rails, or switched to Ethernet where the lab asks for that by PF."""

from typing import Dict, List, Set

from ..firmware_settings import Setting
from ..host import Document, Host
from ..machine import StepError
from ..step import Fields, Pf, PfStep, section_of
from .firmware import set_for_next_boot

ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
"""Values of ports/1/link_layer (drivers/infiniband/core/sysfs.c)."""
ARPHRD_INFINIBAND = "32"
"""Kind of an IPoIB netdev (include/uapi/linux/if_arp.h), which is there without an RDMA driver
too."""
LINK_TYPE_ETHERNET = 2
"""Value of LINK_TYPE_P1 for ETH; IB is 1 (`mstconfig -d DEVICE query`)."""


class LinkLayer(PfStep):
    """A PF with `convert_infiniband` gets its setting; Ethernet waits for the reboot."""

    name = "link_layer"
    order = 340
    effects = {"link_layer": "reboot"}

    def concerns(self, document: Document) -> bool:
        return True

    def target_of(self, document: Document, pf: Pf) -> Fields:
        return {"link_layer": ETHERNET} if _is_converted(document, pf) else {}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        return {"link_layer": link_layer(host, pf["interface"])}

    def refuse(self, host: Host) -> None:
        for pf in host.pfs:
            name = pf["interface"]
            if not _is_converted(host.document, pf) and link_layer(host, name) == INFINIBAND:
                raise StepError(
                    f"{name} is an InfiniBand port, but RoCE needs Ethernet",
                    "name an Ethernet port; or, if this InfiniBand fabric is unused, set "
                    "convert_infiniband: true for this PF and firmware.manage: true",
                )

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for field in sorted(wrong):
            set_for_next_boot(host, field, f"{INFINIBAND} => {ETHERNET}", _changes)


def link_layer(host: Host, pf: str) -> str:
    """Ethernet or InfiniBand, by the netdev's kind and by the RDMA device where there is one."""
    machine, own = host.machine, f"/sys/class/net/{pf}/device/infiniband"
    layers = [machine.read(f"{own}/{device}/ports/1/link_layer") for device in machine.names(own)]
    infiniband = (
        machine.read(f"/sys/class/net/{pf}/type") == ARPHRD_INFINIBAND or INFINIBAND in layers
    )
    return INFINIBAND if infiniband else ETHERNET


def _is_converted(document: Document, pf: Pf) -> bool:
    return pf["interface"] in section_of(document, "firmware").get("convert", ())


def _changes(host: Host, pf: str, settings: Dict[str, Setting]) -> List[str]:
    # function 0 is port 1
    name = f"LINK_TYPE_P{int(host.pci_address(pf).rpartition('.')[2] or 0) + 1}"
    if name not in settings:
        raise StepError(
            f"{pf} ({host.pci_address(pf)}) has no {name}, so it has no Ethernet mode",
            "an InfiniBand-only card cannot run RoCE: name another NIC",
        )
    return [] if settings[name].next == LINK_TYPE_ETHERNET else [f"{name}={LINK_TYPE_ETHERNET}"]
