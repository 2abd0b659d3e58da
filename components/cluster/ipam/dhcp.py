"""The DHCP daemon of the CNI plugins: the lab's own DHCP server gives the addresses."""

from components.cluster.ipam import AddressSource
from components.cluster.manifests import Manifest, Program, render_program
from stacks.rails import Rail


class DhcpDaemon(AddressSource):
    """The lab's own DHCP server gives the addresses."""

    name = "dhcp"

    def for_rail(self, rail: Rail) -> Manifest:
        del rail
        return {"type": "dhcp"}

    def program(self) -> Program:
        return render_program(
            "dhcp/daemonset",
            namespace=self.cluster.system_namespace,
            image=self.cluster.bill.dhcp_shell,
        )
