"""What the document requires of a host before anything changes, and facts about the host."""

from typing import Any, Dict, List

from ..distribution import distribution
from ..host import Document, Host
from ..look.leaves import UnknownError
from ..look.pci import LEGACY, eswitch_mode
from ..machine import MISSING, Machine, StepError
from ..modules_built import (
    SIGNED_GPU,
    built_by_dkms,
    missing_headers,
    refuse_unsigned_modules,
    secure_boot,
)
from ..step import Step, section_of
from .vfs import offered_vfs

BUILT_DRIVERS = ("doca_ofed", "mlnx_ofed")
"""Driver sources whose modules are built on the host, and so are not signed by the distribution."""
NOT_ITS_MANAGER = "Operation not permitted"
"""What devlink prints for root on a PF that is not its eswitch's manager (EPERM)."""


class Preflight(Step):
    """Changes nothing, and refuses only what this document cannot do without."""

    name = "preflight"
    order = 110
    keeps = ("nics", "os", "iommu", "secure_boot", "kernel_headers", "pcie")

    def concerns(self, document: Document) -> bool:
        return True

    def refuse(self, host: Host) -> None:
        self._refuse_other_nics(host)
        self._refuse_too_few_vfs(host)
        for pf in host.pfs:
            if pf["vfs"] and not pf.get("vf_owner"):
                _refuse_switchdev(host, pf["interface"])
        if section_of(host.document, "driver").get("source") in BUILT_DRIVERS:
            refuse_unsigned_modules(host.machine, "driver.source: inbox")
        gpu = section_of(host.document, "gpu", "driver")
        # dependencies that dkms builds are known only when the packages are installed
        if gpu.get("package") or built_by_dkms(gpu.get("packages", ())):
            refuse_unsigned_modules(host.machine, SIGNED_GPU)

    def facts(self, host: Host) -> Dict[str, Any]:
        machine = host.machine
        names = [pf["interface"] for pf in host.pfs]
        links = {name: _pcie(machine, name) for name in names}
        warnings = []
        for name, link in links.items():
            if link and link["now"] != link["most"]:
                warnings.append(
                    f"{name} runs at {link['now']} but supports {link['most']}: check slot, "
                    "seating and BIOS"
                )
        if _lacks_perftest(host):
            warnings.append(
                "perftest is not installed, so no verbs benchmark runs here: "
                "list it in system.packages, or install it in the template"
            )
        return {
            "os": distribution(machine).name,
            "iommu": _iommu(machine, names),
            "secure_boot": secure_boot(machine),
            "kernel_headers": not missing_headers(machine),
            "pcie": {name: link["now"] for name, link in links.items() if link},
            "nics": {pf["interface"]: _nic(host, pf) for pf in host.pfs},
            **({"warnings": warnings} if warnings else {}),
        }

    def _refuse_other_nics(self, host: Host) -> None:
        for pf in host.pfs:
            place = host.pci_address(pf["interface"])
            if pf.get("pci") not in (None, place):
                raise StepError(
                    f"{pf['interface']} is the NIC at {place or 'no PCI address'}, but the lab "
                    f"file sets {pf['pci']}",
                    f"set interface to its current name (ls /sys/bus/pci/devices/{pf['pci']}/net), "
                    "or pci to its new slot",
                )

    def _refuse_too_few_vfs(self, host: Host) -> None:
        if host.document.get("firmware"):
            return  # a step of this run raises it; the VF step checks again
        for pf in host.pfs:
            name, offered = pf["interface"], offered_vfs(host, pf["interface"])
            if pf["vfs"] > offered and host.pci_address(name):
                hint = "raise NUM_OF_VFS in the NIC's firmware (mlxconfig, then a cold boot)"
                if not offered:
                    hint = "turn it on in the BIOS and in the NIC's firmware (mlxconfig SRIOV_EN=1)"
                raise StepError(
                    f"{name} supports {offered} VFs, but the lab file sets {pf['vfs']}",
                    f"{hint}, or lower vfs",
                )


def _refuse_switchdev(host: Host, pf: str) -> None:
    """Refuses a PF whose VFs refuse what a pod's attachment sets: VLAN, trust and spoof check.

    mlx5 answers EOPNOTSUPP outside legacy mode, and EPERM on a PF that does not control its eswitch
    (Linux drivers/net/ethernet/mellanox/mlx5/core, esw/legacy.c and eswitch_offloads.c).
    """
    address = host.pci_address(pf)
    try:
        mode = eswitch_mode(host.machine, address)
    except UnknownError as error:
        if NOT_ITS_MANAGER in str(error):
            raise StepError(
                f"the eswitch of {pf} ({address}) is controlled from elsewhere, as by a BlueField "
                "in DPU mode: this host cannot set VLAN, trust and spoof check of its VFs",
                f"switch the card to NIC mode (BlueField-3: mlxconfig -d {address} set "
                "INTERNAL_CPU_OFFLOAD_ENGINE=1, then a power cycle), or set vfs: 0 for this PF",
            ) from None
        return  # no devlink, or an older kernel, which knows no mode of a NIC without VFs
    if mode not in ("", LEGACY):
        raise StepError(
            f"{pf} is in eswitch mode {mode}: its VFs refuse the VLAN, trust and spoof check of "
            "pods",
            f"drain the node, set {pf}'s sriov_numvfs to 0, then devlink dev eswitch set "
            f"pci/{address} mode {LEGACY}, and stop what sets {mode} at boot (OVN, OVS offload, "
            "netplan's embedded-switch-mode); or set vfs: 0 for this PF",
        )


def _lacks_perftest(host: Host) -> bool:
    """Checked only on PVRDMA machines: elsewhere the NIC vendor's driver includes perftest."""
    paravirtual = any(pf["driver"] == "vmxnet3" for pf in host.pfs)
    return (
        paravirtual
        and not host.booting
        and host.machine.run("ib_write_bw", "--version").code == MISSING
    )


def _iommu(machine: Machine, pfs: List[str]) -> str:
    """off, or how the NICs go through it: identity is pass-through, DMA and DMA-FQ translate."""
    if not machine.names("/sys/class/iommu"):
        return "off"
    kinds = {machine.read(f"/sys/class/net/{pf}/device/iommu_group/type") for pf in pfs} - {""}
    if kinds == {"identity"}:
        return "on, passes through"
    return f"on, {' '.join(sorted(kinds)) or 'mode unknown'}"


def _nic(host: Host, pf: Dict[str, Any]) -> Dict[str, str]:
    """What a NIC is and what drives it, as far as the kernel knows. A change makes a
    measurement obsolete.
    """
    rdma = f"/sys/class/infiniband/{pf['rdma_device']}"
    kind, board, firmware = (
        host.machine.read(f"{rdma}/{name}") for name in ("hca_type", "board_id", "fw_ver")
    )
    driver = host.driver(pf["interface"])
    facts = {"model": f"{kind} {board}".strip(), "driver": driver, "firmware": firmware}
    return {key: value for key, value in facts.items() if value}


def _pcie(machine: Machine, pf: str) -> Dict[str, str]:
    """A NIC's PCIe link as it runs and as it could run; empty where the kernel does not know
    (emulated NICs).
    """
    link = {}
    for key, prefix in (("now", "current"), ("most", "max")):
        speed = machine.read(f"/sys/class/net/{pf}/device/{prefix}_link_speed").replace(" PCIe", "")
        width = machine.read(f"/sys/class/net/{pf}/device/{prefix}_link_width")
        if not speed or "nknown" in speed or width in ("", "0", "255"):
            return {}
        link[key] = f"{speed} x{width}"
    return link
