"""The schedule of transfers: rounds of disjoint pairs, so that no two tests share a NIC."""

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from components.validation.records import Flow

Schedule = Literal["pairs", "ring", "sampled"]
Pairs = list[tuple[str, str]]


class Transfer(NamedTuple):
    """One directed run: the client writes into the server's memory over one rail."""

    rail: str
    client: str
    server: str
    port: int
    """TCP port where the two ends meet; of its own for each rail, since a node serves all its rails at once."""

    @property
    def flow(self) -> Flow:
        """The transfer in any schedule of any run."""
        return Flow(self.rail, self.client, self.server)


def pair_rounds(names: Sequence[str]) -> Iterator[Pairs]:
    """Rounds of disjoint pairs, each unordered pair exactly once (circle method: one stays, the others rotate)."""
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    half = len(circle) // 2
    for _ in range(len(circle) - 1):
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(a, b) for a, b in pairs if a is not None and b is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]


def ring_rounds(names: Sequence[str]) -> Iterator[Pairs]:
    """Each with the next one, the last with the first: two rounds, and a third where the count is odd."""
    steps = [(names[i], names[(i + 1) % len(names)]) for i in range(len(names))] if len(names) > 2 else []
    if len(names) == 2:
        yield [(names[0], names[1])]
    even = len(steps) - len(steps) % 2
    for pairs in (steps[0:even:2], steps[1:even:2], steps[even:]):
        if pairs:
            yield pairs


def sampled_rounds(names: Sequence[str], samples: int, seed: str) -> Iterator[Pairs]:
    """The ring, then rounds of random pairs that have not met; the same seed and names give the same rounds."""
    met: set[frozenset[str]] = set()
    for pairs in ring_rounds(names):
        met.update(map(frozenset, pairs))
        yield pairs
    shuffled = list(names)
    number = int.from_bytes(hashlib.sha256("\n".join((seed, *names)).encode()).digest())
    random.Random(number).shuffle(shuffled)  # noqa: S311  # a sample to measure, nothing to keep secret
    # of a circle in random order any round is a random pairing, and no two rounds repeat a pair
    for pairs in islice(pair_rounds(shuffled), samples):
        if rest := [(a, b) for a, b in pairs if frozenset((a, b)) not in met]:
            yield rest


def rounds_of(schedule: Schedule, names: Sequence[str], samples: int, seed: str) -> Iterator[Pairs]:
    """The rounds of pairs that a schedule is."""
    if schedule == "ring":
        return ring_rounds(names)
    return pair_rounds(names) if schedule == "pairs" else sampled_rounds(names, samples, seed)


def directed(rounds: Iterator[Pairs], ends: Mapping[str, Sequence[str]], first_port: int) -> Iterator[list[Transfer]]:
    """Both directions of each round, one after the other, on all rails that the two nodes have in common.

    Args:
        rounds: of pairs.
        ends: the nodes of each rail; a node may miss one.
        first_port: of the first rail; each further rail takes the next one.
    """
    for pairs in rounds:
        for turned in (False, True):
            if transfers := _on_rails([(b, a) if turned else (a, b) for a, b in pairs], ends, first_port):
                yield transfers


def in_one_direction(
    rounds: Iterator[Pairs], ends: Mapping[str, Sequence[str]], first_port: int
) -> Iterator[list[Transfer]]:
    """Each pair once, for tests in which both directions run at the same time."""
    for pairs in rounds:
        if transfers := _on_rails(pairs, ends, first_port):
            yield transfers


def incast_rounds(ends: Mapping[str, Sequence[str]], senders: int, first_port: int) -> Iterator[list[Transfer]]:
    """On one rail after the other `senders` nodes send to one: to the first node, as each port is as good."""
    for rail, nodes in ends.items():
        if len(nodes) > senders:
            server, *clients = nodes[: senders + 1]
            yield [
                Transfer(rail=rail, client=client, server=server, port=first_port + number)
                for number, client in enumerate(clients)
            ]


def _on_rails(pairs: Pairs, ends: Mapping[str, Sequence[str]], first_port: int) -> list[Transfer]:
    rails = [(rail, frozenset(nodes), first_port + number) for number, (rail, nodes) in enumerate(ends.items())]
    return [
        Transfer(rail, client, server, port)
        for client, server in pairs
        for rail, members, port in rails
        if client in members and server in members
    ]
