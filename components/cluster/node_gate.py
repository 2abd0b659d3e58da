"""The gate before jobs: whether nodes, pools and networks match the lab. Its findings are data, not errors.

The state contains the path of this module, so it must not move.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

from components.cluster.node_checks import GateSpec, network_faults, node_faults, pool_faults, state_faults, vf_changes
from components.kubernetes.client import KubernetesApi, at
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

Properties = dict[str, object]
Faults = dict[str, list[str]]
"""Reasons by node, pool or network that has a fault."""


class NodeGateProvider(ResourceProvider):
    """Reads the cluster in create and update, waits for it, and never fails because of a fault."""

    serialize_as_secret_always = False  # its code holds no secret; the kubeconfig is a property and secret by itself

    def diff(self, _id: str, _olds: Properties, _news: Properties) -> DiffResult:
        """Runs again when its inputs change, and as long as there are faults."""
        for line in vf_changes(_spec(_olds), _spec(_news)):
            pulumi.log.info(line)
        same = all(_olds.get(key) == _news.get(key) for key in ("wanted", "after", "kubeconfig", "wait_s"))
        return DiffResult(changes=not same or _olds.get("report") != "{}")

    def create(self, props: Properties) -> CreateResult:
        """Looks until there is no fault or the time is over."""
        return CreateResult("node-gate", _looked(props, float(str(props["wait_s"]))))

    def read(self, id_: str, props: Properties) -> ReadResult:
        """Looks once: drift in the cluster shows in a refresh."""
        return ReadResult(id_, _looked(props, 0))

    def update(self, _id: str, _olds: Properties, _news: Properties) -> UpdateResult:
        return UpdateResult(_looked(_news, float(str(_news["wait_s"]))))


def look(api: KubernetesApi, spec: GateSpec) -> Faults:
    """All reasons why jobs cannot run now."""
    nodes = {str(at(node, "metadata", "name")): node for node in api.items("/api/v1/nodes")}
    states = api.items(spec.node_states) if spec.node_states else []
    reported = {str(at(state, "metadata", "name")): state_faults(state) for state in states}
    faults = {
        name: [
            *node_faults(name, nodes.get(name), resources, spec.kubelet),
            *network_faults(nodes.get(name), spec.subnets),
            *reported.get(name, []),
        ]
        for name, resources in spec.nodes.items()
    }
    for path, served in spec.pools.items():
        name = path.rpartition("/")[2]
        faults[f"pool {name}"] = pool_faults(name, api.get(path), served)
    for path in spec.networks:
        _, _, within, _, network = path.rsplit("/", 4)
        if api.get(path) is None:
            faults[f"network {within}/{network}"] = ["does not exist, so no pod that names it starts"]
    return {name: reasons for name, reasons in faults.items() if reasons}


def played(api: KubernetesApi) -> bool:
    """Whether any kubelet of the cluster is kwok's."""
    return any(at(node, "metadata", "annotations", PLAYED) is not None for node in api.items("/api/v1/nodes"))


def wait(look_once: Callable[[], Faults], wait_s: float, say: Callable[[str], None]) -> Faults:
    """The faults after the time; none end the wait at once."""
    begun_s = said_s = time.monotonic()
    while (faults := look_once()) and (now_s := time.monotonic()) < begun_s + wait_s:
        if now_s >= said_s + ANNOUNCE_S:
            said_s, (name, reasons) = now_s, next(iter(faults.items()))
            more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
            say(f"waiting for {name}{more}, {now_s - begun_s:.0f} of {wait_s:.0f} s at most: {'; '.join(reasons)}")
        time.sleep(POLL_S)
    return faults


def _spec(props: Properties) -> GateSpec:
    return GateSpec(**json.loads(str(props["wanted"])))


def _looked(props: Properties, wait_s: float) -> Properties:
    spec = _spec(props)
    try:
        with KubernetesApi(str(props["kubeconfig"])) as api:
            faults = wait(lambda: look(api, spec), min(wait_s, PLAYED_S), pulumi.log.info)
            if faults and wait_s > PLAYED_S and not played(api):
                faults = wait(lambda: look(api, spec), wait_s - PLAYED_S, pulumi.log.info)
    except LabError as error:
        faults = {"cluster": [str(error)]}
    for name, reasons in faults.items():
        pulumi.log.warn(f"{name}: {'; '.join(reasons)}")
    kept = dict(list(faults.items())[:LARGEST_REPORT])
    if len(faults) > len(kept):
        kept["more"] = [f"{plural(len(faults) - len(kept), 'more is', 'more are')} at fault"]
    return {**props, "report": json.dumps(kept, sort_keys=True)}


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeGateArgs:
    spec: GateSpec
    kubeconfig: pulumi.Input[str]
    after: pulumi.Input[str]
    """Changes when devices change; the gate then runs again."""
    wait_s: int
    """How long devices may take to appear after their plugin starts."""


class NodeGate(Resource, module="cluster", name="NodeGate"):
    """The state of the nodes when jobs may begin."""

    report: pulumi.Output[str]
    """`Faults` as JSON; `{}` without faults."""

    def __init__(self, name: str, args: NodeGateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs: dict[str, pulumi.Input[str] | int | None] = {
            "wanted": json.dumps(asdict(args.spec), sort_keys=True),
            "kubeconfig": pulumi.Output.secret(args.kubeconfig),
            "after": args.after,
            "wait_s": args.wait_s,
            "report": None,
        }
        super().__init__(NodeGateProvider(), name, inputs, opts)
