"""Changing a switch over a real SSH connection: the simulator's Onyx in this process, on a port of its own."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from components.ssh.connection import Endpoint, NoAnswerError
from components.switches.backup import FirstTouch
from components.switches.dialect import RefusedError
from components.switches.talk import Talk, talking
from components.switches.work import NotOursError, SwitchOutcome, WrongValueError, configure, unheard
from simulator.switch.onyx import Console
from simulator.switch.ports import PortConfig
from stacks.lab import Lab
from tests.components.switches.rig import ADDRESS, Rig, refuse
from tests.messages import states, stating


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_ports_become_what_the_rails_ask_for(rig: Rig) -> None:
    outcome = rig.configure(rig.lab())

    assert rig.frames.configs["gpu01", "enp5s0"] == PortConfig(4094, frozenset({111}), 9216)
    assert rig.frames.configs["gpu02", "enp132s0"] == PortConfig(4093, frozenset({112}), 9216)
    assert "1/1 mtu_bytes 1500 => 9216" in outcome.changed
    assert "1/6 ecn_tc3 off => 150-1500 KB" in outcome.changed
    assert outcome.before["1/1"].mtu_bytes == 1500


def test_a_second_time_nothing_is_sent_and_nothing_is_backed_up(rig: Rig) -> None:
    rig.configure(rig.lab())
    rig.backups.clear()

    assert rig.configure(rig.lab()).changed == ()
    assert rig.backups == []


def test_only_what_differs_is_sent(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.configure(rig.lab())
    rig.by_hand("configure terminal", "interface ethernet 1/5 mtu 1500 force")
    sent: list[str] = []
    answer = Console.answer
    monkeypatch.setattr(Console, "answer", lambda self, line: sent.append(line) or answer(self, line))

    assert rig.configure(rig.lab()).changed == ("1/5 mtu_bytes 1500 => 9216",)
    assert [line for line in sent if line.startswith("interface ")] == ["interface ethernet 1/5 mtu 9216 force"]


def test_the_running_configuration_is_kept_before_the_first_line(rig: Rig) -> None:
    rig.configure(rig.lab())

    assert len(rig.backups) == 1
    assert "interface ethernet 1/1 mtu 1500 force" in rig.backups[0]


def test_a_switch_that_says_yes_and_does_not_is_an_error_with_both_numbers_and_is_taken_back(rig: Rig) -> None:
    before = dict(rig.frames.configs)
    rig.frames.stuck.add(("gpu02", "enp5s0"))

    with pytest.raises(WrongValueError, match=r"1/5 mtu_bytes: .*9216.*1500") as error:
        rig.configure(rig.lab())

    assert "1/1" not in str(error.value)
    assert rig.frames.configs == before
    assert rig.look(rig.lab())["1/1"].settings.owner is None


def test_a_refused_command_is_named_and_the_old_values_come_back(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(rig.frames.configs)
    answer = Console.answer
    monkeypatch.setattr(
        Console, "answer", lambda self, line: "% Not licensed\n" if "qos trust L3" in line else answer(self, line)
    )

    with pytest.raises(RefusedError, check=stating("interface ethernet 1/1 qos trust L3", "Not licensed")):
        rig.configure(rig.lab())

    assert rig.frames.configs == before


def test_a_session_recognizes_a_refusal_by_its_own_pattern(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Console.answer
    monkeypatch.setattr(
        Console, "answer", lambda self, line: "ERROR: not permitted\n" if "mtu" in line else answer(self, line)
    )

    async def refused(**changes: re.Pattern[str]) -> str:
        async with rig.talk() as _:
            record = rig.record(rig.lab())
            session = replace(record.session, **changes)
            async with talking(record.endpoint, [rig.key], "sw1", session) as talk:
                return await talk.ask("interface ethernet 1/1 mtu 9216 force")

    assert "not permitted" in asyncio.run(refused()), "an answer like any other"
    with pytest.raises(RefusedError, check=stating("`interface ethernet 1/1 mtu 9216 force`", "not permitted")):
        asyncio.run(refused(refusal=re.compile(r"^ERROR: (.+)$", re.MULTILINE)))


BANNER = """! Command: show running-config
! device: leaf1 (vEOS-lab, EOS-4.32.1F)
!
! boot system flash:/vEOS-lab.swi
!
transceiver qsfp default-mode 4x10G
!
hostname leaf1
!
no ip routing
!
banner login
% Authorized users only %
EOF
!
management api http-commands
   no shutdown
