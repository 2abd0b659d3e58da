"""The licence of vGPU guest drivers: NVIDIA's licence system, or the licence server of older
releases.
"""

from ipaddress import IPv4Address
from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Port, Section

ServerName = Annotated[
    str, Field(pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?$", max_length=253)
]
"""Name or address of a server."""

Product = Literal["by_vgpu_type", "rtx_workstation", "compute"]
FEATURE_TYPES: dict[Product, int] = {"by_vgpu_type": 1, "rtx_workstation": 2, "compute": 4}
"""NVIDIA's FeatureType (vGPU Client Licensing User Guide): with a vGPU its type decides, which is
1."""

LEGACY_PORT = 7070
"""The vSphere RDG's port: the default of the GRID license server, which NVIDIA has discontinued."""
NLS_PORT = 443


class NlsLicence(Section):
    """NVIDIA's license system. Its client token is the stack secret `rocelab:licenceToken`, never
    part of this file.
    """

    kind: Literal["nls"]
    product: Product = "by_vgpu_type"
    server: ServerName = "api.cls.licensing.nvidia.com"
    """Servers that the token points to, so that their ports can be checked: your own (DLS), or
    NVIDIA's (CLS)."""


class LegacyLicence(Section):
    """The license server of vGPU releases before 13, as in the vSphere RDG."""

    kind: Literal["legacy"]
    product: Product = "by_vgpu_type"
    server: IPv4Address | ServerName
    port: Port = LEGACY_PORT
    backup_server: ServerName | None = None


Licence = Annotated[NlsLicence | LegacyLicence, Field(discriminator="kind")]
"""Where the guest drivers get their license, which nodes of kind vsphere_vm with GPUs need."""
