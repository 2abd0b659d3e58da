"""Whether all network namespaces see each RDMA device, or only the one that owns it."""

from typing import Set

from ..host import Document, Host
from ..machine import StepError
from ..step import Before, Fields, Step

NETNS_MODE = "/sys/module/ib_core/parameters/netns_mode"
FIELD = "rdma_namespaces"


class RdmaNamespaces(Step):
    """Set live where the kernel allows it, else at the next boot by a module option."""

    name = "rdma_namespaces"
    order = 430
    at_boot = True
    effects = {FIELD: "reboot"}

    def target(self, document: Document) -> Fields:
        # a control plane without PFs has no RDMA, and perhaps not even the module that has the mode
        return {FIELD: document["rdma_namespaces"]} if document["pfs"] else {}

    def observed(self, host: Host) -> Fields:
        # the kernel's parameter follows `rdma system set`
        modes = {"Y": "shared", "N": "exclusive"}
        return {FIELD: modes.get(host.machine.read(NETNS_MODE), "ib_core not loaded")}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        mode = host.document["rdma_namespaces"]
        current = self.observed(host)[FIELD]
        done = host.machine.run("rdma", "system", "set", "netns", mode)
        if done.code and "busy" not in done.err.lower():
            raise StepError(
                f"rdma system set netns {mode} failed: {done.err.strip()}",
                "this needs iproute2 5.2 or newer",
            )
        if done.code:
            reason = f"{FIELD} {current} => {mode}: the kernel changes it only before the first pod"
            if not host.document.get("may_stage"):
                reason += "; nothing was set, since hosts.reboot is never"
            host.wait_for_reboot(FIELD, reason)

    def at_next_boot(self, host: Host) -> str:
        """The mode for the module's option; the present one if a change needs a reboot that is not
        allowed.
        """
        waits = FIELD in host.reboot_reasons() and not host.document.get("may_stage")
        mode = self.observed(host)[FIELD] if waits else host.document["rdma_namespaces"]
        return str(mode)

    def before(self, host: Host) -> Before:
        return {"rdma_namespaces": self.observed(host)[FIELD]}

    def undo(self, host: Host, before: Before) -> None:
        if before["rdma_namespaces"] not in ("ib_core not loaded", self.observed(host)[FIELD]):
            host.machine.run(
                "rdma", "system", "set", "netns", before["rdma_namespaces"]
            )  # else at the next boot
