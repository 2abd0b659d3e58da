"""The SSH host key that a VM receives before its first start, in its settings.

cloud-init's VMware datasource reads it in the guest. Does not import Pulumi.
"""

import base64
import json

import yaml

from stacks.host_keys import HostKey
from stacks.nodes import VsphereVm

USERDATA, METADATA = "guestinfo.userdata", "guestinfo.metadata"
SETTINGS = tuple(f"{name}{end}" for name in (USERDATA, METADATA) for end in ("", ".encoding"))
SECRET = (USERDATA,)
"""The settings that hold a private key."""


def guestinfo(node: VsphereVm, key: HostKey) -> dict[str, str]:
    """The VM settings that cloud-init reads."""
    settings = {USERDATA: _userdata(key), METADATA: _metadata(node)}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in settings.items()}
    return encoded | {f"{name}.encoding": "base64" for name in settings}


def _userdata(key: HostKey) -> str:
    """Replaces the template's host keys with this one before sshd starts."""
    settings = {
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": key.private, "ed25519_public": key.public},
        "preserve_hostname": True,  # the clone's customization sets it
    }
    return "#cloud-config\n" + yaml.safe_dump(settings, sort_keys=False)


def _metadata(node: VsphereVm) -> str:
    # by address, like the key: a renamed node stays the same instance, so cloud-init does nothing
    # again
    instance = f"rocelab-{node.address}-{node.ssh_port}"
    # without this, cloud-init would request a DHCP address beside the customization's static ones
    return json.dumps({"instance-id": instance, "network": {"config": "disabled"}})
