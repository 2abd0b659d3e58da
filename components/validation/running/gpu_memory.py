"""Runs ib_write_bw between the memories of the GPUs nearest to two NICs: GPUDirect on the wire, without NCCL."""

import asyncio
from collections.abc import Mapping, Sequence

from components.ssh.connection import NoAnswerError
from components.validation.planning.schedule import Transfer
from components.validation.planning.stages import Stage
from components.validation.records import GpuTransfer, TransferResult
from components.validation.running.course import Say
from components.validation.running.readings import NotToldError
from components.validation.running.verbs import Bench, BusyError
from stacks.base import LabError
from stacks.words import plural

FOLDER = "gpu-memory"
PROOF = "allocated GPU buffer"
"""perftest's src/cuda_memory.c says so at each end, in all versions that know CUDA."""


async def measure_gpu_memory(bench: Bench, transfers: Sequence[TransferResult], say: Say) -> tuple[GpuTransfer, ...]:
    """Every transfer of the plan; whatever happens is a result.

    Args:
        bench: the hosts.
        transfers: what was measured between the hosts' memories.
        say: for progress.
    """
    stage = bench.plan.main_stage
    if stage is None:
        return ()
    host = {
        (one.rail, one.client, one.server): one.value
        for one in transfers
        if (one.test, one.shape, one.outcome) == (stage.test, stage.shape, "measured") and one.samples
    }
    results: list[GpuTransfer] = []
    rounds = bench.plan.gpu_memory
    for number, together in enumerate(rounds, 1):
        done = await asyncio.gather(*(_one(bench, stage, transfer, host) for transfer in together))
        results += done
        bad = [f"{t.rail} {t.client} to {t.server} {t.outcome}: {t.reason}" for t in done if t.outcome != "measured"]
        good = [t for t in done if t.outcome == "measured"]
        worst = min(good, key=lambda t: t.ratio, default=None)
        told = f"{plural(len(good), 'transfer')} measured" if good else "nothing measured"
        least = f", slowest {worst.gbit_s:.1f} Gbit/s, {worst.ratio:.0%} of host memory" if worst else ""
        say(f"gpu_memory round {number}/{len(rounds)}: {'; '.join([told + least, *bad[:2]])}")
    return tuple(results)


async def _one(
    bench: Bench, stage: Stage, transfer: Transfer, host: Mapping[tuple[str, str, str], float]
) -> GpuTransfer:
    base = GpuTransfer(rail=transfer.rail, client=transfer.client, server=transfer.server, outcome="skipped")
    if transfer.key not in host:
        return base.model_copy(update={"reason": "between the hosts' memories it was not measured"})
    try:
        ends = bench.ends_of(transfer)
        gpus = tuple(bench.ports[end.node].gpu_words(end) for end in (ends.client, ends.server))
    except LabError as error:
        return base.model_copy(update={"reason": str(error)})
    name = f"{FOLDER}/{transfer.rail}/{transfer.client}-to-{transfer.server}"
    known = base.model_copy(
        update={
            "host_gbit_s": host[transfer.key],
            "gpus": tuple(" ".join(words) for words in gpus),
            "raw": f"{name}.client",
        }
    )
    try:
        reading = await bench.once(stage, transfer, ends, stage.message_bytes, name, (gpus[0], gpus[1]))
    except (BusyError, NotToldError, NoAnswerError) as error:
        return known.model_copy(update={"outcome": "error", "reason": str(error)})
    except LabError as error:
        return known.model_copy(update={"outcome": "failed", "reason": str(error)})
    silent = [end for end in ("client", "server") if PROOF not in bench.raw.get(f"{name}.{end}", "")]
    faults = [*reading.faults, *(f"the {end} does not say that its buffer is in GPU memory" for end in silent)]
    return known.model_copy(
        update={
            "outcome": "failed" if faults else "measured",
            "reason": "; ".join(faults),
            "gbit_s": reading.value,
        }
    )
