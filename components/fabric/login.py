"""How a provider of this layer gets into the vCenter: from the stack's configuration, never through a property."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulumi

from components.fabric.endpoint import endpoint_of
from components.fabric.vcenter import VCenter, session
from components.ssh.credentials import Setting, configured_lab
from stacks.base import LabError


@contextmanager
def configured_session(setting: Setting) -> Iterator[VCenter]:
    """A session with the vCenter of the stack's lab.

    Raises:
        LabError: when the lab has none, or it cannot be entered.
    """
    fabric = configured_lab(setting).fabric
    if fabric is None:
        raise LabError("the stack's lab has no fabric")
    with session(endpoint_of(fabric, setting, Path.cwd()), pulumi.log.info) as vcenter:
        yield vcenter
