"""The whole lab: its sections, one by one, and the rules that tie them together. `lab_file.py` is
how it is written.
"""

from ipaddress import IPv4Address
from typing import Literal, Self

from pydantic import Field, model_validator

from stacks.access import Access
from stacks.base import Name, Section
from stacks.benchmarks import Benchmarks
from stacks.bitfusion import Bitfusion, ByRail, named_addresses
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma
from stacks.drivers import Firmware, NicDriver
from stacks.fabric import Fabric
from stacks.gpus import Gpu
from stacks.guests import BitfusionClient, Guests
from stacks.hosts import HostPolicy
from stacks.images import Images
from stacks.licence import Licence
from stacks.nodes import Node, VsphereVm, routed_rails
from stacks.ports import Ports
from stacks.qos import Qos
from stacks.rails import Rail
from stacks.report import ReportStore
from stacks.rules import BrokenRulesError, Parts, broken_rules
from stacks.runtime import Runtime
from stacks.simulator import Simulator
from stacks.switches import Switches
from stacks.system import System


class Sections(Section):
    """The sections without groups."""

    name: Name
    """Name of the lab. It identifies the cluster in the state, so a new name is a new lab."""
    kind: Literal["virtual", "hardware"]
    """virtual: the simulator on loopback; every result is labeled simulated. hardware: real
    machines."""
    access: Access
    hosts: HostPolicy = HostPolicy()
    system: System = System()
    driver: NicDriver = NicDriver()
    firmware: Firmware = Firmware()
    gpu: Gpu | None = None
    """None: rocelab leaves GPUs alone."""
    guests: Guests | None = None
    """None: VM guests get no settings beyond those of every host."""
    licence: Licence | None = None
    """None: the lab's GPUs need no license, or you manage it elsewhere."""
    bitfusion_client: BitfusionClient | None = None
    """None: no node borrows GPUs."""
    runtime: Runtime | None = None
    """None: rocelab leaves the hosts' container runtime alone, including its limits."""
    qos: Qos | None = None
    """None: rocelab leaves quality of service on NICs and switches alone."""
    fabric: Fabric | None = None
    bitfusion: Bitfusion | None = None
    """None: rocelab creates no Bitfusion servers; for clients see `bitfusion_client`."""
    cluster: Cluster | None = None
    benchmarks: Benchmarks | None = None
    report: ReportStore = ReportStore()
    ports: Ports = Ports()
    images: Images | None = None
    """Recipes of the benchmark images, if you build them yourself."""
    simulator: Simulator | None = None
    """Only for labs of kind virtual. None: the nodes are as small as can be, and kwok plays their
    kubelets."""


class Lab(Sections):
    """One lab, as one stack's key `rocelab:lab` describes it: each rail, node and switch by
    itself.
    """

    rails: tuple[Rail, ...] = Field(min_length=1)
    nodes: tuple[Node, ...] = Field(min_length=1, max_length=10_000)
    switches: Switches = ()
    """The switches between the nodes. Empty: rocelab renders no switch configuration and checks
    none."""

    @model_validator(mode="after")
    def _sections_fit_together(self) -> Self:
        rails, nodes = dict(enumerate(self.rails)), dict(enumerate(self.nodes))
        if faults := broken_rules(Parts(rails, nodes, dict(self))):
            raise BrokenRulesError(faults)
        return self

    @property
    def simulated(self) -> bool:
        """Whether results describe behaviour only: speed on the simulator says nothing about
        hardware.
        """
        return self.kind == "virtual"

    @property
    def has_real_pods(self) -> bool:
        """Whether pods run: on hardware, and on simulated nodes with kubelets of their own."""
        return not self.simulated or self.simulator is not None

    @property
    def active_nodes(self) -> tuple[Node, ...]:
        """The nodes that rocelab configures and measures."""
        return tuple(node for node in self.nodes if node.state == "active")

    @property
    def vms(self) -> tuple[VsphereVm, ...]:
        """The VMs that the fabric creates or adopts; the VM of an absent node is deleted or
        restored.
        """
        return tuple(
            node for node in self.nodes if isinstance(node, VsphereVm) and node.state != "absent"
        )

    @property
    def bitfusion_addresses(self) -> tuple[ByRail, ...]:
        """Addresses of the Bitfusion servers that this lab creates or lists."""
        if self.bitfusion is not None:
            return self.bitfusion.addresses
        return (
            named_addresses(self.bitfusion_client.servers, self.rails)
            if self.bitfusion_client
            else ()
        )

    @property
    def routed_rails(self) -> frozenset[str]:
        """Rails whose PFs reach each other through routers."""
        return routed_rails(self.rails, self.nodes)

    def pods_use(self, rail: Rail) -> bool:
        """Whether pods reach a rail: by a network of their own, or with PVRDMA by that of their
        machine.
        """
        return rail.pod is not None or (
            self.cluster is not None and isinstance(self.cluster.delivery, Pvrdma)
        )

    def rail(self, name: str) -> Rail:
        return next(rail for rail in self.rails if rail.name == name)

    def endpoints(self) -> dict[str, tuple[IPv4Address, int]]:
        """Address and SSH port of each node by name."""
        return {node.name: (node.address, node.ssh_port) for node in self.nodes}
