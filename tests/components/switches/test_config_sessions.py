"""What each system is told around a change, command by command, by a switch that answers from the samples."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from components.switches.dialect import RefusedError, UnconfirmedError
from components.switches.os import dialect_of
from components.switches.records import switch_record, task_of
from components.switches.settings import PortFacts, cables_of
from components.switches.text import switch_text
from components.switches.work import (
    NotOursError,
    SwitchOutcome,
    Task,
    WrongValueError,
    configure,
    refusals,
    restore,
    unconfirmed,
)
from tests.components.switches.labs import switch_entry, with_switches
from tests.components.switches.systems import BACK, CANCEL, ORDER, PORTS, REVISIONS, WRONG, answers_of
from tests.messages import states, stating

DATABASE = "sonic-cfggen -d --print-data"


class Scripted:
    """Answers as before until the change is in force, and then as after; it remembers what it was told."""

    def __init__(self, system: str, after: dict[str, str], refuses: str = "") -> None:
        where, what, by, *_ = WRONG[system][0]
        good = answers_of(system)
        self.before = {command: text.replace(what, by) if where in command else text for command, text in good.items()}
        self.after = after
        self.refuses = refuses
        self.changed = False
        self.told: list[str] = []

    async def ask(self, command: str) -> str:
        if command in self.before:
            return (self.after if self.changed else self.before)[command]
        self.told.append(command)
        if self.refuses and self.refuses in command:
            raise RefusedError(f"the switch refuses `{command}`")
        self.changed = self.changed or "mtu" in command
        return ""


def task(system: str) -> Task:
    """The first port alone, as the samples have it."""
    lab = with_switches(switch_entry(system), qos={"mode": "lossless"})
    first = cables_of(lab, lab.switches[0])[0]
    return task_of(switch_record(lab, lab.switches[0], "ssh-ed25519 AAAA"), {first.port: first.settings}, lab)


def run(system: str, talk: Scripted) -> SwitchOutcome:
    return asyncio.run(configure(talk, task(system), lambda _: None))


@pytest.mark.parametrize("system", PORTS)
def test_a_change_is_backed_up_made_verified_confirmed_and_saved_in_that_order(system: str) -> None:
    talk = Scripted(system, answers_of(system))

    outcome = run(system, talk)

    assert talk.told == ORDER[system]
    assert [line.split(" => ")[0].split()[1] for line in outcome.changed] == ["mtu_bytes"]


@pytest.mark.parametrize(
    ("system", "what", "by", "names"),
    [
        ("sonic", '"Ethernet0|3-4": ', '"Ethernet8|3-4": ', ["Ethernet0", "BUFFER_PG"]),
        ("nvue", '"default-lossless": {"memory-percent": 50}', '"x": {}', ["swp1", "traffic-pool"]),
    ],
)
def test_a_switch_without_buffers_for_it_is_not_made_half_lossless(
    system: str, what: str, by: str, names: list[str]
) -> None:
    without = {command: text.replace(what, by) for command, text in answers_of(system).items()}
    assert without != answers_of(system)
    talk = Scripted(system, without)
    talk.before = without

    with pytest.raises(NotOursError, check=stating(*names, "drop", "qos.mode: lossy")):
        run(system, talk)

    pending = task(system).session.pending
    assert talk.told == ([pending.listing] if pending else [])


def test_a_fault_of_several_ports_is_one_line_with_their_names() -> None:
    declared = task("nvue")
    found = {port: PortFacts(declared.ports["swp1"], ("lacks a pool",)) for port in ("swp1", "swp2")}

    assert refusals(declared, found) == ["swp1, swp2: lacks a pool"]


@pytest.mark.parametrize("system", PORTS)
def test_a_wrong_value_is_taken_back_by_the_switch_where_it_can_and_never_saved(system: str) -> None:
    talk = Scripted(system, {})
    talk.after = talk.before  # it says yes and does nothing

    with pytest.raises(WrongValueError, match=r"mtu_bytes: .*921\d.*\d+"):
        run(system, talk)

    assert talk.told[-len(BACK[system]) :] == BACK[system]
    assert not any(word in " ".join(talk.told) for word in ("write", "save", "confirm-yes", "lab commit"))


@pytest.mark.parametrize("system", PORTS)
def test_a_refused_command_drops_what_is_staged_or_leaves_the_configuration_mode(system: str) -> None:
    (refused,) = (line for line in ORDER[system] if "mtu" in line)
    talk = Scripted(system, answers_of(system), refuses=refused)
    stages = bool(task(system).session.commit)

    says = "The switch refused it before anything took effect" if stages else "The old values were restored"
    with pytest.raises(RefusedError, match=says):
        run(system, talk)

    after = talk.told[talk.told.index(refused) + 1 :]
    assert after[: len(CANCEL[system])] == CANCEL[system]
    assert (after == CANCEL[system]) == stages, "what was only staged needs no old values"


@pytest.mark.parametrize("system", PORTS)
def test_what_people_are_given_by_hand_is_what_is_sent(system: str) -> None:
    lab = with_switches(switch_entry(system), qos={"mode": "lossless"})
    given = [line.lstrip("#! ") for line in switch_text(lab, lab.switches[0]).splitlines()]

    dialect = dialect_of(lab.switches[0])
    pending = dialect.session("lab", 300).pending
    looks = {dialect.backup(), pending.listing if pending else ""}
    sent = [line for line in ORDER[system] if line not in looks]

    assert [line for line in sent if line not in given] == []


SESSIONS = """Maximum number of completed sessions: 1
Maximum number of pending sessions: 5

  Name               State                   User       Terminal
  ------------------ ----------------------- ---------- ----------
  rocelab-lab        {}
  rocelab-lab-2      completed
