"""The gate before jobs: whether nodes, pools and networks match the lab. Faults are data."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from components.cluster.node_checks import (
    GateSpec,
    network_faults,
    node_faults,
    pool_faults,
    state_faults,
    vf_changes,
)
from components.kubernetes.client import KubernetesApi, at
from components.provider import log
from components.provider.base import Properties, Resource, changed
from components.ssh.credentials import admin_kubeconfig
from stacks.base import LabError
from stacks.words import plural

POLL_S = 2.0
ANNOUNCE_S = 30.0
"""How often a wait logs what it waits for."""
PLAYED_S = 5.0
"""Longest wait if kwok plays the kubelets, where no plugin ever registers."""
PLAYED = "kwok.x-k8s.io/node"
"""Annotation of the nodes that kwok plays (kubernetes-sigs/kwok, kustomize/kwok/kwok.yaml)."""
LARGEST_REPORT = 40
"""Faults that are kept; of more, only the number."""

Faults = dict[str, list[str]]
"""Reasons by node, pool or network that has a fault."""


class NodeGateInputs(Properties):
    expected: GateSpec
    """What nodes, pools and networks must be like."""
    cluster: str
    """Which cluster: `identity_of` its kubeconfig."""
    kubeconfig: str
    """Where the kubeconfig is: `secret`, `control_plane`, or a file."""
    after: str
    """Changes when devices change; the gate then runs again."""
    wait_s: int
    """How long devices may take to appear after their plugin starts."""


class NodeGateState(NodeGateInputs):
    report: Faults
    """Reasons by node, pool or network at fault; empty: jobs can run."""


class NodeGate(Resource[NodeGateInputs, NodeGateState]):
    """The nodes when jobs may begin. It waits for the cluster, and no fault makes it fail."""

    async def diff(self, old: NodeGateState, new: NodeGateInputs) -> list[str]:
        """Runs again when its inputs change, and as long as there are faults."""
        for line in vf_changes(old.expected, new.expected):
            log.info(line)
        return [*changed(old, new), *(["report"] if old.report else [])]

    async def create(self, new: NodeGateInputs) -> NodeGateState:
        """Looks until there is no fault or the time is over."""
        return NodeGateState(**dict(new), report=await self._report(new, new.wait_s))

    async def read(self, old: NodeGateState) -> NodeGateState:
        """Looks once: drift in the cluster shows in a refresh."""
        return old.model_copy(update={"report": await self._report(old, 0)})

    async def _report(self, gate: NodeGateInputs, wait_s: float) -> Faults:
        try:
            text = await admin_kubeconfig(gate.kubeconfig, self.config, Path.cwd())
            with KubernetesApi(text) as api:
                look_once = partial(look, api, gate.expected)
                faults = await wait(look_once, min(wait_s, PLAYED_S), log.info)
                if faults and wait_s > PLAYED_S and not played(api):
                    faults = await wait(look_once, wait_s - PLAYED_S, log.info)
        except LabError as error:
            faults = {"cluster": [str(error)]}
        for name, reasons in faults.items():
            log.warn(f"{name}: {'; '.join(reasons)}")
        kept = dict(list(faults.items())[:LARGEST_REPORT])
        if len(faults) > len(kept):
            kept["more"] = [f"{plural(len(faults) - len(kept), 'more is', 'more are')} at fault"]
        return kept


def look(api: KubernetesApi, spec: GateSpec) -> Faults:
    """All reasons why jobs cannot run now."""
    nodes = {}
    for node in api.items("/api/v1/nodes"):
        nodes[str(at(node, "metadata", "name"))] = node
    states = api.items(spec.node_states) if spec.node_states else []
    reported = {}
    for state in states:
        reported[str(at(state, "metadata", "name"))] = state_faults(state)
    faults: Faults = {}
    for name, resources in spec.nodes.items():
        faults[name] = node_faults(name, nodes.get(name), resources, spec.kubelet)
        faults[name] += network_faults(nodes.get(name), spec.subnets)
        faults[name] += reported.get(name, [])
    for path, served in spec.pools.items():
        name = path.rpartition("/")[2]
        faults[f"pool {name}"] = pool_faults(name, api.get(path), served)
    for path in spec.networks:
        _, _, within, _, network = path.rsplit("/", 4)
        if api.get(path) is None:
            missing = "does not exist, so pods that name it cannot start"
            faults[f"network {within}/{network}"] = [missing]
    return {name: reasons for name, reasons in faults.items() if reasons}


def played(api: KubernetesApi) -> bool:
    """Whether any kubelet of the cluster is kwok's."""
    nodes = api.items("/api/v1/nodes")
    return any(at(node, "metadata", "annotations", PLAYED) is not None for node in nodes)


async def wait(
    look_once: Callable[[], Faults], wait_s: float, say: Callable[[str], None]
) -> Faults:
    """The faults after the time; none end the wait at once."""
    begun_s = said_s = time.monotonic()
    while (faults := look_once()) and (now_s := time.monotonic()) < begun_s + wait_s:
        if now_s >= said_s + ANNOUNCE_S:
            said_s, (name, reasons) = now_s, next(iter(faults.items()))
            more = ""
            if len(faults) > 1:
                more = f", and {len(faults) - 1} more"
            spent = f"{now_s - begun_s:.0f} of {wait_s:.0f} s at most"
            say(f"waiting for {name}{more}, {spent}: {'; '.join(reasons)}")
        await asyncio.sleep(POLL_S)
    return faults
