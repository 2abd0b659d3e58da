"""From the stack's configuration to the lab and the credentials; the only file of this folder that knows Pulumi."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pulumi
import yaml

from stacks.access import read_host_keys, read_private_key
from stacks.base import LabError
from stacks.cluster import read_kubeconfig
from stacks.fabric import read_password
from stacks.host_keys import HostKey, keys_beside, machine_keys
from stacks.lab import Lab
from stacks.read import KEY, parse_lab
from stacks.safe_yaml import load_yaml
from stacks.secret_files import secret_files
from stacks.switches import HOST_KEYS

SKIPS_CHECKPOINTS = "PULUMI_SKIP_CHECKPOINTS"


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """What opens hosts, cluster and vCenter, and the keys that must answer."""

    private_key: pulumi.Output[str] | None
    """None: a running ssh-agent has it."""
    host_keys: dict[str, str]
    """`ssh-ed25519 AAAA…` by node name."""
    kubeconfig: pulumi.Output[str] | None
    """None: the lab has no cluster, or makes one, which is asked for it once it is there."""
    switch_keys: dict[str, str] = field(default_factory=dict)
    """The host key of each switch that the lab applies to, by its name."""
    vcenter_password: pulumi.Output[str] | None = None
    """None: the lab has no fabric."""
    machine_keys: dict[str, HostKey] = field(default_factory=dict)
    """The host key pairs that machines are given, by node name; `host_keys` has their public halves."""
    files: dict[str, pulumi.Output[str]] = field(default_factory=dict)
    """What nodes get as files, by the secret's key; empty in most labs."""


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
    if lab.fabric is not None and os.environ.get(SKIPS_CHECKPOINTS, "").lower() in ("1", "true"):
        raise pulumi.RunError(
            f"{SKIPS_CHECKPOINTS} is set in this shell, and {name} describes virtual machines and switches. A run "
            "that is killed would forget what it made (docs/decisions/0007-state-once.md).\n"
            f'  unset {SKIPS_CHECKPOINTS}, or: eval "$(make env STACK={pulumi.get_stack()})"'
        )
    return lab


def _file_of(lab: str, path: Path) -> str | None:
    """The stack file's text for line numbers, unless the lab came from another file (`--config-file`)."""
    try:
        text = path.read_text()
        same = load_yaml(text)["config"][KEY] == json.loads(lab)
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
        # in clear in this process alone: a public half must be known to describe a connection
        made = machine_keys(lab, lab.endpoints(), root, config.get)
        host_keys = keys_beside(made, lab, lab.endpoints(), root)
        return Credentials(
            private_key=key,
            host_keys=host_keys,
            kubeconfig=_kubeconfig(lab, config, root),
            vcenter_password=_vcenter_password(lab, config, root),
            switch_keys=_switch_keys(lab, root),
            machine_keys=made,
            files={file.key: config.require_secret(file.key) for file in secret_files(lab)},
        )
    except LabError as error:
        raise pulumi.RunError(str(error)) from None


def _vcenter_password(lab: Lab, config: pulumi.Config, root: Path) -> pulumi.Output[str] | None:
    if lab.fabric is None:
        return None
    if lab.fabric.password == "secret":  # noqa: S105  # where it is, not what
        return config.require_secret("vcenterPassword")
    return pulumi.Output.secret(read_password(lab.fabric, root))


def _switch_keys(lab: Lab, root: Path) -> dict[str, str]:
    places = {switch.name: (switch.address, switch.ssh_port) for switch in lab.switches if switch.apply}
    return read_host_keys(lab.access, places, root, section="switches", kinds=HOST_KEYS) if places else {}


def _kubeconfig(lab: Lab, config: pulumi.Config, root: Path) -> pulumi.Output[str] | None:
    if lab.cluster is None or lab.cluster.bootstrap is not None:
        return None
    if lab.cluster.kubeconfig == "secret":
        return config.require_secret("kubeconfig")
    return pulumi.Output.secret(read_kubeconfig(lab.cluster, root))
