"""The pod of the rail check: it shows what a node's pods get of their rails, and pings its peers
there.
"""

from collections.abc import Sequence
from pathlib import Path

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


def script_words(
    rails: Sequence[str], root: str = "", peers: str = "/etc/rocelab/peers"
) -> list[str]:
    """The script's arguments: its roots, and the rails in the order of the pod's networks."""
    return [f"{root}/sys", f"{root}/dev", f"{root}/proc", peers, *rails]
