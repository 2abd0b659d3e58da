"""Changes that a killed run left on a switch: what they hold never comes into force behind the next run's back."""

from collections.abc import Sequence
from dataclasses import replace

from components.switches.dialect import Left, Sitting, UnconfirmedError
from components.switches.talk import Talk


async def cleared(talk: Talk, switch: str, sitting: Sitting) -> Sitting:
    """Ends what this lab's earlier runs left; the same sitting, under a name that the switch does not know.

    To be asked before anything is read: a change that waits for its confirmation looks as if it were there to stay,
    and staged lines of a killed run would be committed with those of this one. The engine locks the stack, so no other
    run of this lab is at work there.

    Raises:
        UnconfirmedError: when somebody else's change waits for its confirmation; nothing was changed.
    """
    sessions = sitting.sessions
    if sessions is None:
        return sitting
    left = sessions.read(await talk.ask(sessions.listing), sessions.mark)
    for one in left:
        if one.state == "unconfirmed" and not one.ours:
            raise UnconfirmedError(
                f"{switch}: nothing was changed. Change {one.name} of somebody else ({one.said}) is in force and waits "
                "for its confirmation, and ours would be mixed with it. Confirm it on the switch, take it back "
                f"(`{sessions.drop.format(one.name)}`) or let its time run out; then run again"
            )
    for one in left:
        if one.state != "ended":
            await talk.ask(sessions.drop.format(one.name))
    return _with_name(sitting, _free(sitting.session, {one.name for one in left})) if sitting.session else sitting


async def unconfirmed(talk: Talk, switch: str, sitting: Sitting) -> list[str]:
    """Of each change that is in force and may be taken back at any moment, a warning: what is read may not last."""
    sessions = sitting.sessions
    if sessions is None:
        return []
    left = sessions.read(await talk.ask(sessions.listing), sessions.mark)
    return [f"{switch}: change {one.name} {_whose(one)}" for one in left if one.state == "unconfirmed"]


def _whose(one: Left) -> str:
    if one.ours:
        return "of a killed run is in force and was never confirmed: the next up takes it back before it begins"
    return f"of somebody else ({one.said}) waits for its confirmation: no up changes anything until that has ended"


def _free(name: str, known: set[str]) -> str:
    """Names of ended sessions stay in the switch's list for a while."""
    numbered = (f"{name}-{number}" for number in range(2, len(known) + 3))
    return next(one for one in (name, *numbered) if one not in known)


def _with_name(sitting: Sitting, name: str) -> Sitting:
    def renamed(commands: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            " ".join(name if word == sitting.session else word for word in command.split(" ")) for command in commands
        )

    return replace(
        sitting,
        session=name,
        begin=renamed(sitting.begin),
        confirm=renamed(sitting.confirm),
        abandon=renamed(sitting.abandon),
    )
