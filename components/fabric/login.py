"""How a provider of this layer gets into the vCenter: from the stack's configuration, never through a property.

And how the program looks, before anything is sent there, that it is the right one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulumi

from components.fabric.vcenter import session as sessions
from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.session import endpoint_of, peer_of
from components.ssh.credentials import Setting, configured_lab
from stacks.base import LabError
from stacks.fabric import Fabric


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


def has_own_trust(fabric: Fabric) -> bool:
    """Whether the lab says itself what the vCenter is known by, in place of the system's authorities."""
    return fabric.ca_file is not None or fabric.thumbprint_sha256 is not None


def refuse_another_peer(fabric: Fabric) -> None:
    """Looks at the certificate before there is a vSphere provider, which knows the system's authorities alone.

    Told to do without them, it would send the password to whatever answers, and before any session of ours.

    Raises:
        pulumi.RunError: when it is another vCenter, or none answers.
    """
    if not has_own_trust(fabric):
        return
    try:
        sessions.verify(peer_of(fabric, Path.cwd()))
    except LabError as error:
        raise pulumi.RunError(str(error)) from None
