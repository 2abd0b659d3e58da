"""Fabrics with known faults and a fixed noise, and how often the search names the fault and nothing else.

    python -m tests.components.validation.judging.simulation [--seeds 200] [--clean 2000]

The noise: 3 % of spread from a fixed sequence, drift of up to 3 % each flow over the run, 1 % of the transfers 15 to
50 % slow for no reason, and in each round a few pairs that are hashed onto one link and lose 20 to 50 % to each other.
Faults take 15 to 60 % of what goes through them; one node, NIC or path in five fails outright.
"""

import argparse
import hashlib
import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from components.validation.records import Flow
from components.validation.repeats import at_most
from components.validation.search.localise import Localiser
from components.validation.search.located import Located, LocatedFault
from components.validation.search.measured_fabric import MeasuredFabric, Value

SIZES = (4, 8, 16, 64)
RAILS = (1, 2, 8)
FAULTS = ("node", "rail", "nic", "direction", "path", "two nodes", "congestion")
CEILING_GBIT_S = 98.01
SPREAD, DRIFT, OUTLIERS, COLLIDING = 0.03, 0.03, 0.01, 0.02
"""COLLIDING: pairs that hit another one; with the one that is hit, twice as many transfers suffer."""
NOISE_SHA256 = "1208a5ecc95beaa71a10d2d276349ded8718da26e9b7f8e86e6cce017d0cad9a"
MOST_ROUNDS = 20


@lru_cache(maxsize=1)
def noise() -> tuple[float, ...]:
    """The fixed sequence: 20,011 normal values as sums of twelve uniform ones, to four digits."""
    draw = seeded(20_261_121)
    values = [f"{sum(draw.random() for _ in range(12)) - 6:.4f}" for _ in range(20_011)]
    found = hashlib.sha256("\n".join(values).encode()).hexdigest()
    if found != NOISE_SHA256:
        raise ValueError(f"the noise has sha256 {found}, not {NOISE_SHA256}: its figures are not comparable")
    return tuple(map(float, values))


def seeded(*seed: object) -> random.Random:
    return random.Random("/".join(map(str, seed)))  # noqa: S311 (a fixed sequence is what a simulation wants)


class Truth(NamedTuple):
    """What is broken, as the search should say it."""

    kind: str
    nodes: tuple[str, ...] = ()
    rail: str | None = None
    direction: str | None = None


def said(fault: LocatedFault) -> Truth:
    return Truth(fault.kind, tuple(sorted(fault.nodes)), fault.rail, fault.direction)


