"""What a machine is told before its first start, in the settings of its VM: the key by which it proves itself.

cloud-init's VMware datasource reads it in the guest. Knows no Pulumi.
"""

import base64
import json

import yaml

from stacks.host_keys import HostKey
from stacks.nodes import VsphereVm

USERDATA, METADATA = "guestinfo.userdata", "guestinfo.metadata"
TOLD = tuple(f"{name}{end}" for name in (USERDATA, METADATA) for end in ("", ".encoding"))
SECRET = (USERDATA,)
"""The settings that hold a private key."""


def guestinfo(node: VsphereVm, key: HostKey) -> dict[str, str]:
    """The VM settings that cloud-init reads."""
    told = {USERDATA: _userdata(key), METADATA: _metadata(node)}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in told.items()}
    return encoded | {f"{name}.encoding": "base64" for name in told}


def _userdata(key: HostKey) -> str:
    """Replaces the template's host keys with this one before sshd starts."""
    wanted = {
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": key.private, "ed25519_public": key.public},
        "preserve_hostname": True,  # the customisation of the clone has given it
    }
    return "#cloud-config\n" + yaml.safe_dump(wanted, sort_keys=False)


def _metadata(node: VsphereVm) -> str:
    # by address, as the key is: a node that is renamed stays the same instance, for which nothing is done anew
    instance = f"rocelab-{node.address}-{node.ssh_port}"
    # left out, cloud-init would ask DHCP for an address beside the static ones of the customisation
    return json.dumps({"instance-id": instance, "network": {"config": "disabled"}})
