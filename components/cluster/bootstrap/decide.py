"""Who has to do what to become one cluster: a pure function of what each host says of itself.

Nothing is ever begun anew while a cluster of this lab may still be somewhere: a silent control plane, or a cluster
that the state remembers and nobody has, stop the work with what to do by hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stacks.base import Section

Role = Literal["control_plane", "worker"]
Refusal = dict[str, str]

STEP = "join"


class Seen(Section):
    """What a host says of its membership; the fields are those of the host program's `membership`."""

    role: Literal["control_plane", "worker", ""] = ""
    """What it is in a cluster; empty when it is in none."""
    ca: str = ""
    """sha256 of the cluster's certificate: the cluster's name for our purposes."""
    server: str = ""
    """Where its kubelet finds the API."""
    node: str = ""
    """Its name in the cluster."""
    unfinished: Literal["init", "join", ""] = ""
    """What a killed run of ours left in the middle."""
    remains: bool = False
    """Whether kubeadm was ever at work there."""

    @property
    def is_member(self) -> bool:
        """Whether the host is a full member of a cluster, of this lab or another."""
        return bool(self.role) and not self.unfinished


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What is known before anything is decided."""

    roles: Mapping[str, Role]
    """What each active node shall be, in the lab's order."""
    seen: Mapping[str, Seen]
    """What each node that answered is."""
    ready: frozenset[str]
    """Nodes whose host steps are done; only these are touched."""
    idle: frozenset[str] = frozenset()
    """Control planes that are drained: they are not asked, and may hold the cluster."""
    known_ca: str = ""
    """The cluster that this lab had after an earlier run; empty when it had none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What is to be done, in this order: make the cluster, let control planes in one by one, then workers."""

    init: str = ""
    """The host that makes the cluster; empty when there is one."""
    host: str = ""
    """The control plane that lets others in; empty while there is none."""
    ca: str = ""
    """The lab's cluster, once a control plane has it."""
    control_planes: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict)


def decide(at: Situation) -> Decision:
    """The next work. A host that is in the lab's cluster in its role appears nowhere."""
    planes = [name for name, role in at.roles.items() if role == "control_plane"]
    holders = [name for name in planes if _holds(at.seen.get(name), at.known_ca)]
    clusters = {at.seen[name].ca for name in holders}
    if len(clusters) > 1:
        named = "; ".join(f"{name}: {at.seen[name].server}, CA {at.seen[name].ca[:12]}" for name in holders)
        return _all_refused(
            at,
            f"the control planes belong to different clusters ({named})",
            "decide which one stays, then kubeadm reset the others",
        )
    if not holders:
        return _without_a_cluster(at, planes)
    ca = clusters.pop()
    refused = {name: reason for name in at.ready if (reason := _refusal(at, name, ca))}
    missing = [name for name in at.roles if name in at.ready and name not in refused and not _belongs(at, name, ca)]
    return Decision(
        host=holders[0],
        ca=ca,
        control_planes=tuple(name for name in missing if name in planes),
        workers=tuple(name for name in missing if name not in planes),
        refused=refused,
    )


def _without_a_cluster(at: Situation, planes: Sequence[str]) -> Decision:
    silent = [name for name in planes if name not in at.seen] + sorted(at.idle)
    if silent:
        return _all_refused(
            at,
            f"{', '.join(silent)} is drained or does not answer, but may hold the lab's cluster",
            "rocelab creates no second cluster: bring it back, or remove it from the lab (state: absent)",
        )
    if at.known_ca:
        return _all_refused(
            at,
            f"the lab had a cluster (CA {at.known_ca[:12]}), but no control plane has it any more",
            "restore etcd and /etc/kubernetes/pki on a control plane; or start over: pulumi destroy, then pulumi up",
        )
    first = planes[0]
    if first not in at.ready:
        return _all_refused(at, f"{first} creates the cluster, but is not ready", f"fix {first} first; see its result")
    foreign = {name: reason for name in at.ready if (reason := _refusal(at, name, ""))}
    if first in foreign:
        return Decision(refused=foreign)
    return Decision(init=first, refused=foreign)


def _holds(seen: Seen | None, known_ca: str) -> bool:
    """Whether a host is a control plane that can invite others."""
    return seen is not None and seen.role == "control_plane" and seen.is_member and known_ca in ("", seen.ca)


def _belongs(at: Situation, name: str, ca: str) -> bool:
    seen = at.seen.get(name)
    return seen is not None and seen.is_member and seen.ca == ca


def _refusal(at: Situation, name: str, ca: str) -> Refusal | None:
    """Why a host cannot join; None when it can or is a member."""
    seen = at.seen.get(name)
    if seen is None:
        return _failed("it does not answer", "make it reachable, then run again")
    if seen.unfinished:
        return None  # ours, cut off in the middle: it is cleaned and joins
    if not seen.is_member:
        foreign = "kubeadm has configured it before, but not for this lab"
        hint = "check /etc/kubernetes and /var/lib/etcd; if nobody needs them, run kubeadm reset"
        return _failed(foreign, hint) if seen.remains else None
    reasons = (
        (
            seen.ca != ca,
            f"it is in another cluster ({seen.server}, CA {seen.ca[:12]})",
            f"drain it there and run kubeadm reset on it, or remove nodes.{name} from this lab",
        ),
        (
            seen.node != name,
            f"it is in the cluster as {seen.node}",
            "a member cannot change its name: restore it, or let the node leave (state: absent) and join again",
        ),
        (
            seen.role != at.roles[name],
            f"it is in the cluster as {seen.role}, but nodes.{name}.role is {at.roles[name]}",
            "set its state to absent, run, and set it back: it joins in its new role",
        ),
    )
    return next((_failed(reason, hint) for holds, reason, hint in reasons if holds), None)


def _all_refused(at: Situation, reason: str, hint: str) -> Decision:
    """Refuses every host that is not a whole member; members work on whatever we think."""
    outside = [name for name in at.ready if not (name in at.seen and at.seen[name].is_member)]
    members = [name for name in at.ready if name not in outside]
    # a lab whose every host is a member and whose control plane is away must still hear of it
    return Decision(refused={name: _failed(reason, hint) for name in sorted(outside or members)})


def _failed(reason: str, hint: str) -> Refusal:
    return {"status": "failed", "step": STEP, "reason": reason, "hint": hint}
