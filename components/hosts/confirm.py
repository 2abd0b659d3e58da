"""The word of a new connection, given to each host as soon as its own command has ended.

A host takes its network changes back when nobody confirms them in time. The Fleet confirms too, but only after all
commands: one that is slow or fails would cost all others what they have just been given.
"""

from collections.abc import Awaitable, Callable, Mapping

from components.hosts.calls import Hosts
from components.hosts.records import HostRecord
from components.ssh.connection import NoAnswerError


class Confirmer:
    """Confirms hosts by the name of their command."""

    def __init__(self, records: Mapping[str, HostRecord], private_key: Callable[[], Awaitable[str | None]]) -> None:
        """Connects to nobody yet.

        Args:
            records: of the hosts, by the name of the command of each.
            private_key: asked when first used; None is the ssh-agent's.
        """
        self._records, self._private_key = records, private_key
        self._hosts: Hosts | None = None

    async def confirm(self, command: str) -> None:
        """Confirms one host. What goes wrong is left to the Fleet, which looks at each host again and judges it."""
        if self._hosts is None:
            key = await self._private_key()
            self._hosts = self._hosts or Hosts(key)
        record = self._records[command]
        try:
            await self._hosts.call(record.endpoint, "confirm", record.document)
        except NoAnswerError:
            return