* rocelab-lab2       pending                 admin      vty5
  maintenance        pendingCommitTimer      admin
"""
"""Written after Arista's manual: nobody here has had an EOS at hand."""


class Littered(Scripted):
    """An EOS on which an earlier run was killed: its values are in force until its commit timer ends."""

    def __init__(self, state: str) -> None:
        super().__init__("eos", answers_of("eos"))
        self.state = state
        self.changed = state == "pendingCommitTimer"

    async def ask(self, command: str) -> str:
        if command == "show configuration sessions":
            self.told.append(command)
            return SESSIONS.format(self.state)
        if command == "configure session rocelab-lab abort":
            self.changed = False
        return await super().ask(command)


@pytest.mark.parametrize("state", ["pending", "pendingCommitTimer"])
def test_the_session_of_a_killed_run_is_ended_before_anything_is_read(state: str) -> None:
    talk = Littered(state)

    outcome = run("eos", talk)

    assert talk.told[:2] == ["show configuration sessions", "configure session rocelab-lab abort"]
    assert [line.split(" => ")[0].split()[1] for line in outcome.changed] == ["mtu_bytes"], (
        "what was in force only until a timer ends is no found value"
    )
    assert next(iter(outcome.before.values())).mtu_bytes == 1500
    assert not any("rocelab-lab2" in line or "maintenance" in line for line in talk.told), "sessions of others"


@pytest.mark.parametrize("state", ["pending", "completed"])
def test_a_session_gets_a_name_that_the_switch_does_not_know_yet(state: str) -> None:
    talk = Littered(state)

    run("eos", talk)

    entered = [line for line in talk.told if line.startswith("configure session") and "abort" not in line]
    assert entered == ["configure session rocelab-lab-3", "configure session rocelab-lab-3 commit"]


def test_an_ended_session_is_left_alone() -> None:
    talk = Littered("completed")

    run("eos", talk)

    assert not any("abort" in line for line in talk.told)


def test_a_restore_ends_it_too() -> None:
    talk, declared = Littered("pending"), task("eos")
    before = {port: settings.model_copy(update={"mtu_bytes": 1500}) for port, settings in declared.ports.items()}

    asyncio.run(restore(talk, declared, before))

    assert talk.told[1] == "configure session rocelab-lab abort"


def test_a_session_whose_timer_runs_is_a_warning_in_a_preview() -> None:
    running, staged = Littered("pendingCommitTimer"), Littered("pending")

    said = [asyncio.run(unconfirmed(talk, "sw1", task("eos").session)) for talk in (running, staged)]

    assert len(said[0]) == 1
    assert states(said[0][0], "sw1", "rocelab-lab", "interrupted")
    assert said[1] == [], "staged lines change nothing that is read"
    assert running.told == ["show configuration sessions"]


def revisions(message: str, state: str = "confirm", inside: bool = False) -> str:
    """Written after NVUE's API and after what others read out of it: nobody here has had a Cumulus switch at hand."""
    said = {"message": message, "user": "cumulus"}
    return json.dumps(
        {
            "1": {"state": "applied_and_saved", "message": "rocelab:lab", "last-apply": {"apply-id": "rev_1_apply_1"}},
            "21": {"state": "pending", "transition": {"issue": {}, "progress": ""}},
            "22": {"state": state, "last-apply": said} if inside else {"state": state, **said},
            "startup": {"state": "applied_and_saved"},
        }
    )


class Unconfirmed(Scripted):
    """A Cumulus switch on which a change is in force that nobody has confirmed."""

    def __init__(self, listing: str) -> None:
        super().__init__("nvue", answers_of("nvue"))
        self.listing = listing
        self.changed = '"confirm"' in listing

    async def ask(self, command: str) -> str:
        if command == REVISIONS:
            self.told.append(command)
            return self.listing
        if command == "nv config apply 22 --confirm-no":
            self.changed = False
        return await super().ask(command)


@pytest.mark.parametrize("inside", [False, True])
def test_the_unconfirmed_revision_of_a_killed_run_is_taken_back_before_anything_is_read(inside: bool) -> None:
    talk = Unconfirmed(revisions("rocelab:lab", inside=inside))

    outcome = run("nvue", talk)

    assert talk.told[:2] == [REVISIONS, "nv config apply 22 --confirm-no"]
    assert talk.told[2:] == ORDER["nvue"][1:]
    assert next(iter(outcome.before.values())).mtu_bytes == 1500


