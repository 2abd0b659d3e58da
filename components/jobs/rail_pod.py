"""The pod of the rail check.

It shows what a node's pods get of their rails, and pings its peers there.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from components.cluster.manifests import render
from components.jobs.mpijob import NETWORKS
from components.jobs.workers import PodPlacement, RailAttachment

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


def rail_pod(  # noqa: PLR0913  # the whole pod
    name: str,
    node: str,
    attachments: Sequence[RailAttachment],
    placement: PodPlacement,
    labels: dict[str, str],
    *,
    namespace: str,
    image: str,
    pull_secret: str | None = None,
) -> dict[str, JsonValue]:
    """The pod on its node."""
    return render(
        "jobs/manifests/rail_pod",
        name=name,
        node=node,
        namespace=namespace,
        image=image,
        pull_secret=pull_secret,
        labels={**placement.labels, **labels, CHECK_LABEL: "rails"},
        annotations={
            **placement.annotations,
            NETWORKS: ",".join(attached.network or "" for attached in attachments),
        },
        tolerations=placement.taints,
        command=["sh", "-c", SCRIPT, "sh", *script_words([rail.rail for rail in attachments])],
        limits={"memory": "128Mi", **{attached.resource: "1" for attached in attachments}},
        limit_s=LIMIT_S,
        limit_text=str(LIMIT_S),
        peers_field=f"metadata.annotations['{PEERS}']",
    )


def script_words(
    rails: Sequence[str], root: str = "", peers: str = "/etc/rocelab/peers"
) -> list[str]:
    """The script's arguments: its roots, and the rails in the order of the pod's networks."""
    return [f"{root}/sys", f"{root}/dev", f"{root}/proc", peers, *rails]
