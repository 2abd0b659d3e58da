"""The mapped ports of one switch as a resource: declared settings in the inputs, settings on the switch in the outputs.

The state contains the path of this module, so it must not move.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
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

from components.ssh import credentials
from components.ssh.configured import Configured, plainly
from components.ssh.connection import Keys, NoAnswerError, keys_of
from components.switches import backup
from components.switches.backup import FirstTouch
from components.switches.dialect import AnswerError, RefusedError
from components.switches.records import (
    SwitchRecord,
    before_of,
    ports_of,
    properties_of,
    record_of,
    task_of,
)
from components.switches.settings import PortFacts, PortSettings, differences, ports_text
from components.switches.talk import talking
from components.switches.work import (
    SwitchOutcome,
    Task,
    configure,
    merged,
    observe,
    refusals,
    restore,
    unconfirmed,
    unheard,
)
from stacks.base import LabError
from stacks.lab import Lab
from stacks.words import plural

Props = dict[str, object]

MOST_SAID = 60
OUTPUTS = ("before", "backup", "changes", "neighbours")


class SwitchConfigProvider(Configured, ResourceProvider):
    """Thin: `work` has the steps, the dialects have the commands."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Before the first change of a switch: shows what would change, and refuses ports of others."""
        if _olds:  # diff reports it from the state
            return CheckResult(news, [])
        record, declared = record_of(news), ports_of(news)
        try:
            found = asyncio.run(self._look(record, declared))
        except NoAnswerError as error:
            pulumi.log.warn(f"{error}; to skip it, set switches[].apply: false")
            return CheckResult(news, [])
        except LabError as error:
            return CheckResult(news, [CheckFailure("ports", f"{record.switch.name}: {error}")])
        said = refusals(task_of(record, declared, self._lab()), found)
        now = properties_of({port: facts.settings for port, facts in found.items()})
        _say(change_lines({**news, **now}, news))
        return CheckResult(news, [CheckFailure("ports", f"{record.switch.name}: {text}") for text in said])

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        _say(change_lines(_olds, _news))
        plain = {key for key in {*_olds, *_news} if not key.startswith("__") and key not in OUTPUTS}
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in plain))

    @plainly()
    def create(self, props: Props) -> CreateResult:
        return CreateResult(record_of(props).switch.name, self._converged({}, props))

    @plainly()
    def read(self, id_: str, props: Props) -> ReadResult:
        """Reads the ports, and warns of moved cables. A switch that cannot be read keeps its last values."""
        record, ports = record_of(props), ports_of(props)
        try:
            found = asyncio.run(self._look(record, ports))
        except (NoAnswerError, RefusedError, AnswerError) as error:
            pulumi.log.warn(f"{record.switch.name}: its ports are shown as last seen: {error}")
            found = {port: PortFacts(settings) for port, settings in ports.items()}
        for text in refusals(task_of(record, ports, self._lab()), found):
            pulumi.log.warn(f"{record.switch.name}: {text}")
        seen = properties_of({port: _comparable(facts.settings, ports[port]) for port, facts in found.items()})
        outs = {**props, **seen}
        inputs = {key: value for key, value in outs.items() if key not in OUTPUTS and not key.startswith("__")}
        return ReadResult(id_, outs, inputs)

    @plainly()
    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Sets what differs, and restores ports that left the map."""
        return UpdateResult(self._converged(_olds, _news))

    @plainly()
    def delete(self, _id: str, _props: Props) -> None:
        """Restores every port. A switch that does not answer stays in the state."""
        record = record_of(_props)
        _say(f"{record.switch.name} {line}" for line in asyncio.run(self._restored(record, before_of(_props))))

    def _converged(self, olds: Props, news: Props) -> Props:
        record, declared, before = record_of(news), ports_of(news), before_of(olds)
        sent = record_of(olds).global_lines if olds else ()
        if record.global_lines == sent:
            record = record.model_copy(update={"global_lines": ()})
        left = {port: settings for port, settings in before.items() if port not in declared}
        if left:
            asyncio.run(self._restored(record_of(olds), left))
        kept: list[str] = []
        outcome = asyncio.run(self._configured(task_of(record, declared, self._lab()), record, kept))
        if outcome.changed:  # each was logged before
            pulumi.log.info(f"{record.switch.name}: {plural(len(outcome.changed), 'setting')} changed and verified")
        changes = int(str(olds.get("changes") or 0)) + bool(outcome.changed)
        first = {port: settings for port, settings in before.items() if port in declared}
        return {
            **news,
            "before": ports_text(merged(first, outcome.before)),
            "backup": kept[0] if kept else str(olds.get("backup") or ""),
            "changes": str(changes),
            "neighbours": json.dumps(_neighbours(outcome.found), sort_keys=True),
        }

    async def _configured(self, task: Task, record: SwitchRecord, kept: list[str]) -> SwitchOutcome:
        folder = self._folder()

        def keep(text: str) -> None:
            kept.append(backup.write_backup(folder, record.switch.name, text))

        async with talking(record.endpoint, self._keys(), record.switch.name, record.session) as talk:
            return await configure(talk, task, keep, FirstTouch(folder, record.switch.name))

    async def _restored(self, record: SwitchRecord, before: Mapping[str, PortSettings]) -> list[str]:
        async with talking(record.endpoint, self._keys(), record.switch.name, record.session) as talk:
            done = await restore(talk, task_of(record, before, None), before)
        FirstTouch(self._folder(), record.switch.name).drop(before)
        return done

    async def _look(self, record: SwitchRecord, ports: Mapping[str, PortSettings]) -> dict[str, PortFacts]:
        async with talking(record.endpoint, self._keys(), record.switch.name, record.session) as talk:
            for warning in await unconfirmed(talk, record.switch.name, record.session):
                pulumi.log.warn(warning)
            found = await observe(talk, record.dialect, ports)
        for warning in unheard(record.switch.name, found):
            pulumi.log.warn(warning)
        return found

    def _folder(self) -> Path:
        lab = self._lab()
        return backup.folder_of(lab.name, Path.cwd(), simulated=lab.simulated)

    def _lab(self) -> Lab:
        return credentials.configured_lab(self._setting)

    def _keys(self) -> Keys:
        return keys_of(credentials.private_key(self._lab(), self._setting, Path.cwd()))


class SwitchConfig(Resource, module="switches", name="SwitchConfig"):
    """The mapped ports of one switch; a port that leaves the map is restored."""

    changes: pulumi.Output[str]
    """Number of changes on the switch."""
    backup: pulumi.Output[str]
    """File with the running configuration before the last change."""
    neighbours: pulumi.Output[str]
    """JSON: LLDP neighbor by port; null without one."""

    def __init__(
        self,
        name: str,
        record: SwitchRecord,
        ports: Mapping[str, PortSettings],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            "record": record.model_dump_json(),
            **properties_of(ports),
            **dict.fromkeys(OUTPUTS),
        }
        super().__init__(SwitchConfigProvider(), name, props, opts)


def _say(lines: Iterable[str]) -> None:
    """Logs the first lines; the diff of the resource has all."""
    said = list(lines)
    for line in said[:MOST_SAID]:
        pulumi.log.info(line)
    if len(said) > MOST_SAID:
        pulumi.log.info(f"and {len(said) - MOST_SAID} more")


def change_lines(olds: Mapping[str, object], news: Mapping[str, object]) -> Iterator[str]:
    """One line per port and field, `sw1 1/1: mtu_bytes 1500 => 9216`."""
    name, before, after = record_of(news).switch.name, ports_of(olds), ports_of(news)
    for port, declared in after.items():
        if port not in before:
            yield f"{name} {port}: joins"
            continue
        for each in differences(declared, before[port]):
            yield f"{name} {port}: {each.field} {each.found or 'none'} => {each.expected}"
    yield from (f"{name} {port}: leaves: its earlier settings are restored" for port in before if port not in after)


def _comparable(found: PortSettings, declared: PortSettings) -> PortSettings:
    """The found settings in the form of the declared ones: equal when every declared field is."""
    return declared if not list(differences(declared, found)) else found.model_copy(update={"profiles": {}})


def _neighbours(found: Mapping[str, PortFacts]) -> dict[str, str | None]:
    return {
        port: f"{facts.neighbour.system} {' '.join(sorted(facts.neighbour.port_names))}" if facts.neighbour else None
        for port, facts in found.items()
    }
