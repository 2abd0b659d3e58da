"""The login of this layer's providers: from the stack's configuration, never through a property."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pulumi
from pulumi.dynamic import ResourceProvider

from components.fabric.vcenter import session as sessions
from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.session import endpoint_of, peer_of
from components.ssh.configured import Configured
from components.ssh.credentials import Setting, configured_lab
from stacks.base import LabError
from stacks.fabric import Fabric


class VCenterProvider(Configured, ResourceProvider):
    """A dynamic provider that works on the vCenter of the stack's lab."""

    def _vcenter(self) -> AbstractContextManager[VCenter]:
        return configured_session(self._setting)


@contextmanager
def configured_session(setting: Setting) -> Iterator[VCenter]:
    """A session with the vCenter of the stack's lab.

    Raises:
        LabError: when the lab has no vCenter, or the login fails.
    """
    fabric = configured_lab(setting).fabric
    if fabric is None:
        raise LabError("the stack's lab has no fabric")
    with session(endpoint_of(fabric, setting, Path.cwd()), pulumi.log.info) as vcenter:
        yield vcenter


def has_own_trust(fabric: Fabric) -> bool:
    """Whether the lab pins its vCenter itself, instead of trusting the system's authorities."""
    return fabric.ca_file is not None or fabric.thumbprint_sha256 is not None


def refuse_another_peer(fabric: Fabric) -> None:
    """Checks the certificate of a pinned vCenter before the vSphere provider exists.

    That provider knows the system's authorities only. Without this check it would have to skip verification, and send
    the password to whatever answers.

    Raises:
        pulumi.RunError: when another vCenter answers, or none does.
    """
    if not has_own_trust(fabric):
        return
    try:
        sessions.verify(peer_of(fabric, Path.cwd()))
    except LabError as error:
        raise pulumi.RunError(str(error)) from None
