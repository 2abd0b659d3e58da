"""Starts a pod with all rails on each node, lets the pods ping each other, and deletes them."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from components.jobs.mpijob import LAB_LABEL, RUN_LABEL
from components.jobs.rail_pod import CHECK_LABEL, PEERS
from components.jobs.registry import look
from components.kubernetes.client import KubernetesApi, at
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.pods.faults import (
    AGENT_LABEL,
    AGENTS,
    NodeState,
    leak_faults,
    node_fault,
    pair_faults,
    pod_faults,
    rail_counts,
    sandbox_fault,
    shared_addresses,
    unscheduled_faults,
)
from components.validation.benchmarks.pods.log import (
    AttachedNetwork,
    PodFacts,
    networks_of,
    parse_pod,
)
from components.validation.benchmarks.pods.plan import PodPlan, PodRail
from components.validation.cluster import (
    NETWORK_STATUS,
    Event,
    Pod,
    not_in_registry,
    objects,
    pull_fault,
)
from components.validation.mpijobs import NO_KUBECONFIG, ClusterRun, replayed_on
from components.validation.records import PodFault, PodRails, outcome_of
from stacks.base import LabError
from stacks.words import plural

POLL_S = 2.0
REASONS_S = 10.0
"""How often the cluster is asked why pods wait."""
ANNOUNCE_S = 30.0
START_S = {True: 300, False: 900}
"""Until each pod has reported, by simulated or not: a node may pull a large image first."""
LASTING_S = {True: 120, False: 60}
"""How long a reason must last to count: the kubelet retries every few seconds."""
PINGS_S = 180
MOST_FAULTS = 40
MOST_LOG_BYTES = 200_000
NO_REAL_POD = "kwok plays the nodes' kubelets, so no pod runs"
LOGS = "pods/"


@dataclass(kw_only=True)
class _Check:
    """The check of the rails in pods, while it runs."""

    api: KubernetesApi
    plan: PodPlan
    cluster: ClusterRun
    logs: dict[str, str] = field(default_factory=dict)
    """By node."""
    facts: dict[str, PodFacts] = field(default_factory=dict)
    faults: dict[str, tuple[PodFault, ...]] = field(default_factory=dict)
    networks: dict[str, Sequence[AttachedNetwork]] = field(default_factory=dict)
    pulling: dict[str, str] = field(default_factory=dict)
    since: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def pods_path(self) -> str:
        """API path of the namespace's pods."""
        return f"/api/v1/namespaces/{self.plan.namespace}/pods"

    def sweep(self, label: str) -> None:
        """Deletes the check's pods with this label; a pod that stays ends by itself."""
        try:
            for pod in self._pods(f"{LAB_LABEL}={self.cluster.lab},{CHECK_LABEL},{label}"):
                self.api.delete(f"{self.pods_path}/{pod.name}")
        except LabError as error:
            self.cluster.say(
                f"pods of the check could not be deleted ({error}); they end by themselves within "
                "half an hour"
            )

    def result(self) -> PodRails:
        """Starts the pods, waits for their reports and pings, and judges them."""
        self.sweep(
            RUN_LABEL
        )  # pods of a killed run: with the hosts' lease held, no other run is using them
        for node in self.plan.nodes:
            self.api.create(
                self.pods_path, self.plan.document(node, self.cluster.lab, self.cluster.run_id)
            )
        self._wait_for_start()
        peers = {node: "\n".join(self._peers(node)) for node in self.facts}
        for node, text in peers.items():
            change: dict[str, JsonValue] = {"metadata": {"annotations": {PEERS: text or "none"}}}
            self.api.merge(
                f"{self.pods_path}/{self.plan.pod_name(self.cluster.run_id, node)}", change
            )
        self._wait_for_pings()
        return self._judged()

    def _judged(self) -> PodRails:
        answers = {rail.name: self._answers(rail) for rail in self.plan.rails}
        faults = [fault for of_pod in self.faults.values() for fault in of_pod]
        for node, facts in self.facts.items():
            faults += pod_faults(self.plan, node, facts, self.networks[node])
        faults += shared_addresses(self.plan, self.networks)
        for rail in self.plan.rails:
            faults += pair_faults(rail, answers[rail.name])
        faults += leak_faults(self.plan, self.facts)
        unique = tuple(dict.fromkeys(faults))
        kept, left_out = unique[:MOST_FAULTS], len(unique[MOST_FAULTS:])
        rails = tuple(rail_counts(self.plan, self.facts, answers))
        silent = [node for node, facts in self.facts.items() if not facts.done]
        result = PodRails(outcome=outcome_of(faults), rails=rails, faults=kept, left_out=left_out)
        if faults or not silent:
            return result
        reason = f"{', '.join(silent[:3])}: pings did not end within {PINGS_S} s"
        return result.replace(outcome="error", reason=reason)

    def _answers(self, rail: PodRail) -> dict[tuple[str, str], str]:
        """Results of the pings, for the pairs that have one."""
        answers = {}
        for client, peer in rail.pairs:
            reached = {}
            if client in self.facts:
                reached = self.facts[client].reached
            if reached.get((rail.name, peer)):
                answers[client, peer] = reached[rail.name, peer]
        return answers

    def _wait_for_start(self) -> None:
        begun = announced_s = explained_s = time.monotonic()
        while waiting := self._waiting():
            now = time.monotonic()
            if now - explained_s >= REASONS_S:
                explained_s = now
                self._explain(waiting)
            explained = [node for node in waiting if self.faults.get(node)]
            lasting = [node for node in explained if self._lasts(node, now)]
            if len(lasting) == len(waiting) or now - begun > START_S[self.cluster.simulated]:
                break
            if now - announced_s >= ANNOUNCE_S:
                announced_s = now
                why = self.faults[explained[0]][0].what if explained else "starting"
                self.cluster.say(
                    f"pod_rails: {plural(len(waiting), 'pod')} not running after "
                    f"{now - begun:.0f} s: {why}"
                )
            if self.cluster.stop.wait(POLL_S):
                raise LabError("the run was stopped")
        for node in [node for node in waiting if not self.faults.get(node)]:
            why = f"its pod has not started within {START_S[self.cluster.simulated]} s"
            if node in self.pulling:
                why += f": {self.pulling[node]}"
            self.faults[node] = (node_fault("POD_NOT_STARTED", node, why),)

    def _lasts(self, node: str, now: float) -> bool:
        first_s = self.since.setdefault((node, str(self.faults[node])), now)
        return now - first_s >= LASTING_S[self.cluster.simulated]

    def _waiting(self) -> dict[str, Pod | None]:
        """Looks at the check's pods once; returns those that have not reported, by node."""
        selector = f"{LAB_LABEL}={self.cluster.lab},{RUN_LABEL}={self.cluster.run_id}"
        pods = {pod.name: pod for pod in self._pods(selector)}
        waiting: dict[str, Pod | None] = {}
        for node in self.plan.nodes:
            if node in self.facts:
                continue
            pod = pods.get(self.plan.pod_name(self.cluster.run_id, node))
            if pod is not None and pod.phase == "Running" and self._read(node).reported:
                self.facts[node] = parse_pod(self.logs[node])
                self.networks[node] = networks_of(pod.annotations.get(NETWORK_STATUS, ""))
                self.faults.pop(node, None)
            else:
                waiting[node] = pod
        return waiting

    def _explain(self, waiting: Mapping[str, Pod | None]) -> None:
        """Asks the cluster why these pods wait, in as few requests as that takes."""
        selector = "involvedObject.kind=Pod,reason=FailedCreatePodSandBox"
        path = self.pods_path.replace("/pods", "/events")
        events = objects(self.api, path, Event, {"fieldSelector": selector})
        sandbox = {event.about: event.message for event in events}
        nodes = {}
        for document in self.api.items("/api/v1/nodes"):
            nodes[str(at(document, "metadata", "name"))] = document
        selector = f"{AGENT_LABEL} in ({','.join(AGENTS)})"
        agents = objects(self.api, "/api/v1/pods", Pod, {"labelSelector": selector})
        for node, pod in waiting.items():
            message = sandbox.get(pod.name, "") if pod else ""
            self.faults[node] = tuple(self._faults_of(node, pod, message, nodes.get(node), agents))

    def _faults_of(
        self,
        node: str,
        pod: Pod | None,
        sandbox: str,
        document: JsonValue,
        agents: Sequence[Pod],
    ) -> Iterator[PodFault]:
        """Why a pod has not started; none while no reason is known."""
        if pod is None:
            yield node_fault("POD_ENDED", node, "the pod is gone")
            return
        if pod.phase in ("Failed", "Succeeded"):
            why = f": {pod.message}" if pod.message else ""
            what = f"its pod has ended ({pod.reason or pod.phase}){why}"
            yield node_fault("POD_ENDED", node, what)
            return
        pull = pull_fault([pod], self.plan.image)
        if pull and pull.final:
            yield PodFault(code="POD_IMAGE", node=node, what=pull.text)
            return
        if pull:
            self.pulling[node] = pull.text  # a slow registry gets the whole time, as for a job
        ready = {pod.labels[AGENT_LABEL] for pod in agents if pod.node == node and pod.ready}
        missing = sorted({pod.labels[AGENT_LABEL] for pod in agents} - ready)
        if pod.phase == "Pending" and sandbox:
            yield sandbox_fault(self.plan, node, missing, sandbox)
            return
        for condition in pod.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                state = NodeState(
                    capacity=_counts(at(document, "status", "capacity")),
                    allocatable=_counts(at(document, "status", "allocatable")),
                    missing_agents=missing,
                    holders=self._holders(node),
                )
                yield from unscheduled_faults(self.plan, node, state, condition.message)

    def _wait_for_pings(self) -> None:
        until_s = time.monotonic() + PINGS_S
        while waiting := [node for node, facts in self.facts.items() if not facts.done]:
            for node in waiting:
                self.facts[node] = self._read(node)
            if time.monotonic() > until_s:
                return
            if self.cluster.stop.wait(POLL_S):
                raise LabError("the run was stopped")

    def _read(self, node: str) -> PodFacts:
        path = f"{self.pods_path}/{self.plan.pod_name(self.cluster.run_id, node)}/log"
        self.logs[node] = self.api.text(path, {"limitBytes": str(MOST_LOG_BYTES)})
        return parse_pod(self.logs[node])

    def _peers(self, node: str) -> list[str]:
        """Peers that a pod pings, as lines that its script reads."""
        lines = []
        for rail in self.plan.rails_of(node):
            own = self._network(node, rail)
            if own is None:
                continue
            peers = [peer for client, peer in rail.pairs if client == node]
            for peer in peers:
                other = self._network(peer, rail)
                if other is not None:
                    to = f"{peer} - {other.address} {rail.mtu_bytes - 28} {own.address}"
                    lines.append(f"reach {rail.name} {own.interface} {to}")
            # one peer is enough to see what else is on the network
            if next_one := next((peer for peer in peers if peer in self.facts), None):
                lines += self._apart(rail, own.interface, next_one)
        return lines

    def _apart(self, rail: PodRail, interface: str, peer: str) -> list[str]:
        """Pings to a peer's interfaces that must not answer on this rail, and to one that must."""
        if not self.plan.own_vf or rail.routed or rail.vlan_id is None:
            return []
        lines = []
        for other in self.plan.rails_of(peer):
            facts = self.facts[peer].rails.get(other.name)
            own = other == rail or other.vlan_id not in (None, rail.vlan_id)
            if own and not other.routed and facts and facts.link_local:
                to = f"{peer} {other.name} {facts.link_local}"
                lines.append(f"apart {rail.name} {interface} {to} 0 -")
        return lines

    def _network(self, node: str, rail: PodRail) -> AttachedNetwork | None:
        of_rail = []
        for net in self.networks.get(node, ()):
            if net.name == rail.network:
                of_rail.append(net)
        if of_rail and of_rail[0].address:
            return of_rail[0]
        return None

    def _pods(self, selector: str) -> list[Pod]:
        return objects(self.api, self.pods_path, Pod, {"labelSelector": selector})

    def _holders(self, node: str) -> dict[str, list[str]]:
        """Pods that hold devices of the rails on a node, by resource."""
        resources = {rail.resource for rail in self.plan.rails}
        holders: dict[str, list[str]] = {}
        for pod in objects(
            self.api, "/api/v1/pods", Pod, {"fieldSelector": f"spec.nodeName={node}"}
        ):
            for resource in pod.held(resources):
                holders.setdefault(resource, []).append(pod.full_name)
        return holders


