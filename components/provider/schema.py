"""The package schema: the component that other programs make, and the configuration."""

from inspect import getdoc
from typing import Any

from components.provider.resources import COMPONENTS, VERSION, component_class

Json = dict[str, Any]

ANY = {"$ref": "pulumi.json#/Any"}
LAB_TEXT = "The lab as JSON; its fields and limits are in stacks/lab.schema.json."
SECRETS = {
    "sshPrivateKey": "Private key of the hosts' user, with `access.identity: secret`.",
    "kubeconfig": "Administrator's kubeconfig, with `cluster.kubeconfig: secret`.",
    "vcenterPassword": "Password of `fabric.user`, with `fabric.password: secret`.",
    "hostKeySeed": "What the SSH host keys of created VMs are derived from.",
    "licenceToken": "Token of the vGPU license server.",
    "bitfusionToken": "Token of Bitfusion's clients.",
}


def package_schema() -> Json:
    """What `pulumi package get-schema` prints, without the resources inside of the component."""
    settings: Json = {"lab": {"type": "string", "description": LAB_TEXT}}
    for key, text in SECRETS.items():
        settings[key] = {"type": "string", "secret": True, "description": text}
    return {
        "name": "rocelab",
        "version": VERSION,
        "description": "RDMA labs: hosts, switches, vSphere, clusters and their measurement.",
        "config": {"variables": settings},
        "provider": {"inputProperties": settings, "properties": settings},
        "resources": {token: _component(token) for token in COMPONENTS},
    }


def _component(token: str) -> Json:
    kind = component_class(token)
    properties: Json = {}
    for name, text in kind.OUTPUTS.items():
        properties[name] = {"type": "object", "additionalProperties": ANY, "description": text}
    properties["kubeconfig"] = {
        "type": "string",
        "secret": True,
        "description": kind.OUTPUTS["kubeconfig"],
    }
    return {
        "description": getdoc(kind),
        "isComponent": True,
        "properties": properties,
        "required": sorted(properties.keys() - kind.OPTIONAL),
    }