@dataclass
class Simulated:
    """One fabric with its fault."""

    nodes: int
    rails: int
    fault: str | None
    seed: int
    schedule: str = "pairwise"
    truth: frozenset[Truth] = frozenset()
    slow: dict[Flow, Value] = field(default_factory=dict)
    """Factor of each transfer through a faulty part; None: it fails."""
    crowded: frozenset[str] = frozenset()
    """Rails whose switch is too small for the full concurrency."""

    def __post_init__(self) -> None:
        self.draw = seeded(self.nodes, self.rails, self.fault, self.seed, self.schedule)
        self.at = self.draw.randrange(len(noise()))
        self.used = self.draw.uniform(0.96, 0.995)
        self.drift = self.draw.uniform(-DRIFT, DRIFT)
        self.names = [f"gpu{number:02}" for number in range(1, self.nodes + 1)]
        self.rail_names = [f"rail-{number}" for number in range(1, self.rails + 1)]
        self.rounds = rounds_of(self.nodes, self.schedule, self.seed)
        self.flows = [
            Flow(rail, self.names[a], self.names[b])
            for pairs in self.rounds
            for rail in self.rail_names
            for a, b in pairs
        ]
        if self.fault:
            self._break()

    def run(self) -> dict[Flow, Value]:
        """The values of a whole run, in its order."""
        values: dict[Flow, Value] = {}
        for number, pairs in enumerate(self.rounds):
            level = 1 + self.drift * (2 * number / max(1, len(self.rounds) - 1) - 1)
            for rail in self.rail_names:
                lost = self._collisions(len(pairs))
                for place, (a, b) in enumerate(pairs):
                    flow = Flow(rail, self.names[a], self.names[b])
                    values[flow] = self._value(flow, level * lost.get(place, 1.0), crowded=rail in self.crowded)
        return values

    def again(self, flows: Sequence[Flow]) -> Iterator[tuple[Flow, Value]]:
        """The transfers at half the concurrency, at the end of the run."""
        for flow in flows:
            alone = self.nodes < 8
            lost = self.draw.uniform(0.5, 0.8) if not alone and self.draw.random() < COLLIDING else 1.0
            yield flow, self._value(flow, (1 + self.drift) * lost, crowded=False)

    def _value(self, flow: Flow, level: float, *, crowded: bool) -> Value:
        factor = self.slow.get(flow, 1.0)
        if factor is None:
            return None
        self.at = (self.at + 1) % len(noise())
        value = CEILING_GBIT_S * self.used * level * factor * (1 + SPREAD * noise()[self.at])
        if self.draw.random() < OUTLIERS:
            value *= self.draw.uniform(0.5, 0.85)
        if crowded and self.draw.random() < self.hit:
            value *= self.draw.uniform(0.5, 0.85)
        return value

    def _collisions(self, pairs: int) -> dict[int, float]:
        found: dict[int, float] = {}
        for place in range(pairs if pairs > 1 else 0):
            if self.draw.random() < COLLIDING:
                other = (place + self.draw.randrange(1, pairs)) % pairs
                found[place] = found[other] = self.draw.uniform(0.5, 0.8)
        return found

    def _break(self) -> None:
        draw, (x, y), rail = self.draw, self.draw.sample(self.names, 2), self.draw.choice(self.rail_names)
        one = self._of(x) if self.rails == 1 else Truth("rail", (x,), rail)
        if self.fault == "node":
            self._slow(lambda flow: x in flow[1:])
            self.truth = frozenset({self._of(x)})
        elif self.fault == "two nodes":
            self._slow(lambda flow: x in flow[1:])
            self._slow(lambda flow: y in flow[1:])
            self.truth = frozenset({self._of(x), self._of(y)})
        elif self.fault == "rail":
            self._slow(lambda flow: flow.rail == rail, fails=False)
            self.truth = frozenset({Truth("rail", (), rail)})
        elif self.fault == "nic":
            self._slow(lambda flow: flow.rail == rail and x in flow[1:])
            self.truth = frozenset({one})
        elif self.fault == "path":
            both = {(a, b) for a, b in ((w.client, w.server) for w in self.flows) if x in (a, b) and a != b}
            y = draw.choice(sorted({name for pair in both for name in pair} - {x}))
            self._slow(lambda flow: flow.rail == rail and {x, y} == set(flow[1:]))
            self.truth = frozenset({Truth("path", tuple(sorted((x, y))), rail)})
        elif self.fault == "congestion":
            self.hit = draw.uniform(0.9 if self.nodes < 8 else 0.6, 1)
            all_of_them = self.rails > 1 and draw.random() < 0.3
            self.crowded = frozenset(self.rail_names if all_of_them else [rail])
            self.truth = frozenset({Truth("congestion", (), None if all_of_them else rail)})
        else:
            self._break_direction(x, rail)

    def _break_direction(self, x: str, rail: str) -> None:
        what = self.draw.choice(("tx", "rx", "one way"))
        if what == "one way":
            flow = self.draw.choice([flow for flow in self.flows if flow.rail == rail])
            self._slow(lambda other: other == flow)
            self.truth = frozenset({Truth("direction", tuple(sorted(flow[1:])), rail)})
        else:
            self._slow(lambda flow: flow.rail == rail and flow[1 if what == "tx" else 2] == x)
            self.truth = frozenset({Truth("direction", (x,), rail, what)})

    def _slow(self, through: object, *, fails: bool = True) -> None:
        assert callable(through)
        factor: Value = None if fails and self.draw.random() < 0.2 else self.draw.uniform(0.4, 0.85)
        for flow in self.flows:
            if through(flow):
                known = self.slow.get(flow, 1.0)
                self.slow[flow] = None if known is None or factor is None else min(known, factor)

    def _of(self, node: str) -> Truth:
        return Truth("node", (node,))


