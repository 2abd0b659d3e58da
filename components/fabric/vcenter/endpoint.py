"""Where a lab's vCenter answers, and what opens it. Knows no Pulumi."""

from dataclasses import replace
from pathlib import Path

from components.fabric.vcenter.session import Endpoint
from components.ssh.credentials import Setting, required_secret
from stacks.fabric import Fabric, read_password


def endpoint_of(fabric: Fabric, setting: Setting, root: Path) -> Endpoint:
    """The vCenter of a lab.

    Raises:
        LabError: when its password is not where the lab says.
    """
    in_file = fabric.password == "file"  # noqa: S105  # where it is, not what
    password = read_password(fabric, root) if in_file else required_secret(setting, "vcenterPassword")
    return replace(peer_of(fabric, root), user=fabric.user, password=password)


def peer_of(fabric: Fabric, root: Path) -> Endpoint:
    """The vCenter of a lab by what it is known by, without what opens it."""
    return Endpoint(
        address=fabric.vcenter,
        port=fabric.port,
        ca_file=root / fabric.ca_file if fabric.ca_file else None,
        thumbprint_sha256=fabric.thumbprint_sha256,
    )
