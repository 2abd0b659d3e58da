"""NCCL's own lines in a log: its network, and the NICs that it uses."""

import re
from collections import defaultdict

from components.judge.results import Facts
from components.validation.benchmarks.nccl.log import NcclNetwork, parse_nccl_log

KEPT = re.compile("NET|Using|version| set |WARN|cudaDriver|nNodes|GPU Direct|speed")
ADAPTER = re.compile(r"\[(\d{1,3})\]\s?([A-Za-z][\w.-]{0,63}):\S*?(RoCE|IB)\b")
"""Index, name and link of each adapter that NCCL lists."""
CHANNEL = re.compile(r" via NET/\w+/(\d{1,3})\b")
SPEED = re.compile(r"NET/IB ?: \[\d{1,3}\] (\w\S*?):\S* .*\bspeed=(\d{3,7})\b")
MOST_LINES = 5000


class NcclLines:
    """The lines up to the next table."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._kinds: set[str] = set()
        self._adapters: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
        """Per host and index: the name without its numbers, and the link."""
        self._used: dict[str, set[str]] = defaultdict(set)
        self._speeds: dict[str, float] = {}

    def counts(self, line: str) -> bool:
        """Whether the line is the first of its kind: a large job prints thousands of channels.

        The adapters of each host are kept in any case.
        """
        before, _, text = line.partition("NCCL ")
        host = before.split(":")[0].strip()
        if "Using [0]" in text and "NET/IB" in text:
            for index, name, link in ADAPTER.findall(text):
                self._adapters[host][index] = (re.sub(r"\d+", "", name), link)
        kind = text
        if " via " in text:
            kind = text.rpartition(" via ")[2]
            channel = CHANNEL.search(text)
            if channel and host in self._adapters:
                self._used[host].add(channel[1])
        if kind in self._kinds or len(self._kinds) >= MOST_LINES:
            return False
        self._kinds.add(kind)
        return True

    def take(self, line: str, facts: Facts) -> None:
        """What a line that counts says, without the prefix of a launcher."""
        text = line.partition("NCCL ")[2]
        if " via " in text or KEPT.search(text):
            self.lines.append(line)
        if nodes := re.search(r"\bnNodes (\d{1,6})\b", text):
            facts.nodes = int(nodes[1])
        if speed := SPEED.search(text):
            self._speeds[speed[1]] = float(speed[2]) / 1e3
        if speeds := re.findall(r"NET\[(\d{1,4}\.\d)\]", text):
            facts.nic_gbit_s = float(speeds[0]) * 8

    @property
    def network(self) -> NcclNetwork | None:
        """What NCCL says of its network."""
        if not self.lines:
            return None
        return parse_nccl_log("\n".join(self.lines))

    def count_nics(self, facts: Facts) -> None:
        """The NICs that NCCL uses, if every host uses as many of the same kind."""
        counts: set[int] = set()
        links: set[str] = set()
        for host in self._adapters:
            kinds = self._rail_adapters(host)
            counts.add(len(kinds))
            links.update(link for _, link in kinds)
        if len(counts) == 1:
            facts.nics_per_node = counts.pop()
        if links == {"IB"}:
            facts.framing = "infiniband"
        elif links == {"RoCE"}:
            facts.framing = "roce_v2"
        speeds = set(self._speeds.values())
        if len(speeds) == 1:
            facts.nic_gbit_s = speeds.pop()

    def _rail_adapters(self, host: str) -> list[tuple[str, str]]:
        """Name and link of a host's adapters, without those for management: no channel uses one
        of their kind.
        """
        adapters = self._adapters[host]
        used = {adapters[index] for index in self._used[host] if index in adapters}
        if not used:  # the log shows no channel
            return list(adapters.values())
        return [kind for kind in adapters.values() if kind in used]
