"""Tries connections. Nodes run this file too: standard library and Python 3.8 only."""

import asyncio
import errno
import json
import sys

OPEN, REFUSED, SILENT = "open", "refused", "no answer"
TRY_S = 3.0
AT_ONCE = 50


async def result_of(places: asyncio.Semaphore, address: str, port: int) -> str:
    """How a connection ended. "refused" is an answer: nothing blocks the way, nothing listens."""
    async with places:
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), TRY_S)
        except (asyncio.TimeoutError, TimeoutError):  # noqa: UP041  # before 3.11
            return SILENT
        except ConnectionRefusedError:
            return REFUSED
        except OSError as error:
            return f"{SILENT} ({errno.errorcode.get(error.errno or 0, error)})"
        writer.close()
        return OPEN


async def results(ways: "list[tuple[str, int]]") -> "list[str]":
    """Tries all of them, at most `AT_ONCE` at a time."""
    places = asyncio.Semaphore(AT_ONCE)
    return list(await asyncio.gather(*(result_of(places, address, port) for address, port in ways)))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(results(json.load(sys.stdin)))) + "\n")
