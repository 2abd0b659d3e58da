"""Creates and joins the lab's cluster over SSH. A host's failure is data, not an error.

`decide` makes the decisions. This file creates the cluster, joins control planes one by one (etcd
accepts one new member at a time), then workers in parallel. Token and key are created for the run,
and revoked at its end.
"""

import asyncio
import hashlib
import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue, ValidationError

from components.hosts.bootstrap.config import Invitation, init_config, join_config
from components.hosts.bootstrap.decide import (
    STEP,
    Decision,
    Membership,
    Refusal,
    Role,
    Situation,
    decide,
    failed_join,
)
from components.hosts.calls import Crew, Report
from components.hosts.program.membership import KUBEADM_S, REGISTERED_S, RESET_S
from components.hosts.records import Records, as_mapping
from components.hosts.repair import Outcome, unreachable
from components.ssh.connection import NoAnswerError
from stacks.lab import Lab
from stacks.nodes import Node

AT_ONCE = 16
"""Workers that join in parallel: each requests a certificate from the API server."""
DEADLINE_S = KUBEADM_S + REGISTERED_S + RESET_S + 60
CA_FACT = "cluster_ca"
"""The state's key for the CA of the lab's cluster."""
TOKEN_LETTERS = string.ascii_lowercase + string.digits


@dataclass
class _Work:
    crew: Crew
    lab: Lab
    records: Records
    memberships: dict[str, Membership] = field(default_factory=dict)
    failed: dict[str, Refusal] = field(default_factory=dict)

    def node(self, name: str) -> Node:
        return next(node for node in self.lab.nodes if node.name == name)

    async def ask(self, verb: str, name: str, **kubeadm: JsonValue) -> Report:
        """A cluster verb on a host; kubeadm's configuration travels on stdin.

        Raises:
            NoAnswerError: when the host does not answer.
        """
        record = self.records[name]
        document = {**record.document, "deadline_s": DEADLINE_S, "kubeadm": kubeadm}
        return await self.crew.hosts.call(record.endpoint, verb, document)

    async def does(self, verb: str, name: str, **kubeadm: JsonValue) -> Report | None:
        """The same, but a failure becomes the host's result; None then."""
        try:
            report = await self.ask(verb, name, **kubeadm)
        except NoAnswerError as error:
            self.failed[name] = {**unreachable(name, error), "step": STEP}
            return None
        self._learn(name, report)
        if report.failed:
            self.failed[name] = {"status": "failed", **report.failed, "step": STEP}
            return None
        return report

    async def look(self, name: str, reported: Report | None) -> None:
        """Learns a host's membership from its report; without one, asks it."""
        record = self.records[name]
        try:
            self._learn(
                name,
                reported or await self.crew.hosts.call(record.endpoint, "probe", record.document),
            )
        except NoAnswerError:
            return

    def _learn(self, name: str, report: Report) -> None:
        try:
            self.memberships[name] = Membership.model_validate(report.facts.get("kubernetes"))
        except ValidationError:  # an answer without membership counts as silence
            self.memberships.pop(name, None)


async def unite(
    crew: Crew,
    lab: Lab,
    records: Records,
    outcome: Outcome,
    known: Mapping[str, JsonValue],
) -> None:
    """Joins every ready host to the lab's cluster; a failure replaces the host's result.

    Args:
        crew: works on hosts.
        lab: a lab with cluster.bootstrap.
        records: all hosts.
        outcome: results of the hosts' steps, with the reports of this run; hosts that are not ready
            are only asked.
        known: the facts of the last run.
    """
    work = _Work(
        crew, lab, {name: record for name, record in records.items() if record.state == "active"}
    )
    # no step and no reboot changes a membership; a host that is not ready may have gone silent
    # since its report
    reported = {
        name: report for name, report in outcome.reports.items() if _is_ready(outcome, name)
    }
    await asyncio.gather(*(work.look(name, reported.get(name)) for name in work.records))
    known_ca = remembered_ca(known)
    decision = decide(_situation(work, records, outcome, known_ca))
    if decision.init:
        await _begin(work, decision.init)
        if decision.init not in work.failed:
            decision = decide(_situation(work, records, outcome, known_ca))
        else:
            waits = f"{decision.init} could not create the cluster"
            others = [
                name for name in work.records if name != decision.init and _is_ready(outcome, name)
            ]
            work.failed |= {
                name: _waiting(waits) for name in others if name not in decision.refused
            }
    work.failed |= decision.refused
    if decision.control_planes or decision.workers:
        await _let_in(work, decision)
    for name, result in work.failed.items():
        if _is_ready(outcome, name):
            outcome.results[name] = result
            # a failure in the results alone would look unchanged to the next run
            outcome.records[name] = records[name].with_changes(trouble=result["reason"])
    _remember(work, outcome, decision.ca or known_ca)


