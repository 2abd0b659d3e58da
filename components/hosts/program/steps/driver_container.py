"""Hosts whose NIC driver NVIDIA's network operator replaces by a container: what would stop it, and
names to keep.

The container ends when storage modules are loaded and it may not unload them, and rdma-core loads
rpcrdma on every host with an RDMA NIC (kernel-boot/modules/rdma.conf). The policy would wait an
hour for it and then fail.
"""

from typing import Sequence, Set

from .. import ofed
from ..host import Document, Host
from ..identity import pin_names, unpinned_names
from ..machine import Machine, StepError
from ..places import LINK_FILE
from ..step import Fields, Step

UNLOAD_STORAGE, UNLOAD_OTHERS = "UNLOAD_STORAGE_MODULES", "UNLOAD_THIRD_PARTY_RDMA_MODULES"
UNLOADS = (UNLOAD_STORAGE, UNLOAD_OTHERS)
STORAGE_MODULES = ("ib_isert", "nvme_rdma", "nvmet_rdma", "rpcrdma", "xprtrdma", "ib_srpt")
"""STORAGE_MODULES of doca-driver-build, entrypoint/internal/config/config.go."""
UNLOADED_ALWAYS = "nvidia_peermem"
PINNED = "pinned"


class DriverContainer(Step):
    """The driver itself is the operator's; a host that runs the container's driver already has
    passed all this.
    """

    name = "driver_container"
    order = 320
    effects = {"netdev_names": "none"}
    files = (LINK_FILE.format("*"),)

    def target(self, document: Document) -> Fields:
        return {"netdev_names": PINNED} if "driver_container" in document else {}

    def observed(self, host: Host) -> Fields:
        missing = unpinned_names(host)
        return {"netdev_names": f"not pinned: {', '.join(missing)}" if missing else PINNED}

    def refuse(self, host: Host) -> None:
        if not ofed.runs_inbox(host.machine):
            return
        unloads = host.document["driver_container"]["unloads"]
        _refuse_storage(host.machine, unloads)
        others = []
        for text in ofed.module_holders(host.machine):
            if f"module {UNLOADED_ALWAYS} " not in text:
                others.append(text)
        if others and UNLOAD_OTHERS not in unloads:
            raise StepError(
                f"the driver container cannot replace the driver: {'; '.join(others)}",
                f'set driver.container_env: {{{UNLOAD_OTHERS}: "true"}} if they are not needed, or '
                "unload the modules",
            )

    def apply(self, host: Host, wrong: Set[str]) -> None:
        pin_names(host)


def _refuse_storage(machine: Machine, unloads: Sequence[str]) -> None:
    storage = [name for name in STORAGE_MODULES if machine.exists(f"/sys/module/{name}")]
    used = []
    for name in storage:
        if machine.read(f"/sys/module/{name}/refcnt") not in ("", "0"):
            used.append(name)
    if used:
        raise StepError(
            "the driver container cannot replace the driver under storage in use: "
            f"{', '.join(used)}",
            "unmount or disconnect the storage; if it needs RDMA, keep this host's driver "
            "(source: keep)",
        )
    if storage and UNLOAD_STORAGE not in unloads:
        raise StepError(
            f"the driver container exits while storage modules are loaded: {', '.join(storage)}",
            f'set driver.container_env: {{{UNLOAD_STORAGE}: "true"}}, or keep the host from '
            "loading them (/etc/rdma/modules/rdma.conf) and unload them",
        )
