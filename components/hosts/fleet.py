"""All hosts of a lab as one resource: target states in the inputs, actual states in the outputs.

Every state contains the path of this module, so it must not move.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from components.hosts.bootstrap.nodes import Nodes, without
from components.hosts.calls import HostCalls, Report
from components.hosts.changes import changes, reboots_refused, silent_text, upgrades_refused, vfs_refused
from components.hosts.records import (
    PREFIX,
    Facts,
    HostRecord,
    mark_after,
    missed,
    plain,
    properties_of,
    records_of,
    same_layout,
    vfs_came,
)
from components.hosts.repair import Crew, Outcome, Roll, converge, observe, undo_all
from components.ssh import credentials
from components.ssh.configured import Configured, plainly
from components.ssh.connection import answers
from stacks.base import LabError
from stacks.hosts import HostPolicy
from stacks.lab import Lab

Props = dict[str, object]

GREETING_S = 2.0
OUTPUTS = ("results", "facts")
SEEN_NOW: Facts = {}
"""What the hosts reported at the refresh of this run. A refresh cannot keep it in the state: facts that change
with every pod would show as drift."""
CONFIRMED: dict[str, Report] = {}
"""What the hosts reported when they were confirmed in this run; `check` keeps it out of inputs and state."""


class FleetProvider(Configured, ResourceProvider):
    """The engine's view of the hosts; `repair` and `roll` do the work, `changes` writes the messages."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Refuses in the preview what the lab does not allow, and warns of hosts that do not answer."""
        CONFIRMED.clear()
        CONFIRMED.update(_reports(news.pop("confirmed", None)))
        records = records_of(news)
        for name in asyncio.run(_silent(without(records, CONFIRMED))):
            pulumi.log.warn(silent_text(name, records[name].endpoint, GREETING_S))
        failures = [CheckFailure("versions", text) for text in upgrades_refused(records_of(_olds), records)]
        if _policy(news).reboot == "never":
            refused = reboots_refused(records_of(_olds), records)
            # the engine prints the property's value before the reason, so this names a short property
            failures += [CheckFailure("reboot", text) for text in refused]
        failures += [CheckFailure("vf_layout", text) for text in vfs_refused(records_of(_olds), records, SEEN_NOW)]
        return CheckResult(news, failures)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Reports what changes on which host, with the effect."""
        seen, target = records_of(_olds), records_of(_news)
        lines = [str(change) for change in changes(seen, target, {**_facts(_olds), **SEEN_NOW})]
        lacking = any(list(missed(seen.get(name), new)) for name, new in target.items())
        if lacking or not same_layout(_olds.get("vf_layout"), _news.get("vf_layout")):
            lines.append("VFs are added or removed: their device plugin restarts, because it detects VFs only at start")
        for line in lines:
            pulumi.log.info(line)
        others = {key for key in _news if not key.startswith((PREFIX, "__")) and key not in (*OUTPUTS, "vf_layout")}
        return DiffResult(changes=bool(lines) or any(_olds.get(key) != _news[key] for key in others))

    @plainly()
    def create(self, props: Props) -> CreateResult:
        """Checks the hosts after their commands have configured them."""
        return CreateResult("fleet", self._converged({}, props))

    @plainly()
    def read(self, id_: str, props: Props) -> ReadResult:
        """Reads all hosts; one that does not answer is data."""
        seen = properties_of(asyncio.run(observe(self._hosts(), records_of(props), SEEN_NOW)))
        outs = {**props, **seen}
        inputs = {key: value for key, value in outs.items() if key not in OUTPUTS and not key.startswith("__")}
        if "vf_layout" in inputs:  # else each refresh would show the count as a changed input
            inputs["vf_layout"] = plain(inputs["vf_layout"])
        return ReadResult(id_, outs, inputs)

    @plainly()
    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Repairs what deviates, as far as the policy allows."""
        return UpdateResult(self._converged(_olds, _news))

    @plainly()
    def delete(self, _id: str, _props: Props) -> None:
        """Undoes all hosts. One that cannot be reached is reported and does not delay the others."""
        crew = self._crew(_policy(_props))
        results = asyncio.run(undo_all(crew, records_of(_props), _facts(_props)))
        for name, result in results.items():
            if result["status"] in ("unreachable", "left"):
                pulumi.log.warn(f"{name}: {result['reason']}")
        failed = [
            f"{name}: {result['reason']}; {result.get('hint', '')}"
            for name, result in results.items()
            if result["status"] == "failed"
        ]
        if failed:
            raise LabError("\n".join(["some hosts could not be undone:", *failed]))

    def _converged(self, olds: Props, news: Props) -> Props:
        policy, before = _policy(news), _facts(olds)
        outcome = asyncio.run(self._work(policy, records_of(olds), records_of(news), before))
        for name, result in sorted(outcome.results.items()):
            if result["status"] not in ("ready", "drained", "undone"):
                pulumi.log.warn(f"{name}: {result['status']}: {result['reason']}; {result.get('hint', '')}")
        came = vfs_came(records_of(olds), outcome.records, outcome.found_wrong)
        return {
            **news,
            **properties_of(outcome.records),
            "vf_layout": mark_after(olds.get("vf_layout"), news["vf_layout"], came),
            "results": json.dumps(outcome.results, sort_keys=True),
            "facts": json.dumps(_remembered(outcome, before), sort_keys=True),
        }

    async def _work(
        self, policy: HostPolicy, olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord], facts: Facts
    ) -> Outcome:
        crew = self._crew(policy)
        nodes = Nodes(crew, news, self._way_in)
        kept = await nodes.part(olds, news, facts)
        confirmed = {name: CONFIRMED.pop(name) for name in list(CONFIRMED)}
        outcome = await converge(crew, without(olds, kept), without(news, kept), facts, confirmed)
        await nodes.parted(kept, outcome)
        waiting = sorted(name for name, result in outcome.results.items() if result["status"] == "needs_reboot")
        if waiting and policy.reboot == "roll":
            config = credentials.kubeconfig(self._way_in()[0], self._setting, Path.cwd())
            drainer = await nodes.drainer(config, facts)
            active = {name: record for name, record in news.items() if record.state == "active"}
            await Roll(crew=crew, records=active, drainer=drainer).run(waiting, outcome)
        await nodes.unite(news, outcome, facts)
        return outcome

    def _way_in(self) -> tuple[Lab, credentials.Login]:
        lab = credentials.configured_lab(self._setting)
        return lab, credentials.login_to(lab, Path.cwd(), self._setting)

    def _crew(self, policy: HostPolicy) -> Crew:
        return Crew(hosts=self._hosts(), policy=policy, say=pulumi.log.info)

    def _hosts(self) -> HostCalls:
        lab = credentials.configured_lab(self._setting)
        return HostCalls(credentials.private_key(lab, self._setting, Path.cwd()), pulumi.log.info)