async def _begin(work: _Work, name: str) -> None:
    work.crew.say(f"{name}: creates the cluster")
    invitation = new_invitation()
    made = await work.does(
        "cluster-init", name, config=init_config(work.lab, work.node(name), invitation)
    )
    if made is not None:
        await _take_back(work, name, invitation)


async def _let_in(work: _Work, decision: Decision) -> None:
    """All joins of a run, with one invitation that ends with the run."""
    invitation, host = new_invitation(), decision.host
    config = init_config(work.lab, work.node(host), invitation)
    request: dict[str, JsonValue] = {"config": config, "token_id": invitation.token_id}
    invited = await work.does(
        "cluster-invite", host, **request, control_plane=bool(decision.control_planes)
    )
    if invited is None:
        why = work.failed.pop(host)
        text = f"{host} cannot invite it: {why['reason']}"
        for name in [*decision.control_planes, *decision.workers]:
            work.failed[name] = failed_join(text, why.get("hint", ""))
        return
    try:
        hashes = [ca_hash(str(invited.facts.get("ca_pem", "")))]
        await _join_control_planes(work, decision.control_planes, invitation, hashes)
        places = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> None:
            async with places:
                await _join(work, name, invitation, hashes)

        await asyncio.gather(*(one(name) for name in decision.workers))
    finally:
        await _take_back(work, host, invitation)


async def _join_control_planes(
    work: _Work, names: Sequence[str], invitation: Invitation, hashes: Sequence[str]
) -> None:
    """One after the other: etcd accepts one member at a time, and a failure must not risk the
    quorum.
    """
    for position, name in enumerate(names):
        await _join(work, name, invitation, hashes)
        if name in work.failed:
            work.failed |= {
                later: _waiting(f"{name} could not join") for later in names[position + 1 :]
            }
            return


async def _join(work: _Work, name: str, invitation: Invitation, hashes: Sequence[str]) -> None:
    node = work.node(name)
    work.crew.say(f"{name}: joins as {node.role.replace('_', ' ')}")
    await work.does("cluster-join", name, config=join_config(work.lab, node, invitation, hashes))


async def _take_back(work: _Work, host: str, invitation: Invitation) -> None:
    try:
        await work.ask("cluster-uninvite", host, token_id=invitation.token_id)
    except NoAnswerError:
        work.crew.say(
            f"{host}: token {invitation.token_id} could not be revoked; it expires within an hour"
        )


def _situation(work: _Work, records: Records, outcome: Outcome, known_ca: str) -> Situation:
    roles: dict[str, Role] = {}
    idle = set()
    for node in work.lab.nodes:
        if node.name in work.records:
            roles[node.name] = node.role
        elif node.role == "control_plane" and records[node.name].state == "drained":
            idle.add(node.name)
    return Situation(
        roles=roles,
        memberships=dict(work.memberships),
        ready=frozenset(name for name in roles if _is_ready(outcome, name)),
        idle=frozenset(idle),
        known_ca=known_ca,
    )


def new_invitation() -> Invitation:
    """A token in kubeadm's form, and a key for the control plane's certificates."""
    letters = "".join(secrets.choice(TOKEN_LETTERS) for _ in range(22))
    return Invitation(token=f"{letters[:6]}.{letters[6:]}", certificate_key=secrets.token_hex(32))


def ca_hash(pem: str) -> str:
    """What kubeadm pins: the digest of the certificate's public key.

    Raises:
        ValueError: when the text is not a certificate.
    """
    # here: they take a twentieth of a second, and a preview needs neither
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        PublicFormat,
    )
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415

    key = load_pem_x509_certificate(pem.encode()).public_key()
    encoded = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def remembered_ca(facts: Mapping[str, JsonValue]) -> str:
    """CA of the cluster that the lab had after its last run; empty: none."""
    for known in facts.values():
        ca = as_mapping(known).get(CA_FACT)
        if isinstance(ca, str) and ca:
            return ca
    return ""


def _remember(work: _Work, outcome: Outcome, ca: str) -> None:
    for node in work.lab.nodes:
        # facts of a silent host stay as they are
        if ca and node.role == "control_plane" and node.name in outcome.facts:
            outcome.facts[node.name][CA_FACT] = ca


def _is_ready(outcome: Outcome, name: str) -> bool:
    return outcome.results.get(name, {}).get("status") == "ready"


def _waiting(reason: str) -> Refusal:
    return failed_join(f"not in the cluster: {reason}", "fix that first, then run again")
