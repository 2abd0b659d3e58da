"""The session of this layer's resources: the login is the provider's configuration, never a
property.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.session import endpoint_of
from components.provider import log
from components.provider.base import ProviderConfig
from stacks.base import LabError


@contextmanager
def configured_session(config: ProviderConfig) -> Iterator[VCenter]:
    """A session with the vCenter of the stack's lab.

    Raises:
        LabError: when the lab has no vCenter, or the login fails.
    """
    fabric = config.lab.fabric
    if fabric is None:
        raise LabError("the stack's lab has no fabric")
    with session(endpoint_of(fabric, config.get, Path.cwd()), log.info) as vcenter:
        yield vcenter
