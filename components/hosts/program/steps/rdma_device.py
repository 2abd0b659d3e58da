"""The RDMA device of each PF: the NIC's own, or a soft-RoCE link instead."""

from typing import Any, Dict, Set

from ..host import Document, Host
from ..machine import StepError
from ..step import Before, Fields, Pf, PfStep


class RdmaDeviceStep(PfStep):
    """Adds and removes soft-RoCE links; a NIC's own device is only checked."""

    name = "rdma_device"
    order = 570
    at_boot = True
    keeps = ("rdma",)
    effects = {"rdma_device": "link"}

    def target_of(self, document: Document, pf: Pf) -> Fields:
        return {"rdma_device": pf["rdma_device"]}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        return {"rdma_device": " ".join(host.rdma_devices(pf["interface"])) or "none"}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        pfs = host.pfs_of(wrong)
        for pf in pfs:
            if not pf["soft_roce"]:
                present = self.observed_of(host, pf)["rdma_device"]
                raise StepError(
                    f"{pf['interface']} has RDMA device {present}, not {pf['rdma_device']}",
                    "if none, check that mlx5_ib is loaded; otherwise set this PF's rdma_device "
                    "to the actual name",
                )
        interfaces, devices = {pf["interface"] for pf in pfs}, {pf["rdma_device"] for pf in pfs}
        for name, parent in host.rdma_parents().items():
            if parent in interfaces or name in devices:
                delete_soft_link(host, name)
        for pf in pfs:
            link = ("type", "rxe", "netdev", pf["interface"])
            host.machine.must("rdma", "link", "add", pf["rdma_device"], *link)

    def before_pf(self, host: Host, pf: str) -> Before:
        return {"rdma_devices": host.rdma_devices(pf)}

    def facts(self, host: Host) -> Dict[str, Any]:
        # from the kernel, not from the lab file: the simulator's vmw_pvrdma is really soft-RoCE
        kinds = {pf["rdma_device"]: pf["driver"] for pf in host.pfs}
        soft = dict.fromkeys(kinds.keys() & host.rdma_parents().keys(), "soft-RoCE, simulated")
        return {"rdma": {**kinds, **soft}}

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        for name, parent in host.rdma_parents().items():
            if parent == pf and name not in before["rdma_devices"]:
                delete_soft_link(host, name)


def delete_soft_link(host: Host, name: str) -> None:
    """Removes a soft-RoCE device that is not in use."""
    host.refuse_opened([name])
    host.machine.must("rdma", "link", "delete", name)
