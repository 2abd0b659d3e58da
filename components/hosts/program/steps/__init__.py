"""What is done on a host, in its order; it is undone the other way round."""

from typing import Tuple

from ..host import Document
from ..step import Fields, Step
from .arp import Arp
from .link import Link
from .modules import Modules
from .namespaces import RdmaNamespaces
from .persistence import Persistence
from .qos import QualityOfService
from .rdma_device import RdmaDevice
from .routing import Routing
from .vf_mtu import VfMtu
from .vfs import Vfs

STEPS: Tuple[Step, ...] = (
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
