"""Rules of the benchmarks: what they ask for must be possible with the lab's nodes and rails."""

from collections.abc import Callable, Iterator

from stacks.benchmarks import Benchmarks
from stacks.rules.parts import Fault, Parts
from stacks.words import plural

LAST_PORT = 65_535


def _refuse_an_incast_that_no_rail_can_hold(parts: Parts) -> Iterator[Fault]:
    benchmarks = parts.section("benchmarks", Benchmarks)
    if benchmarks is None or not benchmarks.verbs.incast or not parts.all_rails_valid:
        return
    on_rail = {rail.name: 0 for rail in parts.rails.values()}
    for _, node, pf in parts.pfs():
        if node.state == "active" and pf.rail in on_rail:
            on_rail[pf.rail] += 1
    most = max(on_rail.values(), default=0)
    if benchmarks.verbs.incast >= most:
        yield Fault(
            ("benchmarks", "verbs", "incast"),
            f"{benchmarks.verbs.incast} senders need one receiver more, but no rail has more than {most} active nodes; "
            f"set at most {max(most - 1, 0)}, or 0 to skip incast",
        )


def _refuse_ports_beyond_the_last(parts: Parts) -> Iterator[Fault]:
    benchmarks = parts.section("benchmarks", Benchmarks)
    if benchmarks is None:
        return
    verbs, needed = benchmarks.verbs, max(len(parts.rails), benchmarks.verbs.incast)
    if verbs.first_port + needed - 1 > LAST_PORT:
        yield Fault(
            ("benchmarks", "verbs", "first_port"),
            f"{verbs.first_port} leaves too few of the {plural(needed, 'port')} that the tests need; "
            f"set at most {LAST_PORT - needed + 1}",
        )


BENCHMARK_RULES: tuple[Callable[[Parts], Iterator[Fault]], ...] = (
    _refuse_an_incast_that_no_rail_can_hold,
    _refuse_ports_beyond_the_last,
)
