"""What holds for every switch OS that a lab file can name; a new one is in here by being in the model.

Above all: a change makes a port conform, a repeat sends nothing, and a restore gives back what was there.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from operator import getitem
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.switches.dialect import AnswerError, Dialect
from components.switches.os import dialect_of
from components.switches.records import switch_record, task_of
from components.switches.settings import cables_of, differences
from components.switches.work import SwitchOutcome, configure, observe, restore
from stacks.base import members
from stacks.qos import Qos
from stacks.switches import Switch
from tests.components.switches.labs import switch_entry, with_switches
from tests.components.switches.systems import (
    BACK,
    CANCEL,
    MTU,
    ORDER,
    PORTS,
    REFUSALS,
    RESTORED,
    SAMPLES,
    UNCONFIGURED,
    WRONG,
    answers_of,
)

SYSTEMS = tuple(members(Switch, "os"))


def test_every_os_has_ports_samples_wrong_values_and_an_order_of_commands() -> None:
    for table in (PORTS, WRONG, UNCONFIGURED, ORDER, BACK, CANCEL, MTU):
        assert set(table) == set(SYSTEMS)
    assert {file.stem for file in SAMPLES.glob("*.json")} == set(SYSTEMS)
    dialects = {system: dialect_of(first_port(system)[1]) for system in SYSTEMS}
    command_lines = {system for system in SYSTEMS if dialects[system].session("lab", 300).talk == "cli"}
    assert set(REFUSALS) == command_lines


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_kind_of_profile_is_in_the_table_of_restored_ones(system: str) -> None:
    _, switch, cable = first_port(system)
    profiles = dialect_of(switch).facts(cable.port, answers_of(system), cable.settings).settings.profiles

    assert set(RESTORED.get(system, {})) == set(profiles)


@pytest.mark.parametrize("system", REFUSALS)
def test_a_command_line_recognizes_its_refusals_and_takes_no_answer_for_one(system: str) -> None:
    refusal = dialect_of(first_port(system)[1]).session("lab", 300).refusal

    for printed, reason in REFUSALS[system]:
        found = refusal.search(printed)
        assert found is not None, printed
        assert found[1].strip() == reason
    assert [command for command, answer in answers_of(system).items() if refusal.search(answer)] == []


def first_port(system: str):
    lab = with_switches(switch_entry(system), qos={"mode": "lossless"})
    return lab, lab.switches[0], cables_of(lab, lab.switches[0])[0]


class Conforming:
    """A switch that is as the samples have it; it remembers what is sent to it."""

    def __init__(self, system: str) -> None:
        self.answers, self.sent = answers_of(system), []

    async def ask(self, command: str) -> str:
        if command not in self.answers:
            self.sent.append(command)
        return self.answers.get(command, "")


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_switch_that_conforms_is_sent_nothing_however_often_it_is_looked_at(system: str) -> None:
    lab, switch, cable = first_port(system)
    talk = Conforming(system)
    task = task_of(switch_record(lab, switch, "ssh-ed25519 AAAA"), {cable.port: cable.settings}, lab)

    async def twice() -> list[SwitchOutcome]:
        return [await configure(talk, task, lambda _: None) for _ in range(2)]

    assert [outcome.changed for outcome in asyncio.run(twice())] == [(), ()]
    assert set(talk.sent) <= listing(dialect_of(switch))


class Settable(Conforming):
    """A switch whose first port has another MTU, until the command for it is sent."""

    def __init__(self, system: str) -> None:
        super().__init__(system)
        where, what, by, *_ = WRONG[system][0]
        good = self.answers
        wrong = {command: text.replace(what, by) if where in command else text for command, text in good.items()}
        self.states = dict(zip(MTU[system], (good, wrong), strict=True))
        self.answers = wrong

    async def ask(self, command: str) -> str:
        self.answers = self.states.get(command, self.answers)
        return await super().ask(command)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_change_conforms_a_repeat_sends_nothing_and_a_restore_gives_the_old_value_back(system: str) -> None:
    lab, switch, cable = first_port(system)
    talk = Settable(system)
    task = task_of(switch_record(lab, switch, "ssh-ed25519 AAAA"), {cable.port: cable.settings}, lab)

    async def work() -> None:
        before = await observe(talk, task.dialect, task.ports)
        changed = (await configure(talk, task, lambda _: None)).changed
        made = await observe(talk, task.dialect, task.ports)
        to_change, talk.sent = talk.sent, []
        repeated = (await configure(talk, task, lambda _: None)).changed
        to_repeat, talk.sent = talk.sent, []
        restored = await restore(talk, task, {port: facts.settings for port, facts in before.items()})

        assert [line.split(" => ")[0] for line in changed] == [f"{cable.port} mtu_bytes {WRONG[system][0][4]}"]
        assert list(differences(cable.settings, made[cable.port].settings)) == []
        assert MTU[system][0] in to_change
        assert repeated == ()
        assert set(to_repeat) <= listing(task.dialect)
        assert restored == [f"{cable.port}: restored"]
        assert MTU[system][1] in talk.sent
        assert await observe(talk, task.dialect, task.ports) == before

    asyncio.run(work())


def listing(dialect: Dialect) -> set[str]:
    """The look for changes that an earlier run left, where the OS keeps them apart."""
    pending = dialect.session("lab", 300).pending
    return {pending.listing} if pending else set()


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_field_of_a_port_has_a_command_and_no_field_has_none(system: str) -> None:
    _, switch, cable = first_port(system)
    dialect = dialect_of(switch)
    nothing = dialect.port_lines("lab", cable.port, cable.settings, frozenset())
    switch_wide = " ".join(dialect.global_lines(Qos(mode="lossless")))

    for field in cable.settings.fields():
        lines = dialect.port_lines("lab", cable.port, cable.settings, frozenset({field}))
        assert lines != nothing or field.partition("_")[2] in switch_wide, field
    assert not any(word in " ".join(nothing) for word in ("mtu", "vlan", "description"))


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_earlier_settings_can_be_written_again(system: str) -> None:
    """An undo sends the found values back: each of them has a command, also those that a lab never asks for.

    Exceptions are settings of the whole switch, and a value inside a profile: there the undo names the earlier profile,
    which `RESTORED` proves.
    """
    _, switch, cable = first_port(system)
    dialect = dialect_of(switch)
    nothing = dialect.port_lines("lab", cable.port, cable.settings, frozenset())
    of_profiles = {field for fields, *_ in RESTORED.get(system, {}).values() for field in fields}
    for where, what, by, field, _ in WRONG[system]:
        broken = {c: text.replace(what, by) if where in c else text for c, text in answers_of(system).items()}
        before = dialect.facts(cable.port, broken, cable.settings).settings
        assert field in {each.field for each in differences(cable.settings, before)}
        ours = dialect.port_lines("lab", cable.port, cable.settings, frozenset({field}))
        shared = ours == nothing or field in of_profiles
        assert shared or dialect.port_lines("lab", cable.port, before, frozenset({field})) != ours, field


@pytest.mark.parametrize("system", SYSTEMS)
def test_commands_are_single_lines_and_never_look_like_comments(system: str) -> None:
    _, switch, cable = first_port(system)
    dialect = dialect_of(switch)
    session = dialect.session("lab", 300)
    commands = [
        *(
            *session.hello,
            *session.begin,
            *session.commit,
            *session.confirm,
            *session.end,
            *session.save,
        ),
        *dialect.vlan_lines([111, 4094]),
        *dialect.shared_lines("lab", [cable.settings]),
        *dialect.port_lines("lab", cable.port, cable.settings, frozenset(cable.settings.fields())),
        *dialect.global_lines(Qos(mode="lossless")),
        *dialect.questions([cable.port]),
        dialect.lldp_table,
        *dialect.checks([cable.port]),
        dialect.backup(),
    ]

    for command in commands:
        assert command == command.strip() != "", command
        assert command.isprintable(), command
        assert not command.startswith(dialect.comment), command


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_damaged_answer_is_an_error_of_the_answer_and_never_a_crash(system: str) -> None:
    _, switch, cable = first_port(system)
    dialect, good = dialect_of(switch), answers_of(system)
    refused = 0

    @given(command=st.sampled_from(sorted(good)), data=st.data())
    def check(command: str, data: st.DataObject) -> None:
        nonlocal refused
        damaged = data.draw(damage(good[command]))
        try:
            dialect.facts(cable.port, {**good, command: damaged}, cable.settings)
            dialect.neighbour(cable.port, {**good, command: damaged})
        except AnswerError:
            refused += 1

    check()
    assert refused


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_answer_that_lacks_a_key_or_has_another_value_there_is_never_a_crash(system: str) -> None:
    _, switch, cable = first_port(system)
    dialect, good = dialect_of(switch), answers_of(system)
    asked = [*dialect.questions([cable.port]), *([dialect.lldp_table] if dialect.lldp_table else [])]

    for command in asked:
        for damaged in changed_in_one_place(good[command]):
            with suppress(AnswerError):
                dialect.facts(cable.port, {**good, command: damaged}, cable.settings).settings.fields()
                dialect.neighbour(cable.port, {**good, command: damaged})


def damage(text: str) -> st.SearchStrategy[str]:
    """What a broken connection leaves of an answer, answers to other questions, and those of another release."""
    cuts = st.integers(0, len(text))
    others = st.sampled_from(["null", "[]", '"x"', "{}", "% Invalid input", text.replace("{", "[")])
    return st.one_of(cuts.map(lambda cut: text[:cut]), cuts.map(lambda cut: text[cut:]), others)


OTHER_VALUES = ("N/A", "", 7, [], {}, None)
"""What another release may print in the place of a value."""


def changed_in_one_place(text: str) -> Iterator[str]:
    """The answer without one of its keys, or with another value there; other text without one of its lines."""
    try:
        content = json.loads(text)
    except ValueError:
        lines = text.splitlines(keepends=True)
        yield from ("".join(lines[:at] + lines[at + 1 :]) for at in range(len(lines)))
        return
    for *way, last in ways(content):
        holder = reduce(getitem, way, content)
        original = holder[last]
        for value in OTHER_VALUES:
            holder[last] = value
            yield json.dumps(content)
        del holder[last]
        yield json.dumps(content)
        if isinstance(holder, list):
            holder.insert(last, original)
        else:
            holder[last] = original


def ways(content: Any) -> list[tuple[Any, ...]]:
    """How to reach each key and element."""
    steps = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [way for step, inner in steps for way in ((step,), *((step, *rest) for rest in ways(inner)))]
