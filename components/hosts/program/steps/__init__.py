"""What is done on a host, in its order; it is undone the other way round."""

from typing import Tuple

from ..host import Document
from ..step import Fields, Step
from .arp import Arp
from .clock import Clock
from .governor import Governor
from .hostname import Hostname
from .hosts_file import HostsFile
from .kernel_arguments import KernelArguments
from .link import Link
from .modules import Modules
from .namespaces import RdmaNamespaces
from .packages import Packages
from .persistence import Persistence
from .preflight import Preflight
from .qos import QualityOfService
from .rdma_device import RdmaDevice
from .routing import Routing
from .users import Users
from .vf_mtu import VfMtu
from .vfs import Vfs

STEPS: Tuple[Step, ...] = (
    Preflight(),
    Packages(),
    Clock(),
    KernelArguments(),
    Hostname(),
    HostsFile(),
    Governor(),
    Users(),
    Modules(),
    RdmaNamespaces(),
    Arp(),
    Link(),
    Routing(),
    Vfs(),
    VfMtu(),
    RdmaDevice(),
    QualityOfService(),
    Persistence(),
)


def wanted_fields(document: Document) -> Fields:
    """What a conforming host answers to `probe`: pure, so that a preview can compare without a connection."""
    fields: Fields = {}
    for step in STEPS:
        fields.update(step.wanted(document))
    return fields