class Fleet(Resource, module="hosts", name="Fleet"):
    """The hosts of a lab: checked after their commands, repaired, rebooted in a roll, undone when they leave."""

    results: pulumi.Output[str]
    """JSON: status of each host, with reason and hint where it is not ready."""
    facts: pulumi.Output[str]
    """JSON: what each host reported."""
    vf_layout: pulumi.Output[str]
    """Mark of the VFs that a device plugin finds (see `mark_after`); known once they exist."""

    def __init__(
        self,
        name: str,
        records: Mapping[str, HostRecord],
        policy: HostPolicy,
        marks: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            **properties_of(records),
            "policy": policy.model_dump_json(),
            "reboot": policy.reboot,
            **marks,
            "results": None,
            "facts": None,
        }
        super().__init__(FleetProvider(), name, props, opts)


async def _silent(records: Mapping[str, HostRecord]) -> list[str]:
    active = [name for name, record in records.items() if record.state == "active"]
    greeted = await asyncio.gather(
        *(answers(records[name].endpoint.address, records[name].endpoint.port, GREETING_S) for name in active)
    )
    return [name for name, answered in zip(active, greeted, strict=True) if not answered]


def _policy(props: Mapping[str, object]) -> HostPolicy:
    text = props.get("policy")
    return HostPolicy.model_validate_json(text) if isinstance(text, str) else HostPolicy()


def _facts(props: Mapping[str, object]) -> Facts:
    text = props.get("facts")
    found = json.loads(text) if isinstance(text, str) else {}
    return found if isinstance(found, dict) else {}


def _reports(confirmed: object) -> dict[str, Report]:
    """The reports in the input; none in a preview, which does not know them."""
    found = json.loads(confirmed) if isinstance(confirmed, str) and confirmed.startswith("{") else {}
    return {name: Report(**report) for name, report in found.items()}


def _remembered(outcome: Outcome, before: Facts) -> Facts:
    """Facts of all hosts, earlier ones for hosts that do not answer, and how often each was repaired."""
    facts: Facts = {}
    for name in outcome.records:
        old = before.get(name)
        known = outcome.facts.get(name) or (old if isinstance(old, dict) else {})
        repairs = old.get("repairs", 0) if isinstance(old, dict) else 0
        if known:
            count = int(repairs) if isinstance(repairs, int | float) else 0
            facts[name] = {**known, "repairs": count + (name in outcome.repaired)}
    return facts
