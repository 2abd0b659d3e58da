"""The pod of the rail check.

It shows what a node's pods get of their rails, and pings its peers there.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from components.cluster.manifests import render
from components.jobs.mpijob import LAB_LABEL, NETWORKS, RUN_LABEL
from components.jobs.workers import FrozenModel, PodPlacement, RailAttachment

CHECK_LABEL = "rocelab.dev/check"
PEERS = "rocelab.dev/peers"
"""Annotation with the peers to ping: the kubelet shows a changed annotation in a volume at once."""
LIMIT_S = 1800
"""A pod ends after this time, whatever became of its run."""
SCRIPT = Path(__file__).with_name("rail_pod.sh").read_text()
"""Reports what the pod has, waits for its peers, pings them, and stays, because others may still
ping it.

Source addresses are bound, because the sbr plugin of a routed rail moves its routes out of the main
table. IPv6 link-local addresses belong to one interface, while Linux answers for IPv4 addresses on
any: so they show which interfaces share a network.
"""


class RailPod(FrozenModel):
    namespace: str
    image: str
    pull_secret: str | None = None
    node: str
    attachments: tuple[RailAttachment, ...]
    placement: PodPlacement = PodPlacement()


def rail_pod(name: str, pod: RailPod, lab: str, run_id: str) -> dict[str, JsonValue]:
    """The pod on its node."""
    networks = [attached.network for attached in pod.attachments if attached.network]
    rails = [attached.rail for attached in pod.attachments]
    devices = {attached.resource: "1" for attached in pod.attachments}
    return render(
        "jobs/manifests/rail_pod",
        name=name,
        pod=pod,
        labels={**pod.placement.labels, LAB_LABEL: lab, RUN_LABEL: run_id, CHECK_LABEL: "rails"},
        annotations={**pod.placement.annotations, NETWORKS: ",".join(networks)},
        tolerations=pod.placement.taints,
        command=["sh", "-c", SCRIPT, "sh", *script_words(rails)],
        limits={"memory": "128Mi", **devices},
        limit_s=LIMIT_S,
        limit_text=str(LIMIT_S),
        peers_field=f"metadata.annotations['{PEERS}']",
    )


def script_words(
    rails: Sequence[str], root: str = "", peers: str = "/etc/rocelab/peers"
) -> list[str]:
    """The script's arguments: its roots, and the rails in the order of the pod's networks."""
    return [f"{root}/sys", f"{root}/dev", f"{root}/proc", peers, *rails]
