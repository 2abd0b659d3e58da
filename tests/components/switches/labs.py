"""The reference lab with a switch of each system between its nodes."""

from typing import Any

from stacks.lab import Lab
from tests.components.switches.systems import PORTS
from tests.labs import lab_of, section_of

REFERENCE = section_of("Pulumi.lab.yaml")


def switch_entry(os: str = "onyx", **changes: Any) -> dict[str, Any]:
    """A switch as a lab file has it."""
    first, second, third, fourth = PORTS[os]
    entry = {
        "name": "sw1",
        "os": os,
        "address": "127.0.12.250",
        "native_vlans": {"rail-a": 4094, "rail-b": 4093},
        "ports": {
            "gpu01": {"enp5s0": first, "enp132s0": second},
            "gpu02": {"enp5s0": third, "enp132s0": fourth},
        },
    }
    return {**entry, **changes}


def with_switches(*switches: dict[str, Any], qos: dict[str, Any] | None = None, name: str = REFERENCE["name"]) -> Lab:
    """The reference lab with these switches and no others."""
    lab = {**REFERENCE, "name": name, "switches": switches}
    lab.pop("qos", None)
    if qos is not None:
        lab["qos"] = qos
    return lab_of(lab)
