"""How a provider of this layer gets into the vCenter: from the stack's configuration, never through a property."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulumi

from components.fabric.vcenter import Endpoint, VCenter, session
from components.ssh.credentials import Setting, configured_lab, required_secret
from stacks.base import LabError
from stacks.fabric import Fabric, read_password


@contextmanager
def configured_session(setting: Setting) -> Iterator[VCenter]:
    """A session with the vCenter of the stack's lab.

    Raises:
        LabError: when the lab has none, or it cannot be entered.
    """
    fabric = configured_lab(setting).fabric
    if fabric is None:
        raise LabError("the stack's lab has no fabric")
    with session(_endpoint(fabric, setting, Path.cwd()), pulumi.log.info) as vcenter:
        yield vcenter


def _endpoint(fabric: Fabric, setting: Setting, root: Path) -> Endpoint:
    in_file = fabric.password == "file"  # noqa: S105  # where it is, not what
    return Endpoint(
        address=fabric.vcenter,
        port=fabric.port,
        user=fabric.user,
        password=read_password(fabric, root) if in_file else required_secret(setting, "vcenterPassword"),
        ca_file=root / fabric.ca_file if fabric.ca_file else None,
        thumbprint_sha256=fabric.thumbprint_sha256,
    )
