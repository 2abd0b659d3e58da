"""How a provider of this layer gets into the vCenter: from the stack's configuration, never through a property."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from components.fabric.vcenter import Endpoint, VCenter, session
from stacks.base import LabError
from stacks.fabric import Fabric, read_password
from stacks.read import parse_lab

Setting = Callable[[str], object]
"""Value of a key of the stack's configuration; None when it has none."""


@contextmanager
def configured_session(setting: Setting) -> Iterator[VCenter]:
    """A session with the vCenter of the stack's lab.

    Raises:
        LabError: when the lab has none, or it cannot be entered.
    """
    text = setting("lab")
    fabric = parse_lab(text, "rocelab:lab").fabric if isinstance(text, str) else None
    if fabric is None:
        raise LabError("the stack's lab has no fabric")
    with session(endpoint_of(fabric, setting("vcenterPassword"), Path.cwd())) as vcenter:
        yield vcenter


def endpoint_of(fabric: Fabric, secret: object, root: Path) -> Endpoint:
    """Where to log in, with the password.

    Raises:
        LabError: when there is no password where the lab says that it is.
    """
    return Endpoint(
        address=fabric.vcenter,
        port=fabric.port,
        user=fabric.user,
        password=read_password(fabric, root) if fabric.password == "file" else _secret(secret),  # noqa: S105
        ca_file=root / fabric.ca_file if fabric.ca_file else None,
        thumbprint_sha256=fabric.thumbprint_sha256,
    )


def _secret(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise LabError(
            "the stack has no password of the vCenter; set it: pulumi config set --secret rocelab:vcenterPassword"
        )
    return value