def test_a_restore_takes_it_back_too() -> None:
    talk, declared = Unconfirmed(revisions("rocelab:lab")), task("nvue")
    before = {port: settings.model_copy(update={"mtu_bytes": 1500}) for port, settings in declared.ports.items()}

    asyncio.run(restore(talk, declared, before))

    assert talk.told[:2] == [REVISIONS, "nv config apply 22 --confirm-no"]


@pytest.mark.parametrize("message", ["Config update by cumulus", "rocelab:lab2"])
def test_an_unconfirmed_revision_of_another_user_stops_everything_and_is_named(message: str) -> None:
    talk = Unconfirmed(revisions(message))

    with pytest.raises(UnconfirmedError, check=stating("sw1")) as refused:
        run("nvue", talk)

    assert states(str(refused.value), "Change 22", message, "cumulus", "`nv config apply 22 --confirm-no`")
    assert talk.told == [REVISIONS]


@pytest.mark.parametrize("state", ["pending", "applied", "applied_and_saved", "confirm_fail", "detached"])
def test_a_revision_that_waits_for_nothing_is_left_alone(state: str) -> None:
    talk = Unconfirmed(revisions("rocelab:lab", state=state))

    run("nvue", talk)

    assert talk.told == ORDER["nvue"]


@pytest.mark.parametrize(
    ("message", "says"),
    [("rocelab:lab", ["interrupted"]), ("theirs", ["another user", "theirs", "cumulus"])],
)
def test_an_unconfirmed_revision_is_a_warning_in_a_preview(message: str, says: list[str]) -> None:
    talk = Unconfirmed(revisions(message))

    said = asyncio.run(unconfirmed(talk, "sw1", task("nvue").session))

    assert len(said) == 1
    assert states(said[0], "sw1", *says)
    assert talk.told == [REVISIONS]


@pytest.mark.parametrize("system", [system for system in PORTS if task(system).session.pending is None])
def test_a_system_that_keeps_no_change_apart_is_not_asked_for_any(system: str) -> None:
    talk = Scripted(system, answers_of(system))

    assert asyncio.run(unconfirmed(talk, "sw1", task(system).session)) == []
    assert talk.told == []


class Sonic:
    """A SONiC that keeps descriptions and MTUs; the earlier VLAN of its port is gone until somebody adds it."""

    def __init__(self) -> None:
        self.database = json.loads(answers_of("sonic")[DATABASE])
        self.has_vlan = False

    async def ask(self, command: str) -> str:
        port, members = self.database["PORT"]["Ethernet0"], self.database["VLAN_MEMBER"]
        if command == DATABASE:
            return json.dumps(self.database)
        if " description " in command:
            port["description"] = command.partition(" description ")[2].strip("'")
        if "mtu Ethernet0" in command:
            port["mtu"] = command.rsplit(maxsplit=1)[-1]
        if command.startswith("for vlan in"):
            self.database["VLAN_MEMBER"] = {key: kept for key, kept in members.items() if "|Ethernet0" not in key}
        if command == "sudo config vlan member add -u 10 Ethernet0":
            if not self.has_vlan:
                raise RefusedError("Error: Vlan10 does not exist")
            members["Vlan10|Ethernet0"] = {"tagging_mode": "untagged"}
        return ""


def test_a_restore_that_stopped_halfway_is_finished_by_the_next_one() -> None:
    """The refusal is that of sonic-utilities, config/vlan.py."""
    ours, talk = task("sonic"), Sonic()
    earlier = {"description": "", "mode": "access", "native_vlan": 10, "tagged_vlans": "", "mtu_bytes": 9100}
    before = {port: settings.model_copy(update=earlier) for port, settings in ours.ports.items()}
    with pytest.raises(RefusedError, match="Vlan10"):
        asyncio.run(restore(talk, ours, before))

    talk.has_vlan = True
    asyncio.run(restore(talk, ours, before))

    assert talk.database["PORT"]["Ethernet0"]["mtu"] == "9100"
    assert "Vlan10|Ethernet0" in talk.database["VLAN_MEMBER"]


@pytest.mark.parametrize(("kept", "changes"), [("", 0), ("None", 0), ("trunk", 0), ("access", 1), ("routed", 1)])
def test_a_sonic_port_gets_another_mode_only_where_the_release_keeps_one(
    tmp_path: Path, kept: str, changes: int
) -> None:
    """In access mode, config/vlan.py of sonic-utilities refuses tagged VLANs."""
    calls = tmp_path / "calls"
    for name, text in {"sudo": f'echo "$*" >>{calls}', "sonic-db-cli": f'[ "$2" = hget ] && echo {kept}'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    ours = task("sonic")

    for line in ours.dialect.port_lines("lab", "Ethernet0", ours.ports["Ethernet0"], frozenset({"vlans"})):
        subprocess.run(["sh", "-c", line], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)

    told = calls.read_text().splitlines()
    assert told.count("config switchport mode trunk Ethernet0") == changes
    assert "config vlan member add 111 Ethernet0" in told
