"""The pod of the rail check: it shows what a node's pods get of their rails, and pings its peers there."""

from collections.abc import Sequence

from pydantic import JsonValue

from components.jobs.mpijob import LAB_LABEL, NETWORKS, RUN_LABEL
from components.jobs.workers import GPU, FrozenModel, PodPlacement, RailAttachment

CHECK_LABEL = "rocelab.dev/check"
PEERS = "rocelab.dev/peers"
"""Annotation with the peers to ping: the kubelet shows a changed annotation in a volume at once."""
LIMIT_S = 1800
"""A pod ends after this time, whatever became of its run."""

SCRIPT = r"""
sys=$1 dev=$2 proc=$3 peers=$4
shift 4
say() { echo "rocelab $*"; }
number=0
for rail; do
  number=$((number + 1))
  name=net$number net=$sys/class/net/net$number
  if [ ! -e "$net" ]; then say "no-interface $rail $name" && continue; fi
  say "interface $rail $name $(cat "$net/mtu")"
  if [ -e "$net/device" ]; then place=$(readlink -f "$net/device") && say "slot $rail ${place##*/}"; fi
  for device in "$sys"/class/infiniband/*; do
    for type in $(grep -slx "RoCE v2" "$device"/ports/1/gid_attrs/types/*); do
      if grep -sqx "$name" "$device/ports/1/gid_attrs/ndevs/${type##*/}"; then
        place=$(readlink -f "$device/device")
        say "gid $rail ${device##*/} ${place##*/} $(cat "$device/ports/1/gids/${type##*/}")"
        for verbs in "$device"/device/infiniband_verbs/*; do
          if [ -e "$dev/infiniband/${verbs##*/}" ]; then say "verbs $rail ${device##*/}"; fi
        done
      fi
    done
  done
  while read -r address _ _ scope _ owner; do
    if [ "$owner $scope" = "$name 20" ]; then say "link $rail $address"; fi
  done <"$proc/net/if_inet6"
done 2>/dev/null
# a file that the shell opens for another program is empty: it belongs to the process before that program
cat "$proc/self/environ" | tr '\0' '\n' | grep -v '^[^=]*_INFO=' | sed -n 's/^PCIDEVICE_\([^=]*\)=/rocelab given \1 /p'
if [ -e "$dev/infiniband/rdma_cm" ]; then say rdma_cm; fi
if ! command -v ping >/dev/null; then say no-ping; fi
say reported
until [ -s "$peers" ]; do sleep 0.5; done
running=0
while read -r kind rail name peer other address size source; do
  {
    answer=none
    if [ "$kind" = reach ]; then
      if ping -q -n -c 3 -i 0.2 -W 2 -M do -s "$size" -I "$source" "$address" >/dev/null 2>&1; then
        answer=large
      elif ping -q -n -c 3 -i 0.2 -W 2 -I "$source" "$address" >/dev/null 2>&1; then
        answer=small
      fi
    elif ping -6 -q -n -c 3 -i 0.2 -W 1 "$address%$name" >/dev/null 2>&1; then
      answer=small
    fi
    say "$kind $rail $peer $other $answer"
  } &
  running=$((running + 1))
  if [ "$running" -ge 16 ]; then wait && running=0; fi
done <"$peers"
wait
say done
exec sleep "$LIMIT"
"""
"""Reports what the pod has, waits for its peers, pings them, and stays, because others may still ping it.

Source addresses are bound, because the sbr plugin of a routed rail moves its routes out of the main table. IPv6
link-local addresses belong to one interface, while Linux answers for IPv4 addresses on any: so they show which
interfaces share a network.
"""


class RailPod(FrozenModel):
    namespace: str
    image: str
    pull_secret: str | None = None
    node: str
    attachments: tuple[RailAttachment, ...]
    placement: PodPlacement = PodPlacement()


def rail_pod(name: str, pod: RailPod, lab: str, run_id: str) -> dict[str, JsonValue]:
    """The pod, bound to its node like a DaemonSet's, so the scheduler still counts its devices."""
    networks = ",".join(one.network for one in pod.attachments if one.network)
    limits: dict[str, JsonValue] = {one.resource: "1" for one in pod.attachments}
    on_node: JsonValue = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pod.node]}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": pod.namespace,
            "labels": {**pod.placement.labels, LAB_LABEL: lab, RUN_LABEL: run_id, CHECK_LABEL: "rails"},
            "annotations": {**pod.placement.annotations, NETWORKS: networks},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIMIT_S,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            **({"imagePullSecrets": [{"name": pod.pull_secret}]} if pod.pull_secret else {}),
            "tolerations": pod.placement.tolerated([{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]),
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on_node]}}
            },
            "containers": [
                {
                    "name": "rails",
                    "image": pod.image,
                    "command": ["sh", "-c", SCRIPT, "sh", *script_words([one.rail for one in pod.attachments])],
                    "env": [{"name": "LIMIT", "value": str(LIMIT_S)}],
                    # for ping; not every runtime grants it by default
                    "securityContext": {"capabilities": {"add": ["NET_RAW"]}},
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "32Mi"},
                        "limits": {"memory": "128Mi", **limits},
                    },
                    "volumeMounts": [{"name": "peers", "mountPath": "/etc/rocelab"}],
                }
            ],
            "volumes": [
                {
                    "name": "peers",
                    "downwardAPI": {
                        "items": [{"path": "peers", "fieldRef": {"fieldPath": f"metadata.annotations['{PEERS}']"}}]
                    },
                }
            ],
        },
    }


def script_words(rails: Sequence[str], root: str = "", peers: str = "/etc/rocelab/peers") -> list[str]:
    """The script's arguments: its roots, and the rails in the order of the pod's networks."""
    return [f"{root}/sys", f"{root}/dev", f"{root}/proc", peers, *rails]