!
end
"""
"""The form and place of a banner in EOS's running configuration, as pyeapi's release notes 0.6.0 print them."""


def test_a_line_of_a_login_banner_is_no_refusal(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Console.answer
    monkeypatch.setattr(
        Console, "answer", lambda self, line: BANNER if line == "show running-config" else answer(self, line)
    )

    rig.configure(rig.lab())

    assert [text.strip() for text in rig.backups] == [BANNER.strip()]


@pytest.mark.parametrize("before", ["", "\n", "                 ^\n", "Ethernet1/1\n"])
def test_a_refusal_may_follow_lines_that_say_where(rig: Rig, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    answer = Console.answer
    monkeypatch.setattr(
        Console,
        "answer",
        lambda self, line: f"{before}% Invalid input\n" if line == "show running-config" else answer(self, line),
    )

    with pytest.raises(RefusedError, check=stating("`show running-config`", "Invalid input")):
        rig.configure(rig.lab())
    assert rig.backups == []


def test_a_switch_that_refuses_to_list_its_neighbors_is_configured_by_the_map(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "show lldp")

    outcome = rig.configure(rig.lab())

    assert rig.frames.configs["gpu01", "enp5s0"].mtu_bytes == 9216
    assert [facts.neighbour for facts in outcome.facts.values()] == [None] * 4
    (warning,) = unheard("sw1", outcome.facts)
    assert states(warning, "sw1", "LLDP", "`show lldp", "Not enabled", "switches[].ports")


def test_a_switch_that_lists_its_neighbors_is_no_warning(rig: Rig) -> None:
    assert unheard("sw1", rig.look(rig.lab())) == []


def test_any_other_refused_question_stops_the_run_before_anything_changes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(rig.frames.configs)
    refuse(monkeypatch, "show interfaces switchport")

    with pytest.raises(RefusedError, check=stating("`show interfaces switchport")):
        rig.configure(rig.lab())

    assert rig.frames.configs == before


def test_a_refused_update_leaves_the_values_that_ran_and_not_those_from_before_the_lab(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = FirstTouch(rig.folder / "backups", "sw1")

    async def work(lab: Lab) -> SwitchOutcome:
        async with rig.talk() as talk:
            return await configure(talk, rig.task(lab), rig.backups.append, first)

    asyncio.run(work(rig.lab()))
    running, remembered = rig.look(rig.lab()), first.read()
    sent: list[str] = []
    answer = Console.answer

    def refusing(self: Console, line: str) -> str:
        sent.append(line)
        return "% Too large\n" if line == "interface ethernet 1/6 mtu 9100 force" else answer(self, line)

    monkeypatch.setattr(Console, "answer", refusing)
    with pytest.raises(RefusedError, check=stating("interface ethernet 1/6 mtu 9100 force", "Too large", "restored")):
        asyncio.run(work(rig.lab(mtu_bytes=9100)))

    assert "interface ethernet 1/1 mtu 9100 force" in sent
    assert rig.look(rig.lab()) == running
    assert running["1/1"].settings.mtu_bytes == 9216
    assert first.read() == remembered
    assert remembered["1/1"].mtu_bytes == 1500


def test_the_ports_of_another_lab_are_refused_by_its_name_and_nothing_changes(rig: Rig) -> None:
    rig.configure(rig.lab("first"))
    before = dict(rig.frames.configs)

    with pytest.raises(NotOursError, match=r"1/1 .*rocelab:first:rail-a"):
        rig.configure(rig.lab("second", mtu_bytes=9100))

    assert rig.frames.configs == before


def test_a_cable_that_is_plugged_elsewhere_is_refused_before_anything_changes(rig: Rig) -> None:
    heard = {"chassis": "52:54:00:11:00:02", "port": "enp5s0", "port_description": "", "system": "gpu02"}
    rig.frames.lldp["gpu01", "enp5s0"] = heard

    with pytest.raises(NotOursError, check=stating("1/1", "gpu01 enp5s0", "LLDP", "gpu02 enp5s0")):
        rig.configure(rig.lab())

    assert rig.frames.configs["gpu01", "enp5s0"].mtu_bytes == 1500


def test_a_neighbor_that_agrees_is_reported(rig: Rig) -> None:
    heard = {"chassis": "52:54:00:11:00:01", "port": "enp5s0", "port_description": "", "system": "gpu01"}
    rig.frames.lldp["gpu01", "enp5s0"] = heard

    neighbour = rig.configure(rig.lab()).facts["1/1"].neighbour

    assert neighbour is not None
    assert neighbour.system == "gpu01"


def test_what_was_there_before_us_comes_back(rig: Rig) -> None:
    rig.by_hand(
        "configure terminal",
        "vlan 7",
        "exit",
        "interface ethernet 1/1 description uplink-of-somebody",
        "interface ethernet 1/1 switchport access vlan 7",
        "interface ethernet 1/1 traffic-class 3 congestion-control ecn minimum-absolute 20 maximum-absolute 400",
    )
    before, shown = dict(rig.frames.configs), rig.look(rig.lab())
    outcome = rig.configure(rig.lab())

    done = rig.restore(rig.lab(), dict(outcome.before))

    assert done == [f"{port}: restored" for port in ("1/1", "1/2", "1/5", "1/6")]
    assert rig.frames.configs == before
    assert rig.look(rig.lab()) == shown
    assert shown["1/1"].settings.description == "uplink-of-somebody"


class Dying:
    """A conversation whose run is killed at a line that begins so."""

    def __init__(self, talk: Talk, at: str) -> None:
        self._talk = talk
        self._at = at

    async def ask(self, command: str) -> str:
        if command.startswith(self._at):
            raise KilledError
        return await self._talk.ask(command)


class KilledError(Exception):
    pass


@pytest.mark.parametrize(
    "at", ["interface ethernet 1/1 mtu", "interface ethernet 1/6 description", "configuration write"]
)
def test_a_run_killed_in_the_middle_of_a_change_forgets_nothing_of_what_was_there(rig: Rig, at: str) -> None:
    before, lab = dict(rig.frames.configs), rig.lab()
    first = FirstTouch(rig.folder / "backups", "sw1")

    async def killed() -> None:
        async with rig.talk() as talk:
            await configure(Dying(talk, at), rig.task(lab), rig.backups.append, first)

    async def next_run() -> SwitchOutcome:
        async with rig.talk() as talk:
            return await configure(talk, rig.task(lab), rig.backups.append, first)

    with pytest.raises(KilledError):
        asyncio.run(killed())
    assert rig.frames.configs != before
    outcome = asyncio.run(next_run())

    assert {settings.mtu_bytes for settings in outcome.before.values()} == {1500}
    rig.restore(lab, dict(outcome.before))
    assert rig.frames.configs == before


def test_a_port_that_was_given_up_is_remembered_as_it_is_found_again(rig: Rig) -> None:
    first = FirstTouch(rig.folder / "backups", "sw1")

    async def work() -> SwitchOutcome:
        async with rig.talk() as talk:
            return await configure(talk, rig.task(rig.lab()), rig.backups.append, first)

    rig.restore(rig.lab(), dict(asyncio.run(work()).before))
    rig.by_hand("configure terminal", "interface ethernet 1/1 mtu 4000 force")

    assert asyncio.run(work()).before["1/1"].mtu_bytes == 4000
    assert first.read()["1/1"].mtu_bytes == 4000


@pytest.mark.parametrize("text", ["", "{", "[]", '{"1/1": {"speed": 100}}'])
def test_a_memory_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "sw1-before.json").write_text(text)

    assert FirstTouch(tmp_path, "sw1").read() == {}


def test_only_its_owner_reads_the_memory(rig: Rig) -> None:
    settings = rig.look(rig.lab())["1/1"].settings

    FirstTouch(rig.folder / "backups", "sw1").add({"1/1": settings})

    (file,) = (rig.folder / "backups").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert FirstTouch(rig.folder / "backups", "sw1").read() == {"1/1": settings}


def test_a_port_that_another_lab_has_taken_is_not_restored(rig: Rig) -> None:
    outcome = rig.configure(rig.lab())
    rig.by_hand("configure terminal", "interface ethernet 1/1 description rocelab:other:rail-x")

    assert "1/1: restored" not in rig.restore(rig.lab(), dict(outcome.before))
    assert rig.frames.configs["gpu01", "enp5s0"].mtu_bytes == 9216


def test_a_lossless_switch_without_switch_wide_pfc_is_found_out(rig: Rig) -> None:
    rig.configure(rig.lab())
    lossless = rig.lab(qos={"mode": "lossless"}, allow_global=True)
    task = replace(rig.task(lossless), global_lines=())

    async def work() -> None:
        async with rig.talk() as talk:
            await configure(talk, task, rig.backups.append)

    with pytest.raises(WrongValueError, match=r"1/1 pfc_3: .*on.*off"):
        asyncio.run(work())
    assert "1/1 pfc_3 off => on" in rig.configure(lossless).changed


def test_another_host_key_than_the_pinned_one_sends_nothing(rig: Rig) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()

    async def work() -> None:
        async with rig.talk() as talk:
            endpoint = Endpoint(address=ADDRESS, port=rig.port, user="admin", host_key=other)
            async with talking(endpoint, [rig.key], "sw1", rig.record(rig.lab()).session):
                await talk.ask("show running-config")

    with pytest.raises(NoAnswerError, match=r"access\.known_hosts_file"):
        asyncio.run(work())


def test_another_user_is_not_let_in(rig: Rig) -> None:
    with pytest.raises(NoAnswerError, match="root"):
        asyncio.run(rig.talk(user="root").__aenter__())
