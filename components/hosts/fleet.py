"""All hosts of a lab as one resource: target states in the inputs, actual states in the outputs."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from components.hosts.bootstrap.nodes import Nodes, without
from components.hosts.calls import Crew, HostCalls, Report
from components.hosts.changes import (
    changes,
    reboots_refused,
    resized,
    silent_text,
    upgrades_refused,
    vfs_refused,
)
from components.hosts.records import (
    Document,
    Facts,
    HostRecord,
    Records,
    mark_after,
    missed,
    plain,
    properties_of,
    record_before,
    same_layout,
    vfs_came,
    whole_hosts,
)
from components.hosts.repair import Outcome, Result, converge, observe, undo_all
from components.hosts.roll import Roll
from components.provider import log
from components.provider.base import SECRET, Failure, Properties, Resource
from components.ssh import credentials
from components.ssh.connection import answers
from stacks.base import LabError
from stacks.hosts import HostPolicy
from stacks.lab import Lab

GREETING_S = 2.0
RESTARTS = (
    "VFs are added or removed: their device plugin restarts, because it detects VFs only at start"
)


class FleetInputs(Properties):
    hosts: dict[str, HostRecord]
    """By name. A host that leaves is undone from what is recorded here."""
    shared: Document = Field(default_factory=dict)
    """Sections that the documents of all hosts have in common."""
    policy: HostPolicy
    """How far hosts are repaired, and whether they may be rebooted."""
    vf_layout: str
    """Mark of all VFs: when it changes, device plugins restart."""
    files: Annotated[str | None, SECRET] = None
    """Digest of the secrets on the hosts. A changed secret is installed, although no document
    changes.
    """
    reports: dict[str, Report] = Field(default_factory=dict)
    """What hosts printed in this run, where their command ran. No difference by themselves."""

    @model_validator(mode="before")
    @classmethod
    def _join_shared(cls, values: object) -> object:
        if not isinstance(values, Mapping) or not values.get("shared"):
            return values
        return {**values, "hosts": whole_hosts(values), "shared": {}}

    def plain(self) -> dict[str, JsonValue]:
        """With each shared section once: the state has the hosts twice, as inputs and as
        outputs.
        """
        without_hosts = self.model_copy(update={"hosts": {}})
        return Properties.plain(without_hosts) | properties_of(self.hosts)


class FleetState(FleetInputs):
    results: dict[str, Result]
    """Status of each host, with reason and hint where it is not ready."""
    facts: Facts
    """What each host reported."""


class Fleet(Resource[FleetInputs, FleetState]):
    """The hosts of a lab: checked after their commands, repaired, rebooted in a roll, undone."""

    delete_before_replace = True

    async def check(self, old: FleetInputs | None, new: FleetInputs) -> list[Failure]:
        """Refuses in the preview what the lab does not allow, and warns of silent hosts."""
        reports = _reports(new)
        for name in await _silent(without(new.hosts, reports)):
            log.warn(silent_text(name, new.hosts[name].endpoint, GREETING_S))
        olds = old.hosts if old else {}
        failures = [Failure("versions", text) for text in upgrades_refused(olds, new.hosts)]
        if new.policy.reboot == "never":
            failures += [Failure("reboot", text) for text in reboots_refused(olds, new.hosts)]
        facts = await self._facts_now(olds, without(new.hosts, reports))
        failures += [Failure("vf_layout", text) for text in vfs_refused(olds, new.hosts, facts)]
        return failures

    async def diff(self, old: FleetState, new: FleetInputs) -> list[str]:
        """Reports what changes on which host, with the effect."""
        reports = _reports(new)
        facts = old.facts | await self._facts_now(old.hosts, without(new.hosts, reports))
        lines = [str(change) for change in changes(old.hosts, new.hosts, facts)]
        names = ["hosts", "shared"] if lines else []
        lacking = any(list(missed(old.hosts.get(name), host)) for name, host in new.hosts.items())
        if lacking or not same_layout(old.vf_layout, new.vf_layout):
            lines.append(RESTARTS)
            names.append("vf_layout")
        for line in lines:
            log.info(line)
        names += [name for name in ("policy", "files") if getattr(old, name) != getattr(new, name)]
        if any(report.failed for report in reports.values()):
            names.append("reports")
        return names

    async def create(self, new: FleetInputs) -> FleetState:
        """Checks the hosts after their commands have configured them."""
        return await self._converged({}, {}, None, new)

    async def read(self, old: FleetState) -> FleetState:
        """Reads all hosts; one that does not answer is data."""
        return old.model_copy(update={"hosts": await observe(self._hosts(), old.hosts, {})})

    def inputs_of(self, state: FleetState) -> FleetInputs:
        """The mark without its count, which is no input."""
        return state.model_copy(update={"vf_layout": plain(state.vf_layout)})

    async def update(self, old: FleetState, new: FleetInputs) -> FleetState:
        """Repairs what deviates, as far as the policy allows."""
        return await self._converged(old.hosts, old.facts, old.vf_layout, new)

    async def delete(self, old: FleetState) -> None:
        """Undoes all hosts. One that cannot be reached is reported and does not delay the
        others.
        """
        results = await undo_all(self._crew(old.policy), old.hosts, old.facts)
        failed: list[str] = []
        for name, result in results.items():
            if result["status"] in ("unreachable", "left"):
                log.warn(f"{name}: {result['reason']}")
            elif result["status"] == "failed":
                failed.append(f"{name}: {result['reason']}; {result.get('hint', '')}")
        if failed:
            raise LabError("\n".join(["some hosts could not be undone:", *failed]))

    async def _converged(
        self, olds: Records, facts: Facts, mark: str | None, new: FleetInputs
    ) -> FleetState:
        outcome = await self._work(olds, facts, new)
        for name, result in sorted(outcome.results.items()):
            if result["status"] not in ("ready", "drained", "undone"):
                log.warn(
                    f"{name}: {result['status']}: {result['reason']}; {result.get('hint', '')}"
                )
        came = vfs_came(olds, outcome.records, outcome.deviations)
        known = dict(new) | {
            "hosts": outcome.records,
            "vf_layout": mark_after(mark, new.vf_layout, came),
            "reports": {},
        }
        return FleetState(**known, results=outcome.results, facts=_remembered(outcome, facts))

    async def _work(self, olds: Records, facts: Facts, new: FleetInputs) -> Outcome:
        crew = self._crew(new.policy)
        nodes = Nodes(crew, new.hosts, self._way_in)
        kept = await nodes.part(olds, new.hosts, facts)
        news = without(new.hosts, kept)
        outcome = await converge(crew, without(olds, kept), news, facts, _reports(new))
        await nodes.parted(kept, outcome)
        waiting, returned = [], []
        for name, result in sorted(outcome.results.items()):
            if result["status"] == "needs_reboot":
                waiting.append(name)
            elif name in olds and olds[name].trouble and _works(result):
                returned.append(name)
        if (waiting or returned) and new.policy.reboot == "roll":
            config = credentials.kubeconfig(self.config.lab, self.config.get, Path.cwd())
            drainer = await nodes.drainer(config, facts)
            active = {name: host for name, host in new.hosts.items() if host.state == "active"}
            roll = Roll(crew=crew, records=active, drainer=drainer)
            await roll.reopen(returned)
            await roll.run(waiting, outcome)
        await nodes.unite(new.hosts, outcome, facts)
        return outcome

    async def _facts_now(self, olds: Records, news: Records) -> Facts:
        """Facts of hosts whose number of VFs changes: which VFs pods use at this moment."""
        affected: dict[str, HostRecord] = {}
        for name, host in news.items():
            old = record_before(olds, name, host)
            if old and old.state == host.state == "active" and list(resized(old, host)):
                affected[name] = host
        facts: Facts = {}
        if affected:
            await observe(self._hosts(), affected, facts)
        return facts

    def _way_in(self) -> tuple[Lab, credentials.Login]:
        lab = self.config.lab
        return lab, credentials.login_to(lab, Path.cwd(), self.config.get)

    def _crew(self, policy: HostPolicy) -> Crew:
        return Crew(hosts=self._hosts(), policy=policy, say=log.info)

    def _hosts(self) -> HostCalls:
        key = credentials.private_key(self.config.lab, self.config.get, Path.cwd())
        return HostCalls(key, log.info)


def _works(result: Result) -> bool:
    """Whether a host is ready and its peers on the rails answer."""
    return result["status"] == "ready" and "warning" not in result


def _reports(new: FleetInputs) -> dict[str, Report]:
    """The reports of this run; none in a preview, which does not know them."""
    return {} if "reports" in new.unknown else new.reports


async def _silent(hosts: Records) -> list[str]:
    places = {name: host.endpoint for name, host in hosts.items() if host.state == "active"}
    greetings = [answers(place.address, place.port, GREETING_S) for place in places.values()]
    answered = await asyncio.gather(*greetings)
    return [name for name, is_here in zip(places, answered, strict=True) if not is_here]


def _remembered(outcome: Outcome, before: Facts) -> Facts:
    """Facts of all hosts, earlier ones of silent hosts, and how often each was repaired."""
    facts: Facts = {}
    for name in outcome.records:
        old = before.get(name)
        earlier = old if isinstance(old, dict) else {}
        known = outcome.facts.get(name) or earlier
        if known:
            repairs = earlier.get("repairs", 0)
            count = repairs if isinstance(repairs, int) else 0
            facts[name] = {**known, "repairs": count + (name in outcome.repaired)}
    return facts
