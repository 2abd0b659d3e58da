"""Who measures with whom, and when: every pair once in each direction, and never two tests on one NIC."""

from collections.abc import Iterator, Mapping, Sequence

from components.validation.records import Frozen


class Transfer(Frozen):
    """One directed run: the client writes into the server's memory over one rail."""

    rail: str
    client: str
    server: str
    port: int
    """TCP port where the two ends meet; of its own for each rail, since a node serves all its rails at once."""


def pair_rounds(names: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Rounds of disjoint pairs, each unordered pair exactly once (circle method: one stays, the others rotate)."""
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    half = len(circle) // 2
    for _ in range(len(circle) - 1):
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(a, b) for a, b in pairs if a is not None and b is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]


def transfer_rounds(ends: Mapping[str, Sequence[str]], first_port: int) -> Iterator[list[Transfer]]:
    """All transfers, round by round: disjoint pairs at once, on all their common rails at once, one direction a round.

    Args:
        ends: the nodes of each rail; a node may miss one.
        first_port: of the first rail; each further rail takes the next one.
    """
    names = list(dict.fromkeys(name for nodes in ends.values() for name in nodes))
    for pairs in pair_rounds(names):
        for turned in (False, True):
            transfers = [
                Transfer(rail=rail, client=b if turned else a, server=a if turned else b, port=first_port + number)
                for a, b in pairs
                for number, (rail, nodes) in enumerate(ends.items())
                if a in nodes and b in nodes
            ]
            if transfers:
                yield transfers
