"""The word of a new connection, given to each host as soon as its own command has ended.

A host takes its network changes back when nobody confirms them in time. The Fleet confirms too, but only after all
commands: one that is slow or fails would cost all others what they have just been given.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping

from components.hosts.calls import Hosts
from components.hosts.records import HostRecord
from components.ssh.connection import NoAnswerError


class Confirmer:
    """Confirms hosts by the name of their command, from a thread of its own.

    In the program's own event loop it would hang: a registration occupies one of the loop's threads until the hooks
    of its resource have ended, and with as many resources as threads none is left for connecting.
    """

    def __init__(self, records: Mapping[str, HostRecord], private_key: Callable[[], Awaitable[str | None]]) -> None:
        """Connects to nobody yet.

        Args:
            records: of the hosts, by the name of the command of each.
            private_key: asked when first used; None is the ssh-agent's.
        """
        self._records, self._private_key = records, private_key
        self._worker: tuple[Hosts, asyncio.AbstractEventLoop] | None = None

    async def confirm(self, command: str) -> None:
        """Confirms one host. What goes wrong is left to the Fleet, which looks at each host again and judges it."""
        key = await self._private_key()
        if self._worker is None:
            self._worker = (Hosts(key), asyncio.new_event_loop())
            threading.Thread(target=self._worker[1].run_forever, name="confirm", daemon=True).start()
        hosts, loop = self._worker
        told = asyncio.run_coroutine_threadsafe(_told(hosts, self._records[command]), loop)
        await asyncio.wrap_future(told)


async def _told(hosts: Hosts, record: HostRecord) -> None:
    try:
        await hosts.call(record.endpoint, "confirm", record.document)
    except NoAnswerError:
        return
