"""All that is rendered for a lab, and the lab with every profile."""

from typing import Any

from components.cluster.manifests import Manifest, Program
from components.cluster.profiles import kinds, networks, policies, pools, programs, render_namespaces
from stacks.bill import Upstream
from stacks.cluster import Cluster
from stacks.lab import Lab
from tests.components.cluster.conftest import PROFILES, exclusive, profiled


def everything(lab: Lab) -> dict[str, list[Manifest]]:
    """All objects of a lab, upstream's definitions left out, by the golden file that shows them."""
    cluster = cluster_of(lab)
    own = {key: kind for key, kind in kinds(cluster).items() if not isinstance(kind, Upstream)}
    found = {
        **{name: objects_of(program) for name, program in programs(lab, cluster).items()},
        "namespaces": list(render_namespaces(lab, cluster).values()),
        "pool-definitions": list(own.values()),
        "policies": list(policies(lab, cluster).values()),
        "pools": list(pools(lab, cluster).values()),
        "networks": list(networks(lab, cluster).values()),
    }
    return {name: manifests for name, manifests in found.items() if manifests}


def objects_of(program: Program) -> list[Manifest]:
    return [*program.needs.values(), *program.runs.values()]


def cluster_of(lab: Lab) -> Cluster:
    assert lab.cluster is not None
    return lab.cluster


def objects(lab: Lab) -> list[Any]:
    return [manifest for group in everything(lab).values() for manifest in group]


def variants(lab: Lab) -> dict[str, Lab]:
    """The lab with every way into pods, so that each renderer has its part."""
    return {
        "sriov_plain": exclusive(lab),
        **{name: profiled(lab, delivery, **rest) for name, (delivery, rest) in PROFILES.items()},
    }
