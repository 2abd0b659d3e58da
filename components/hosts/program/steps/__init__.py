"""What is done on a host, in its order; it is undone the other way round.

What takes minutes comes before the network, whose changes wait for the word of a new connection.
"""

from typing import Tuple

from ..host import Document
from ..step import Fields, Step
from .arp import Arp
from .bitfusion import BitfusionClient
from .clock import Clock
from .driver import Driver
from .driver_container import DriverContainer
from .firmware import Firmware
from .firmware_version import FirmwareVersion
from .governor import Governor
from .gpu import GpuDriver
from .gpudirect import GpuDirect
from .guest_network import GuestNetwork
from .hostname import Hostname
from .hosts_file import HostsFile
from .initramfs import Initramfs
from .kernel_arguments import KernelArguments
from .kubelet import Kubelet
from .kubernetes_kernel import KubernetesKernel
from .kubernetes_packages import KubernetesPackages
from .licence import Licence
from .link import Link
from .link_layer import LinkLayer
from .memlock import Memlock
from .modules import Modules
from .namespaces import RdmaNamespaces
from .packages import Packages
from .persistence import Persistence
from .preflight import Preflight
from .pvrdma import Pvrdma
from .qos import QualityOfService
from .rdma_device import RdmaDevice
from .routing import Routing
from .runtime import ContainerRuntime
from .swap import Swap
from .toolkit import ContainerToolkit
from .users import Users
from .vf_mtu import VfMtu
from .vfs import Vfs

STEPS: Tuple[Step, ...] = (
    Preflight(),
    FirmwareVersion(),
    Packages(),
    Clock(),
    KernelArguments(),
    Hostname(),
    HostsFile(),
    Governor(),
    Users(),
    Driver(),
    DriverContainer(),
    Firmware(),
    LinkLayer(),
    GpuDriver(),
    ContainerRuntime(),
    ContainerToolkit(),
    Memlock(),
    Modules(),
    RdmaNamespaces(),
    Arp(),
    Link(),
    Routing(),
    GuestNetwork(),
    Pvrdma(),
    Vfs(),
    VfMtu(),
    RdmaDevice(),
    QualityOfService(),
    GpuDirect(),
    Licence(),
    BitfusionClient(),
    Swap(),
    KubernetesKernel(),
    KubernetesPackages(),
    Kubelet(),
    Persistence(),
    Initramfs(),
)


def wanted_fields(document: Document) -> Fields:
    """What a conforming host answers to `probe`: pure, so that a preview can compare without a connection."""
    fields: Fields = {}
    for step in STEPS:
        fields.update(step.wanted(document))
    return fields
