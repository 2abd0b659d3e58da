"""Stops a run when the process that started it is gone: a closed terminal must not leave load on a fabric."""

import asyncio
import os
from collections.abc import Coroutine
from typing import TypeVar

from stacks.base import LabError

T = TypeVar("T")
POLL_S = 0.5


class OrphanedError(LabError):
    """The process that asked for the run has died."""


async def while_alive(work: Coroutine[object, object, T]) -> T:
    """Runs the work, and cancels it when the process's parent ends first.

    Raises:
        OrphanedError: when it was cancelled for that.
    """
    parent = os.getppid()
    task = asyncio.ensure_future(work)
    while not task.done():
        if os.getppid() != parent:
            task.cancel()
            await asyncio.wait([task])
            raise OrphanedError("the run was stopped because the process that started it has died")
        try:
            await asyncio.wait([task], timeout=POLL_S)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
    return task.result()
