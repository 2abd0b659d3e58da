"""Which nodes share their leaf switches, for schedulers, from declared and discovered cables. Pure.

A block is the set of nodes whose rails end on the same leaves. NICs that are on no rail, such as
those of storage, have no part in it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, JsonValue

from stacks.lab import Lab
from stacks.nodes import Node
from stacks.safe_yaml import to_yaml
from stacks.sets import folded, names_of
from stacks.switches import cables

BLOCK, FABRIC = "fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"
"""Labels of the leaves that a node is on, and of the whole lab, as topograph names tiers."""
HOSTNAME = "kubernetes.io/hostname"
KUEUE = "kueue.x-k8s.io/v1beta1"
LONGEST_LABEL, DIGEST_CHARACTERS = 63, 6
UNKNOWN = "unknown"

Heard = Mapping[str, Mapping[str, str]]
"""By node and interface, the switch that it hears."""


class Topology(BaseModel):
    """A stack output, and what schedulers' files are made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lab: str
    blocks: dict[str, tuple[str, ...]]
    """Sets of nodes, such as `gpu[01-32]`, by the name of their block: that of its leaves."""
    unknown: tuple[str, ...] = ()
    """Nodes of whose rails no cable is known."""


def topology_of(lab: Lab, heard: Heard) -> Topology:
    """The blocks of a lab. A port that hears another switch of the lab than declared was moved."""
    declared = {}
    for switch in lab.switches:
        for node_name, interface, _ in cables(switch):
            declared[node_name, interface] = switch.name
    leaves = {}
    for node in lab.nodes:
        if node.state != "absent":
            leaves[node.name] = _leaves_of(lab, node, declared, heard.get(node.name, {}))
    whole = {frozenset(on.values()) for on in leaves.values() if on and all(on.values())}
    blocks: dict[str, list[str]] = {}
    unknown = []
    for name, on in leaves.items():
        known = frozenset(filter(None, on.values()))
        if not known:
            unknown += [name] * bool(on)
            continue
        around = [block for block in whole if known <= block]
        if not all(on.values()) and len(around) == 1:
            known = around[0]  # a port that hears nothing does not make a block of its own
        blocks.setdefault(_block_name(known), []).append(name)
    return Topology(
        lab=lab.name,
        blocks={name: folded(nodes) for name, nodes in sorted(blocks.items())},
        unknown=folded(unknown),
    )


def _leaves_of(
    lab: Lab, node: Node, declared: Mapping[tuple[str, str], str], heard: Mapping[str, str]
) -> dict[str, str]:
    """The leaf of each rail; empty for one whose cable is unknown."""
    known = {switch.name for switch in lab.switches}
    leaves = {}
    for pf in node.pfs:
        leaf = declared.get((node.name, pf.interface), "")
        hears = heard.get(pf.interface, "")
        leaves[pf.rail] = hears if hears in known or not leaf else leaf
    return leaves


def heard_by(facts: Mapping[str, Mapping[str, object]]) -> Heard:
    """What the hosts of a Fleet hear by LLDP."""
    heard: dict[str, dict[str, str]] = {}
    for node, of_node in facts.items():
        leaves = of_node.get("leaves")
        if isinstance(leaves, Mapping):
            heard[node] = {interface: str(leaf[0]) for interface, leaf in leaves.items()}
    return heard


def outline_of(lab: Lab, facts: Mapping[str, Mapping[str, object]]) -> dict[str, JsonValue]:
    """The stack output, from the lab file and the facts of its hosts."""
    return topology_of(lab, heard_by(facts)).model_dump(mode="json")


def labels(topology: Topology) -> str:
    """Labels of the nodes as `kubectl apply --server-side -f -` takes them."""
    texts = []
    for block, sets in topology.blocks.items():
        for name in (name for text in sets for name in names_of(text)):
            own: JsonValue = {BLOCK: block, FABRIC: topology.lab}
            metadata: JsonValue = {"name": name, "labels": own}
            texts.append(to_yaml({"apiVersion": "v1", "kind": "Node", "metadata": metadata}))
    return "---\n".join(texts)


def kueue(topology: Topology) -> str:
    """Names the levels to Kueue; a ResourceFlavor refers to it by `topologyName`."""
    levels: list[JsonValue] = [{"nodeLabel": label} for label in (FABRIC, BLOCK, HOSTNAME)]
    metadata: JsonValue = {"name": topology.lab}
    kind: dict[str, JsonValue] = {"apiVersion": KUEUE, "kind": "Topology", "metadata": metadata}
    return to_yaml({**kind, "spec": {"levels": levels}})


def slurm(topology: Topology) -> str:
    """topology.conf for topology/tree; nodes of unknown cables are a switch of their own."""
    lines = ["# Written by rocelab topology: one switch for each set of leaves\n"]
    switches = [*_slurm_switches(topology)]
    lines += [f"SwitchName={name} Nodes={','.join(sets)}\n" for name, sets in switches]
    if len(switches) > 1:
        names = ",".join(name for name, _ in switches)
        lines.append(f"SwitchName={topology.lab} Switches={names}\n")
    return "".join(lines)


FORMATS = {"labels": labels, "kueue": kueue, "slurm": slurm}


def _slurm_switches(topology: Topology) -> Iterator[tuple[str, Sequence[str]]]:
    yield from topology.blocks.items()
    if topology.unknown:
        yield UNKNOWN, topology.unknown


def _block_name(leaves: frozenset[str]) -> str:
    """The leaves, or a digest where they are too many for a label."""
    name = ".".join(sorted(leaves))
    if len(name) <= LONGEST_LABEL:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{name[: LONGEST_LABEL - DIGEST_CHARACTERS - 1].rstrip('.-')}-{digest}"
