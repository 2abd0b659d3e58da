"""From the stack's configuration to the lab and the credentials; the only file of this folder that
knows Pulumi.
"""

import json
import os
from dataclasses import field
from pathlib import Path

import pulumi
import yaml

from stacks.access import check_private_key, read_host_keys, read_private_key
from stacks.base import LabError
from stacks.cluster import read_kubeconfig
from stacks.fabric import read_password
from stacks.frozen import frozen
from stacks.host_keys import HostKey, keys_beside, machine_keys
from stacks.lab import Lab
from stacks.read import KEY, NO_SECRET, parse_lab
from stacks.safe_yaml import load_yaml
from stacks.secret_files import secret_files
from stacks.switches import HOST_KEYS

SKIPS_CHECKPOINTS = "PULUMI_SKIP_CHECKPOINTS"


@frozen
class Credentials:
    """Credentials of hosts, cluster and vCenter, and the pinned host keys."""

    private_key: pulumi.Output[str] | None
    """None: a running ssh-agent has it."""
    host_keys: dict[str, str]
    """`ssh-ed25519 AAAA…` by node name."""
    kubeconfig: pulumi.Output[str] | None
    """None: the lab has no cluster, or creates one and reads its kubeconfig afterwards."""
    switch_keys: dict[str, str] = field(default_factory=dict)
    """The host key of each switch that rocelab configures, by name."""
    vcenter_password: pulumi.Output[str] | None = None
    """None: the lab has no fabric."""
    machine_keys: dict[str, HostKey] = field(default_factory=dict)
    """The host key pairs that VMs receive, by node name; `host_keys` has their public halves."""
    files: dict[str, pulumi.Output[str]] = field(default_factory=dict)
    """Secrets that nodes receive as files, by the secret's key; empty in most labs."""


def load_lab(config: pulumi.Config) -> Lab:
    """Reads the stack's `lab` key; every fault of the file is reported at once, by path."""
    name = f"Pulumi.{pulumi.get_stack()}.yaml"
    if pulumi.runtime.is_config_secret(config.full_key("lab")):
        raise pulumi.RunError(f"{name}: {NO_SECRET}")
    text = config.require("lab")
    try:
        lab = parse_lab(text, name, _file_of(text, Path(name)))
    except LabError as error:
        raise pulumi.RunError(str(error)) from None
    if lab.fabric is not None and os.environ.get(SKIPS_CHECKPOINTS, "").lower() in ("1", "true"):
        raise pulumi.RunError(
            f"{SKIPS_CHECKPOINTS} is set in this shell, but {name} describes VMs and switches. An "
            "interrupted run "
            "would lose track of what it created (docs/decisions/0007-state-once.md).\n "
            f' unset {SKIPS_CHECKPOINTS}, or: eval "$(make env STACK={pulumi.get_stack()})"'
        )
    return lab


def _file_of(lab: str, path: Path) -> str | None:
    """The stack file's text for line numbers, unless the lab is from `--config-file`."""
    try:
        text = path.read_text()
        same = load_yaml(text)["config"][KEY] == json.loads(lab)
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None
    return text if same else None


def load_credentials(lab: Lab, config: pulumi.Config) -> Credentials:
    """Reads keys and kubeconfig from the places that the lab file sets."""
    root = Path.cwd()
    try:
        key: pulumi.Output[str] | None = None
        if lab.access.identity == "file":
            key = pulumi.Output.secret(read_private_key(lab.access, root))
        elif lab.access.identity == "secret":
            key = config.require_secret("sshPrivateKey")
            check_private_key(
                config.require("sshPrivateKey"), "the stack's secret rocelab:sshPrivateKey"
            )
        # plain text in this process only: describing a connection needs the public half
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
    places = {
        switch.name: (switch.address, switch.ssh_port) for switch in lab.switches if switch.apply
    }
    return (
        read_host_keys(lab.access, places, root, section="switches", kinds=HOST_KEYS)
        if places
        else {}
    )


def _kubeconfig(lab: Lab, config: pulumi.Config, root: Path) -> pulumi.Output[str] | None:
    if lab.cluster is None or lab.cluster.bootstrap is not None:
        return None
    if lab.cluster.kubeconfig == "secret":
        return config.require_secret("kubeconfig")
    return pulumi.Output.secret(read_kubeconfig(lab.cluster, root))
