"""Rules between the operating system's section and the others."""

from collections.abc import Callable, Iterator

from stacks.rules.parts import Fault, Parts
from stacks.system import System


def _refuse_to_change_the_login(parts: Parts) -> Iterator[Fault]:
    """The account that this program comes in by gets keys and nothing else: a slip there locks everybody out."""
    system = parts.section("system", System)
    if system is None or parts.access is None:
        return
    for i, user in enumerate(system.users):
        if user.name == parts.access.user and (user.uid is not None or user.sudo):
            yield Fault(
                ("system", "users", i),
                f"{user.name} is access.user, the account rocelab logs in with; give it keys only, no uid and no sudo",
            )


SYSTEM_RULES: tuple[Callable[[Parts], Iterator[Fault]], ...] = (_refuse_to_change_the_login,)
