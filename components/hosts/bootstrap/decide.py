"""Which hosts create or join the lab's cluster: a pure function of what each host reports.

rocelab never creates a second cluster while the first may still exist. It stops, and says what to
do, if a control plane is silent or if no host has the cluster that the state knows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from stacks.base import Section
from stacks.frozen import frozen

Role = Literal["control_plane", "worker"]
Refusal = dict[str, str]

STEP = "join"


class Membership(Section):
    """A host's membership in a cluster; the fields are those of the host program's `membership`."""

    role: Literal["control_plane", "worker", ""] = ""
    """Its role in a cluster; empty when it is in none."""
    ca: str = ""
    """SHA-256 of the cluster's certificate, which identifies the cluster."""
    server: str = ""
    """The API server of its kubelet."""
    node: str = ""
    """Its name in the cluster."""
    unfinished: Literal["init", "join", ""] = ""
    """The step that an interrupted run left unfinished."""
    remains: bool = False
    """Whether kubeadm has ever configured the host."""

    @property
    def is_member(self) -> bool:
        """Whether the host is a full member of a cluster, of this lab or another."""
        return bool(self.role) and not self.unfinished


@frozen
class Situation:
    """What is known before anything is decided."""

    roles: Mapping[str, Role]
    """Declared role of each active node, in the order of the lab file."""
    memberships: Mapping[str, Membership]
    """By node that answered."""
    ready: frozenset[str]
    """Nodes whose host steps are done; only these are touched."""
    idle: frozenset[str] = frozenset()
    """Drained control planes: rocelab does not contact them, and they may hold the cluster."""
    known_ca: str = ""
    """CA of the cluster that this lab had after an earlier run; empty: none."""


@frozen
class Decision:
    """The work, in this order: create the cluster, join control planes one by one, then workers."""

    init: str = ""
    """The host that creates the cluster; empty when one exists."""
    host: str = ""
    """The control plane that invites others; empty while there is none."""
    ca: str = ""
    """The lab's cluster, once a control plane has it."""
    control_planes: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict)


def decide(at: Situation) -> Decision:
    """The next work. A host that is in the lab's cluster in its role appears nowhere."""
    planes = [name for name, role in at.roles.items() if role == "control_plane"]
    holders = [name for name in planes if _holds(at.memberships.get(name), at.known_ca)]
    clusters = {at.memberships[name].ca for name in holders}
    if len(clusters) > 1:
        places = []
        for name in holders:
            membership = at.memberships[name]
            places.append(f"{name}: {membership.server}, CA {membership.ca[:12]}")
        return _all_refused(
            at,
            f"the control planes belong to different clusters ({'; '.join(places)})",
            "decide which one stays, then kubeadm reset the others",
        )
    if not holders:
        return _without_a_cluster(at, planes)
    ca = clusters.pop()
    refused = _refusals(at, ca)
    planes_to_join: list[str] = []
    workers: list[str] = []
    for name in at.roles:
        if name in at.ready and name not in refused and not _belongs(at, name, ca):
            kind = planes_to_join if name in planes else workers
            kind.append(name)
    return Decision(
        host=holders[0],
        ca=ca,
        control_planes=tuple(planes_to_join),
        workers=tuple(workers),
        refused=refused,
    )


def _without_a_cluster(at: Situation, planes: Sequence[str]) -> Decision:
    silent = [name for name in planes if name not in at.memberships] + sorted(at.idle)
    if silent:
        return _all_refused(
            at,
            f"{', '.join(silent)} is drained or does not answer, but may hold the lab's cluster",
            "rocelab creates no second cluster: bring it back, or remove it from the lab "
            "(state: absent)",
        )
    if at.known_ca:
        return _all_refused(
            at,
            f"the lab had a cluster (CA {at.known_ca[:12]}), but no control plane has it now",
            "restore etcd and /etc/kubernetes/pki on a control plane; or start over: "
            "pulumi destroy, then pulumi up",
        )
    first = planes[0]
    if first not in at.ready:
        return _all_refused(
            at,
            f"{first} creates the cluster, but is not ready",
            f"fix {first} first; see its result",
        )
    foreign = _refusals(at, "")
    if first in foreign:
        return Decision(refused=foreign)
    return Decision(init=first, refused=foreign)


def _holds(membership: Membership | None, known_ca: str) -> bool:
    """Whether a host is a control plane that can invite others."""
    return (
        membership is not None
        and membership.role == "control_plane"
        and membership.is_member
        and known_ca in ("", membership.ca)
    )


def _belongs(at: Situation, name: str, ca: str) -> bool:
    membership = at.memberships.get(name)
    return membership is not None and membership.is_member and membership.ca == ca


def _refusal(at: Situation, name: str, ca: str) -> Refusal | None:
    """Why a host cannot join; None when it can or is a member."""
    membership = at.memberships.get(name)
    if membership is None:
        return failed_join("it does not answer", "make it reachable, then run again")
    if membership.unfinished:
        return None  # an interrupted run left it: it is reset and joins
    if not membership.is_member:
        foreign = "kubeadm has configured it before, but not for this lab"
        hint = "check /etc/kubernetes and /var/lib/etcd; if you do not need them, run kubeadm reset"
        return failed_join(foreign, hint) if membership.remains else None
    return _misfit(membership, name, at.roles[name], ca)


def _misfit(membership: Membership, name: str, role: Role, ca: str) -> Refusal | None:
    if membership.ca != ca:
        return failed_join(
            f"it is in another cluster ({membership.server}, CA {membership.ca[:12]})",
            f"drain it there and run kubeadm reset on it, or remove nodes.{name} from this lab",
        )
    if membership.node != name:
        return failed_join(
            f"it is in the cluster as {membership.node}",
            "a member cannot change its name: restore it, or let the node leave (state: absent) "
            "and join again",
        )
    if membership.role != role:
        return failed_join(
            f"it is in the cluster as {membership.role}, but nodes.{name}.role is {role}",
            "set its state to absent, run, and set it back: it joins in its new role",
        )
    return None


def _refusals(at: Situation, ca: str) -> dict[str, Refusal]:
    refused = {}
    for name in at.ready:
        if reason := _refusal(at, name, ca):
            refused[name] = reason
    return refused


def _all_refused(at: Situation, reason: str, hint: str) -> Decision:
    """Refuses every host that is not a full member; members keep working."""
    outside = [
        name for name in at.ready if not (name in at.memberships and at.memberships[name].is_member)
    ]
    members = [name for name in at.ready if name not in outside]
    # if all hosts are members and a control plane is missing, some result must still say so
    return Decision(
        refused={name: failed_join(reason, hint) for name in sorted(outside or members)}
    )


def failed_join(reason: str, hint: str) -> Refusal:
    """The result of a host that does not join or leave."""
    return {"status": "failed", "step": STEP, "reason": reason, "hint": hint}
