"""What each system is told around a change, command by command, by a switch that answers from the samples."""

import asyncio

import pytest

from components.switches.dialect import RefusedError
from components.switches.records import task_of, wanted_record
from components.switches.settings import cables_of
from components.switches.text import switch_text
from components.switches.work import Outcome, Task, WrongValueError, configure
from tests.components.switches.labs import PORTS, switch_entry, with_switches
from tests.components.switches.test_facts import WRONG, answers_of


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
    return task_of(wanted_record(lab, lab.switches[0], "ssh-ed25519 AAAA"), {first.port: first.wanted}, lab)


def run(system: str, talk: Scripted) -> Outcome:
    return asyncio.run(configure(talk, task(system), lambda _: None))


BACKUPS = ("show running-config", "nv config show -o commands")
ORDER = {
    "onyx": [
        "show running-config",
        "configure terminal",
        "interface ethernet 1/1 mtu 9216 force",
        "exit",
        "configuration write",
    ],
    "nvue": [
        "nv config show -o commands",
        "nv config detach",
        "nv set interface swp1 link mtu 9216",
        "nv config apply --confirm 300s -y",
        "nv config apply --confirm-yes",
        "nv config save",
    ],
    "sonic": ["sudo config interface mtu Ethernet0 9216", "sudo config save -y"],
    "eos": [
        "show running-config",
        "configure session rocelab-lab",
        "interface Ethernet1/1",
        "mtu 9214",
        "exit",
        "commit timer 00:05:00",
        "configure session rocelab-lab commit",
        "write memory",
    ],
}


@pytest.mark.parametrize("system", PORTS)
def test_a_change_is_backed_up_made_verified_confirmed_and_saved_in_that_order(system: str) -> None:
    talk = Scripted(system, answers_of(system))

    outcome = run(system, talk)

    assert talk.told == ORDER[system]
    assert [line.split(" => ")[0].split()[1] for line in outcome.changed] == ["mtu_bytes"]


BACK = {
    "onyx": ["configure terminal", "interface ethernet 1/1 mtu 1500 force", "exit"],
    "nvue": ["nv config apply --confirm-no"],
    "sonic": ["sudo config interface mtu Ethernet0 9100"],
    "eos": ["configure session rocelab-lab abort"],
}


@pytest.mark.parametrize("system", PORTS)
def test_a_wrong_value_is_taken_back_by_the_switch_where_it_can_and_never_saved(system: str) -> None:
    talk = Scripted(system, {})
    talk.after = talk.before  # it says yes and does nothing

    with pytest.raises(WrongValueError, match=r"mtu_bytes: asked 921\d, found \d+"):
        run(system, talk)

    assert talk.told[-len(BACK[system]) :] == BACK[system]
    assert not any(word in " ".join(talk.told) for word in ("write", "save", "confirm-yes", "lab commit"))


CANCEL = {"nvue": ["nv config detach"], "eos": ["abort"]}


@pytest.mark.parametrize("system", ["nvue", "eos"])
def test_a_refused_command_drops_the_staged_change(system: str) -> None:
    talk = Scripted(system, answers_of(system), refuses="mtu 921")

    with pytest.raises(RefusedError, match="It was refused before it came into force"):
        run(system, talk)

    assert talk.told[-1:] == CANCEL[system]


@pytest.mark.parametrize("system", PORTS)
def test_what_people_are_given_by_hand_is_what_is_sent(system: str) -> None:
    lab = with_switches(switch_entry(system), qos={"mode": "lossless"})
    given = [line.lstrip("#! ") for line in switch_text(lab, lab.switches[0]).splitlines()]

    sent = [line for line in ORDER[system] if line not in BACKUPS]

    assert [line for line in sent if line not in given] == []
