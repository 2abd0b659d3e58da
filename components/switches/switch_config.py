"""The mapped ports of one switch as a resource: inputs as declared, state as on the switch."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from components.provider import log
from components.provider.base import Failure, Properties, Resource, changed
from components.ssh import credentials
from components.ssh.connection import NoAnswerError, keys_of
from components.switches import backup
from components.switches.backup import FirstTouch
from components.switches.dialect import AnswerError, RefusedError
from components.switches.records import Ports, SwitchRecord, task_of
from components.switches.settings import PortFacts, PortSettings, differences
from components.switches.talk import Talk, talking
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
from stacks.words import plural

MOST_LINES = 60


class SwitchConfigInputs(Properties):
    record: SwitchRecord
    ports: Ports
    """Settings of each mapped port."""


class SwitchConfigState(SwitchConfigInputs):
    before: Ports
    """Settings of each port before rocelab changed it: what a destroy restores."""
    backup: str
    """File with the running configuration before the last change."""
    changes: int
    """Number of changes on the switch."""
    neighbours: dict[str, str]
    """LLDP neighbor by port; empty for a port without one."""


class SwitchConfig(Resource[SwitchConfigInputs, SwitchConfigState]):
    """The mapped ports of one switch; a port that leaves the map is restored.

    Thin: `work` has the steps, the dialects have the commands.
    """

    delete_before_replace = True

    async def check(self, old: SwitchConfigInputs | None, new: SwitchConfigInputs) -> list[Failure]:
        """Before the first change: shows what would change, and refuses ports of others."""
        if old is not None:  # diff reports it from the state
            return []
        name = new.record.switch.name
        try:
            facts = await self._look(new)
        except NoAnswerError as error:
            log.warn(f"{error}; to skip it, set switches[].apply: false")
            return []
        except LabError as error:
            return [Failure("ports", f"{name}: {error}")]
        refused = refusals(task_of(new.record, new.ports, self.config.lab), facts)
        now = {port: fact.settings for port, fact in facts.items()}
        _log(change_lines(name, now, new.ports))
        return [Failure("ports", f"{name}: {text}") for text in refused]

    async def diff(self, old: SwitchConfigState, new: SwitchConfigInputs) -> list[str]:
        _log(change_lines(new.record.switch.name, old.ports, new.ports))
        return changed(old, new)

    async def create(self, new: SwitchConfigInputs) -> SwitchConfigState:
        empty = SwitchConfigState(**dict(new), before={}, backup="", changes=0, neighbours={})
        return await self._converged(empty, new.record, new)

    def identify(self, state: SwitchConfigState) -> str:
        return state.record.switch.name

    async def read(self, old: SwitchConfigState) -> SwitchConfigState:
        """Reads the ports, and warns of moved cables. A silent switch keeps its last values."""
        name = old.record.switch.name
        try:
            facts = await self._look(old)
        except (NoAnswerError, RefusedError, AnswerError) as error:
            log.warn(f"{name}: its ports are shown as last seen: {error}")
            facts = {port: PortFacts(settings) for port, settings in old.ports.items()}
        for text in refusals(task_of(old.record, old.ports, self.config.lab), facts):
            log.warn(f"{name}: {text}")
        ports = {port: _comparable(fact.settings, old.ports[port]) for port, fact in facts.items()}
        return old.model_copy(update={"ports": ports})

    async def update(self, old: SwitchConfigState, new: SwitchConfigInputs) -> SwitchConfigState:
        """Sets what differs, and restores ports that left the map."""
        record = new.record
        if record.global_lines == old.record.global_lines:
            record = record.model_copy(update={"global_lines": ()})
        left = {}
        for port, settings in old.before.items():
            if port not in new.ports:
                left[port] = settings
        if left:
            await self._restored(old.record, left)
        return await self._converged(old, record, new)

    async def delete(self, old: SwitchConfigState) -> None:
        """Restores every port. A switch that does not answer stays in the state."""
        lines = await self._restored(old.record, old.before)
        _log(f"{old.record.switch.name} {line}" for line in lines)

    async def _converged(
        self, old: SwitchConfigState, record: SwitchRecord, new: SwitchConfigInputs
    ) -> SwitchConfigState:
        kept: list[str] = []
        outcome = await self._configured(task_of(record, new.ports, self.config.lab), record, kept)
        if outcome.changed:  # each was logged before
            count = plural(len(outcome.changed), "setting")
            log.info(f"{record.switch.name}: {count} changed and verified")
        first = {port: settings for port, settings in old.before.items() if port in new.ports}
        backup = kept[0] if kept else old.backup
        return SwitchConfigState(
            **dict(new),
            before=merged(first, outcome.before),
            backup=backup,
            changes=old.changes + bool(outcome.changed),
            neighbours={port: _neighbour(facts) for port, facts in outcome.facts.items()},
        )

    async def _configured(self, task: Task, record: SwitchRecord, kept: list[str]) -> SwitchOutcome:
        folder = self._folder()

        def keep(text: str) -> None:
            kept.append(backup.write_backup(folder, record.switch.name, text))

        async with self._talking(record) as talk:
            try:
                return await configure(talk, task, keep, FirstTouch(folder, record.switch.name))
            except LabError as error:
                if not kept:
                    raise
                place = folder / kept[0]
                raise LabError(f"{error}\nThe configuration from before is in {place}.") from None

    async def _restored(self, record: SwitchRecord, before: Ports) -> list[str]:
        async with self._talking(record) as talk:
            done = await restore(talk, task_of(record, before, None), before)
        FirstTouch(self._folder(), record.switch.name).drop(before)
        return done

    async def _look(self, config: SwitchConfigInputs) -> dict[str, PortFacts]:
        record = config.record
        async with self._talking(record) as talk:
            for warning in await unconfirmed(talk, record.switch.name, record.session):
                log.warn(warning)
            facts = await observe(talk, record.dialect, config.ports)
        for warning in unheard(record.switch.name, facts):
            log.warn(warning)
        return facts

    def _talking(self, record: SwitchRecord) -> AbstractAsyncContextManager[Talk]:
        keys = keys_of(credentials.private_key(self.config.lab, self.config.get, Path.cwd()))
        return talking(record.endpoint, keys, record.switch.name, record.session)

    def _folder(self) -> Path:
        lab = self.config.lab
        return backup.folder_of(lab.name, Path.cwd(), simulated=lab.simulated)


def _log(lines: Iterable[str]) -> None:
    """Logs the first lines; the diff of the resource has all."""
    known = list(lines)
    for line in known[:MOST_LINES]:
        log.info(line)
    if len(known) > MOST_LINES:
        log.info(f"and {len(known) - MOST_LINES} more")


def change_lines(name: str, before: Ports, after: Ports) -> Iterator[str]:
    """One line per port and field, `sw1 1/1: mtu_bytes 1500 => 9216`."""
    for port, declared in after.items():
        if port not in before:
            yield f"{name} {port}: joins"
            continue
        for difference in differences(declared, before[port]):
            values = f"{difference.actual or 'none'} => {difference.expected}"
            yield f"{name} {port}: {difference.field} {values}"
    for port in before:
        if port not in after:
            yield f"{name} {port}: leaves: its earlier settings are restored"


def _comparable(actual: PortSettings, declared: PortSettings) -> PortSettings:
    """The found settings in the form of the declared ones: equal when every declared field is."""
    if not list(differences(declared, actual)):
        return declared
    return actual.model_copy(update={"profiles": {}})


def _neighbour(facts: PortFacts) -> str:
    if facts.neighbour is None:
        return ""
    return f"{facts.neighbour.system} {' '.join(sorted(facts.neighbour.port_names))}"
