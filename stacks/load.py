"""From the stack's configuration to the lab and the credentials; the only file of this folder that knows Pulumi."""

import json
from dataclasses import dataclass
from pathlib import Path

import pulumi
import yaml

from stacks.access import read_host_keys, read_private_key
from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import KEY, parse_lab


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """What opens the hosts and the cluster, and the keys that must answer."""

    private_key: pulumi.Output[str] | None
    """None: a running ssh-agent has it."""
    host_keys: dict[str, str]
    """`ssh-ed25519 AAAA…` by node name."""
    kubeconfig: pulumi.Output[str] | None
    """None: the lab has no cluster."""


def load_lab(config: pulumi.Config) -> Lab:
    """Reads the stack's `lab` key; every fault of the file is reported at once, by path."""
    name = f"Pulumi.{pulumi.get_stack()}.yaml"
    if pulumi.runtime.is_config_secret(config.full_key("lab")):
        raise pulumi.RunError(
            f"{name}: rocelab:lab must not be a secret: reviews would not see it. Secrets have own keys"
        )
    text = config.require("lab")
    try:
        lab = parse_lab(text, name, _file_of(text, Path(name)))
    except LabError as error:
        raise pulumi.RunError(str(error)) from None
    if lab.fabric is not None:
        # the simulator has a vCenter already; a section that does nothing must not look as if it did
        raise pulumi.RunError(f"{name}: fabric: this version places nothing in vSphere; take the section out")
    return lab


def _file_of(lab: str, path: Path) -> str | None:
    """The stack file's text for line numbers, unless the lab came from another file (`--config-file`)."""
    try:
        text = path.read_text()
        same = yaml.safe_load(text)["config"][KEY] == json.loads(lab)
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None
    return text if same else None


def load_credentials(lab: Lab, config: pulumi.Config) -> Credentials:
    """Reads keys and kubeconfig from where the lab says they are."""
    root = Path.cwd()
    try:
        key: pulumi.Output[str] | None = None
        if lab.access.identity == "file":
            key = pulumi.Output.secret(read_private_key(lab.access, root))
        elif lab.access.identity == "secret":
            key = config.require_secret("sshPrivateKey")
        host_keys = read_host_keys(lab.access, lab.endpoints(), root)
        return Credentials(private_key=key, host_keys=host_keys, kubeconfig=_kubeconfig(lab, config, root))
    except LabError as error:
        raise pulumi.RunError(str(error)) from None


def _kubeconfig(lab: Lab, config: pulumi.Config, root: Path) -> pulumi.Output[str] | None:
    if lab.cluster is None:
        return None
    if lab.cluster.kubeconfig == "secret":
        return config.require_secret("kubeconfig")
    path = root / (lab.cluster.kubeconfig_file or "")
    try:
        return pulumi.Output.secret(path.read_text())
    except OSError as error:
        raise LabError(
            f"cluster.kubeconfig_file: {lab.cluster.kubeconfig_file} cannot be read ({error.strerror}). "
            "The simulator's is written by: sim up"
        ) from None
