"""The lab as people write it in `Pulumi.NAME.yaml`: rails, nodes and switches one by one or as
groups.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from stacks.base import Name
from stacks.groups import NodeClass, NodeGroup, RailGroup, SwitchGroup
from stacks.lab import Sections
from stacks.nodes import BareMetal, VsphereVm, kind_of_node
from stacks.rails import Rail
from stacks.switches import Switch


def is_group(entry: object) -> bool:
    """Whether an entry is a group: it has `names` instead of `name`."""
    return "names" in entry if isinstance(entry, dict) else hasattr(entry, "names")


def _kind_of_rail(rail: object) -> str:
    return "rail_group" if is_group(rail) else "one_rail"


def _kind_of_node(node: object) -> str:
    return "node_group" if is_group(node) else kind_of_node(node)


def _kind_of_switch(switch: object) -> str:
    return "switch_group" if is_group(switch) else "one_switch"


AnyRail = Annotated[
    Annotated[Rail, Tag("one_rail")] | Annotated[RailGroup, Tag("rail_group")],
    Discriminator(_kind_of_rail),
]
AnyNode = Annotated[
    Annotated[BareMetal, Tag("bare_metal")]
    | Annotated[VsphereVm, Tag("vsphere_vm")]
    | Annotated[NodeGroup, Tag("node_group")],
    Discriminator(_kind_of_node),
]
AnySwitch = Annotated[
    Annotated[Switch, Field(discriminator="os"), Tag("one_switch")]
    | Annotated[SwitchGroup, Tag("switch_group")],
    Discriminator(_kind_of_switch),
]


class LabFile(Sections):
    """One lab file. An entry with `name` is one rail, node or switch; an entry with `names` is a
    group of them.
    """

    rails: tuple[AnyRail, ...] = Field(min_length=1)
    node_classes: Mapping[Name, NodeClass] = Field(default_factory=dict)
    """Server models by name, with the fields that all nodes of a class share."""
    nodes: tuple[AnyNode, ...] = Field(min_length=1)
    switches: tuple[AnySwitch, ...] = ()
    """The switches between the nodes. Empty: rocelab renders no switch configuration and checks
    none."""


def has_groups(given: object) -> bool:
    """Whether a file has groups that `expand` must spell out."""
    if not isinstance(given, dict):
        return False
    entries = (given.get(key) for key in ("rails", "nodes", "switches"))
    return "node_classes" in given or any(
        is_group(entry) for listed in entries if isinstance(listed, list) for entry in listed
    )
