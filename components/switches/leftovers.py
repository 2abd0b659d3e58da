"""Sessions that a killed run left on a switch: what they hold never comes into force behind the next run's back."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from components.switches.dialect import Sitting
from components.switches.talk import Talk

PENDING = "pending"
"""How the states of EOS begin that still may change the switch: staged, or in force until its commit timer ends."""


async def cleared(talk: Talk, sitting: Sitting) -> Sitting:
    """Ends the sessions of this lab's earlier runs; the same sitting, under a name that the switch does not know.

    To be asked before anything is read: a change that waits for its confirmation looks as if it were there to stay,
    and staged lines of a killed run would be committed with those of this one. The engine locks the stack, so no other
    run of this lab is at work there. Sessions with other names belong to others.
    """
    if not sitting.sessions:
        return sitting
    states = parse_sessions(await talk.ask(sitting.sessions), sitting.session)
    for name, state in states.items():
        if state.startswith(PENDING):
            for command in _renamed(sitting.abandon, sitting.session, name):
                await talk.ask(command)
    return _with_name(sitting, _free(sitting.session, states))


def parse_sessions(printed: str, name: str) -> dict[str, str]:
    """State by name of the sessions of this name, and of those that got a number behind it."""
    lines = re.findall(rf"^[ *]*({re.escape(name)}(?:-\d+)?)[ \t]+(\S+)", printed, re.MULTILINE)
    return dict(lines)


def _free(name: str, known: Mapping[str, str]) -> str:
    """Names of ended sessions stay in the switch's list for a while."""
    numbered = (f"{name}-{number}" for number in range(2, len(known) + 3))
    return next(one for one in (name, *numbered) if one not in known)


def _with_name(sitting: Sitting, name: str) -> Sitting:
    def renamed(commands: Sequence[str]) -> tuple[str, ...]:
        return _renamed(commands, sitting.session, name)

    return replace(
        sitting,
        session=name,
        begin=renamed(sitting.begin),
        confirm=renamed(sitting.confirm),
        abandon=renamed(sitting.abandon),
    )


def _renamed(commands: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    return tuple(" ".join(new if word == old else word for word in command.split(" ")) for command in commands)
