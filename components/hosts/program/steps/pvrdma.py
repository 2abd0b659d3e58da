"""VMware's paravirtual RDMA in a guest: its driver must start last, or its port stays down.

The device is the second function of the vmxnet3's PCI device and takes its addresses from that
netdev, which must be up with an address when the driver starts (Bitfusion article: load
`vmw_pvrdma` last, and on Ubuntu again at every boot).
"""

from typing import Set

from ..host import Document, Host, interface_of
from ..machine import StepError
from ..step import Fields, Pf, PfStep

DRIVER = "vmxnet3"
MODULE = "vmw_pvrdma"
ACTIVE = "ACTIVE"
PORT_WAIT_S = 30


class PvrdmaStep(PfStep):
    """The port of each PVRDMA device is active."""

    name = "pvrdma"
    order = 540
    at_boot = True
    effects = {"pvrdma_port": "link"}

    def target_of(self, document: Document, pf: Pf) -> Fields:
        return {"pvrdma_port": ACTIVE} if pf["driver"] == DRIVER else {}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        """State of the port as the kernel words it, without its number."""
        devices = host.rdma_devices(pf["interface"])
        if not devices:
            return {"pvrdma_port": "no device"}
        state = host.machine.read(f"/sys/class/infiniband/{devices[0]}/ports/1/state")
        return {"pvrdma_port": state.rpartition(": ")[2] or "unknown"}

    def refuse(self, host: Host) -> None:
        if host.machine.exists(f"/sys/module/{MODULE}"):
            return
        if host.machine.run("modprobe", "--dry-run", "--quiet", MODULE).code:
            raise StepError(
                f"this kernel has no module {MODULE}",
                "Ubuntu's generic kernel has it in linux-modules-extra; Debian and RHEL 10 kernels "
                "have none: clone the machine from another template",
            )

    def apply(self, host: Host, wrong: Set[str]) -> None:
        pfs = map(interface_of, self.target(host.document))
        host.refuse_opened([device for pf in pfs for device in host.rdma_devices(pf)])
        host.machine.run("modprobe", "-r", MODULE)
        host.machine.must("modprobe", MODULE)
        host.forget()
        if not host.machine.wait(
            lambda: self.observed(host) == self.target(host.document), PORT_WAIT_S
        ):
            down = {field: state for field, state in self.observed(host).items() if state != ACTIVE}
            field = min(down)
            raise StepError(
                f"{interface_of(field)}: its PVRDMA port is {down[field]} {PORT_WAIT_S} s after "
                f"{MODULE} was loaded",
                "check that the adapter is of type PVRDMA and on a distributed switch, and that "
                "the ESXi host has Net.PVRDMAVmknic set",
            )
