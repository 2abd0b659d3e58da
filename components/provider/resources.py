"""The resources of the provider. A file is imported when Pulumi first needs its resource."""

from importlib import import_module
from typing import Any

from components.provider.base import Resource

VERSION = "0.1.0"

RESOURCES = {
    "rocelab:cluster:Claim": "components.cluster.claim:Claim",
    "rocelab:cluster:Kubeconfig": "components.cluster.bootstrap.kubeconfig:Kubeconfig",
    "rocelab:cluster:NodeGate": "components.cluster.node_gate:NodeGate",
    "rocelab:fabric:Adopted": "components.fabric.adopt:Adopted",
    "rocelab:fabric:Baseline": "components.fabric.baseline:Baseline",
    "rocelab:fabric:HostSettings": "components.fabric.settings:HostSettings",
    "rocelab:fabric:Inspection": "components.fabric.inspection:Inspection",
    "rocelab:fabric:MachineHardware": "components.fabric.machine_hardware:MachineHardware",
    "rocelab:fabric:Placement": "components.fabric.placement:Placement",
    "rocelab:fabric:ReferencedMachines": "components.fabric.referenced_machines:ReferencedMachines",
    "rocelab:fabric:Uplink": "components.fabric.uplink:Uplink",
    "rocelab:hosts:Delivery": "components.hosts.delivery:Delivery",
    "rocelab:hosts:Fleet": "components.hosts.fleet:Fleet",
    "rocelab:switches:SwitchConfig": "components.switches.switch_config:SwitchConfig",
    "rocelab:validation:Gate": "components.validation.gate:Gate",
    "rocelab:validation:Measurement": "components.validation.measurement:Measurement",
}
"""Where the class of each type is."""

COMPONENTS = {"rocelab:index:Lab": "components.lab:LabComponent"}
"""The same of components, which programs of other projects make."""


def component_class(token: str) -> Any:
    """The class of a component, such as `rocelab:index:Lab`.

    Raises:
        KeyError: when the provider has no such component.
    """
    return _class(COMPONENTS[token])


def resource_class(token: str) -> type[Resource[Any, Any]]:
    """The class of a type, such as `rocelab:validation:Gate`.

    Raises:
        KeyError: when the provider has no such type.
    """
    kind: type[Resource[Any, Any]] = _class(RESOURCES[token])
    return kind


def _class(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def token_of(kind: type[Resource[Any, Any]]) -> str:
    """The type of a class."""
    place = f"{kind.__module__}:{kind.__qualname__}"
    return {value: token for token, value in RESOURCES.items()}[place]
