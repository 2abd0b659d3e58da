"""Measures suspect transfers again with half as many beside them: what is good then was crowded, not broken."""

import time
from collections.abc import Iterable

from components.validation.judging.evidence import Value, Way
from components.validation.judging.levels import fabric_of, first_value
from components.validation.judging.localise import Localiser
from components.validation.planning.schedule import Transfer
from components.validation.planning.stages import Stage
from components.validation.records import TransferResult
from components.validation.running.verbs import Bench, run_round

LEAST_S, SHARE = 60.0, 0.25
"""How long it may take: this, or a share of the plan's estimate where that is more."""
FAILED = 0.0
"""Stands for a repetition that failed."""


async def retest(bench: Bench, stage: Stage, results: list[TransferResult]) -> tuple[list[TransferResult], str]:
    """The results with the repetitions of those that look bad, and what to say of it; nothing is judged here."""
    plan, began = bench.plan, time.monotonic()
    by_way = {Way(result.rail, result.client, result.server): result for result in results}
    fabric = fabric_of(plan, stage, results)
    if not fabric.values:
        return results, ""
    search = Localiser(fabric)
    rounds = plan.rounds_of(stage)
    transfer_of = {Way(*transfer.key): transfer for transfers in rounds for transfer in transfers}
    most = max(1, max((len(transfers) for transfers in rounds), default=1) // 2)
    limit_s = max(LEAST_S, SHARE * plan.verbs_estimate_s)
    again: dict[Way, list[Value]] = {}
    # who ran and contradicts the plan does so again, at whatever speed
    contradicts = {way for way, result in by_way.items() if result.outcome == "failed" and result.samples}
    hopeless = contradicts | {way for way in by_way if way in bench.cut_off}
    left: list[Way] = []
    while ways := [way for way in search.suspects(again) if way not in hopeless]:
        if time.monotonic() - began > limit_s:
            left = ways
            break
        for transfers in apart((transfer_of[way] for way in ways), most):
            if time.monotonic() - began > limit_s:
                break
            once = stage.model_copy(update={"repeats": 1})
            tag = f"retest-{sum(map(len, again.values()))}/"
            for done in await run_round(bench, once, transfers, tag=tag):
                way = Way(done.rail, done.client, done.server)
                again.setdefault(way, []).append(value := first_value(done))
                if value is None:
                    hopeless.add(way)  # to wait for it again and again would tell nothing new
    told = f"{len(again)} suspect transfers measured again with at most {most} at once" if again else ""
    if left:
        told += f"; {len(left)} not often enough to be sure, as {limit_s:.0f} s were over"
    for way, values in again.items():
        kept = tuple(FAILED if value is None else value for value in values)
        by_way[way] = by_way[way].model_copy(update={"retest": kept})
    return list(by_way.values()), told


def apart(transfers: Iterable[Transfer], most: int) -> list[list[Transfer]]:
    """Rounds of at most `most` transfers of which no two share a NIC."""
    rounds: list[tuple[list[Transfer], set[tuple[str, str]]]] = []
    for transfer in transfers:
        nics = {(transfer.rail, transfer.client), (transfer.rail, transfer.server)}
        for taken, used in rounds:
            if len(taken) < most and not nics & used:
                taken.append(transfer)
                used.update(nics)
                break
        else:
            rounds.append(([transfer], set(nics)))
    return [taken for taken, _ in rounds]
