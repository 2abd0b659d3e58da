"""What of a stack must not be kept: the secrets in its configuration, and what opens hosts and cluster."""

from components.ssh.credentials import Access, Setting
from components.validation.memory.redact import needles
from stacks.host_keys import SEED_KEY
from stacks.secret_files import BITFUSION_KEY, LICENCE_KEY

SECRETS = ("sshPrivateKey", "kubeconfig", "vcenterPassword", SEED_KEY, LICENCE_KEY, BITFUSION_KEY)
"""Keys of the stack whose values must not be kept."""


def needles_of(setting: Setting, access: Access | None) -> tuple[str, ...]:
    """The texts to look for, as `redact` takes them; `access` is None where a key is missing."""
    configured = [value for name in SECRETS if isinstance(value := setting(name), str)]
    opened = [access.login.private_key, access.kubeconfig] if access else []
    return needles([*configured, *opened])