def _counts(value: JsonValue) -> Mapping[str, str]:
    if isinstance(value, dict):
        return {name: str(count) for name, count in value.items()}
    return {}


def measure_pods(plan: Plan, cluster: ClusterRun) -> PodRails:
    """The check with its line of progress; skipped without a cluster. Blocks."""
    if cluster.kubeconfig is None:
        return PodRails(outcome="skipped", reason=NO_KUBECONFIG)
    pods = run_pods(plan, cluster)
    if pods.faults:
        words = f"{pods.outcome}: {'; '.join(fault.code for fault in pods.faults[:2])}"
    elif pods.reason:
        words = f"{'not run' if pods.played else pods.outcome}: {pods.reason}"
    else:
        reached = sum(rail.reached for rail in pods.rails)
        pairs = sum(rail.pairs for rail in pods.rails)
        words = f"{pods.outcome}: {reached} of {plural(pairs, 'pair')}"
    cluster.say(f"pod_rails {words}")
    return pods


def run_pods(plan: Plan, cluster: ClusterRun) -> PodRails:
    """Carries the check out; whatever happens is a result. Blocks: call it in a thread."""
    pods = plan.pods
    if pods is None:
        raise ValueError("the plan has no check of the rails in pods")
    try:
        with KubernetesApi(cluster.kubeconfig or "") as api:
            if replayed_on(api, pods.nodes):
                return PodRails(outcome="skipped", played=True, reason=NO_REAL_POD)
            unknown = not cluster.simulated and look(pods.image).outcome == "missing"
            if unknown and not pods.pull_secret:
                which = "benchmark" if plan.nccl else "mpi"
                return PodRails(outcome="error", reason=not_in_registry(which, pods.image))
            check = _Check(api=api, plan=pods, cluster=cluster)
            try:
                return check.result()
            finally:
                check.sweep(f"{RUN_LABEL}={cluster.run_id}")
                for node, text in check.logs.items():
                    cluster.raw[f"{LOGS}{node}"] = text
    except LabError as error:
        return PodRails(outcome="error", reason=str(error))
