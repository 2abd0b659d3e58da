"""What hosts answer to their drafted documents. A probe changes nothing: it takes neither lock nor owner file."""

from collections.abc import Mapping

from components.hosts.calls import HostCalls, Report, each
from components.hosts.records import HostRecord
from stacks.base import LabError


async def probed(records: Mapping[str, HostRecord], private_key: str | None) -> dict[str, Report | str]:
    """The answer of each host, or why there is none."""
    hosts = HostCalls(private_key)
    found: dict[str, Report | str] = {}

    async def probe(name: str, record: HostRecord) -> None:
        try:
            found[name] = await hosts.call(record.endpoint, "probe", record.document)
        except LabError as error:
            found[name] = str(error)

    await each(records, probe)
    return found