@lru_cache(maxsize=8)
def rounds_of(nodes: int, schedule: str, seed: int = 0) -> list[list[tuple[int, int]]]:
    """Rounds of disjoint pairs, each in both directions: all pairs, or a ring and fifteen random pairings."""
    circle, half = list(range(nodes)), nodes // 2
    found: list[list[tuple[int, int]]] = []
    if schedule == "pairwise":
        for _ in range(nodes - 1):
            found.append(list(zip(circle[:half], reversed(circle[half:]), strict=True)))
            circle = [circle[0], circle[-1], *circle[1:-1]]
    else:
        ring = [(number, (number + 1) % nodes) for number in range(nodes)]
        found += [ring[::2], ring[1::2]]
        draw, seen = seeded("schedule", nodes, seed), {frozenset(pair) for pair in ring}
        for _ in range(15):
            draw.shuffle(circle)
            pairs = list(zip(circle[:half], circle[half:], strict=True))
            found.append([pair for pair in pairs if frozenset(pair) not in seen])
            seen.update(map(frozenset, pairs))
    return [turned for pairs in found for turned in (pairs, [(b, a) for a, b in pairs])]


def searched(fabric: Simulated) -> tuple[Located, float]:
    """The answer of the search, and the seconds that it thought."""
    values = fabric.run()
    retests: dict[Flow, list[Value]] = {}
    thought = -time.process_time()
    search = Localiser(MeasuredFabric(values=values, expected=dict.fromkeys(fabric.rail_names, CEILING_GBIT_S)))
    for _ in range(MOST_ROUNDS):
        flows = search.suspects(retests)
        if not flows:
            break
        for flow, value in fabric.again(flows):
            retests.setdefault(flow, []).append(value)
    located = search.localise(retests)
    return located, thought + time.process_time()


def right(fabric: Simulated, located: Located) -> bool:
    """Whether exactly what is broken was named."""
    return {said(fault) for fault in located.faults} == fabric.truth


def upper_rate(failures: int, trials: int, confidence: float = 0.95) -> float:
    """Upper bound of a failure rate (Clopper and Pearson, one-sided); with no failure about 3 / trials."""
    low, high = failures / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(failures, trials, middle) > 1 - confidence else (low, middle)
    return high


def main() -> int:
    """Runs the matrix and prints it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", type=int, default=200)
    arguments.add_argument("--clean", type=int, default=2000)
    arguments.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    arguments.add_argument("--rails", type=int, nargs="*", default=RAILS)
    arguments.add_argument("--faults", nargs="*", default=FAULTS)
    arguments.add_argument("--schedule", default="pairwise")
    arguments.add_argument("--show", action="store_true", help="print each wrong answer")
    asked = arguments.parse_args()
    for fault, nodes, rails in itertools.product(asked.faults, asked.sizes, asked.rails):
        print(_line(fault, nodes, rails, asked), flush=True)
    accused = _accused(asked.clean, asked.sizes, asked.rails, asked.schedule)
    if asked.clean:
        bound = upper_rate(accused, asked.clean)
        print(f"clean fabrics accused: {accused} of {asked.clean}, 95 % upper bound of the rate {bound:.3%}")
    return 0


def _line(fault: str, nodes: int, rails: int, asked: argparse.Namespace) -> str:
    """One line of the matrix."""
    good, longest_s, again = 0, 0.0, 0.0
    for seed in range(asked.seeds):
        fabric = Simulated(nodes, rails, fault, seed, asked.schedule)
        located, thought_s = searched(fabric)
        good += right(fabric, located)
        longest_s, again = max(longest_s, thought_s), again + located.measured_again / len(fabric.flows)
        if asked.show and not right(fabric, located):
            print(fault, nodes, rails, seed, set(fabric.truth), [found.where for found in located.faults])
    share, more = good / max(asked.seeds, 1), again / max(asked.seeds, 1)
    return (
        f"{fault:12} {nodes:3} nodes {rails} rails: {good}/{asked.seeds} ({share:.1%}), {more:.1%} measured again, "
        f"search <= {longest_s:.2f} s"
    )


def _accused(count: int, sizes: Sequence[int], rails: Sequence[int], schedule: str) -> int:
    """Sound fabrics, evenly over all sizes, in which something was accused."""
    shapes = [(nodes, number) for nodes in sizes for number in rails]
    accused = 0
    for seed in range(count):
        nodes, number = shapes[seed % len(shapes)]
        located, _ = searched(Simulated(nodes, number, None, seed, schedule))
        if located.faults:
            accused += 1
            print("accused:", nodes, number, seed, [f"{fault.where}: {fault.numbers}" for fault in located.faults])
    return accused


if __name__ == "__main__":
    sys.exit(main())
