"""mpirun's words and the variables of the ranks: what is renamed, gone, or lost on the way to another pod."""

import re
from itertools import pairwise

from pydantic import JsonValue

from components.jobs.convert.lines import Path
from components.jobs.convert.work import Map, Work, as_list

LEVELS = {"0": "LOC", "1": "PIX", "2": "PXB", "3": "PHB", "4": "SYS", "5": "SYS"}
"""NCCL's old numbers for how far a GPU may be from the NIC."""
RENAMED = {"NCCL_IB_GDR_LEVEL": "NCCL_NET_GDR_LEVEL"}
GONE = {
    "NCCL_IB_GID_INDEX": "left out: the index differs from pod to pod, and NCCL finds it by itself",
    "NCCL_IB_CUDA_SUPPORT": "left out: NCCL no longer reads it, NCCL_NET_GDR_LEVEL decides",
    "OMPI_MCA_plm_rsh_agent": "left out: it named kubexec.sh, and workers are reached by SSH now",
}
MCA = ("-mca", "--mca")
STAYS_OFF_RAILS = ("--mca", "btl_tcp_if_include", "eth0")
IN_SHELL = {
    "NCCL_IB_GDR_LEVEL": "is NCCL_NET_GDR_LEVEL today (0 is LOC, 2 is PXB)",
    "NCCL_IB_GID_INDEX": "differs from pod to pod: take it out",
    "^openib": "is gone with Open MPI 5: use --mca btl tcp,self --mca btl_tcp_if_include eth0",
    "kubexec": "is gone: workers are reached by SSH now",
}

Word = tuple[str, Path]


def convert_variable(name: str, value: str) -> tuple[str, str, str] | None:
    """New name, new value and why; None when nothing changes. An empty new name: it goes."""
    if name in GONE:
        return "", "", GONE[name]
    new = RENAMED.get(name, name)
    level = LEVELS.get(value, value) if new == "NCCL_NET_GDR_LEVEL" else value
    if (new, level) == (name, value):
        return None
    why = f"{name}={value} is {new}={level} today"
    return new, level, f"{why}; NCCL ignores the old name" if new != name else why


def convert_env(work: Work, path: Path, container: Map) -> None:
    """The variables of a container itself."""
    kept: list[JsonValue] = []
    for position, entry in enumerate(as_list(container.get("env"))):
        here = (*path, "env", position)
        if not isinstance(entry, dict) or ("value" not in entry and entry.get("name") not in GONE):
            kept.append(entry)
            continue
        changed = convert_variable(str(entry.get("name")), str(entry.get("value")))
        if changed:
            work.note(here, changed[2])
        name, value = changed[:2] if changed else (entry.get("name"), entry.get("value"))
        if name:
            kept.append({**entry, "name": name, "value": value})
    if "env" in container:
        container["env"] = kept
        if not kept:
            del container["env"]


def convert_launch(work: Work, path: Path, container: Map, lost: dict[str, str]) -> None:
    """The launcher's words; `lost` are variables of the workers that no rank would see any more."""
    words = [
        (str(word), (*path, key, position))
        for key in ("command", "args")
        for position, word in enumerate(as_list(container.get(key)))
    ]
    for word, here in words:
        if re.search(r"\s", word):
            for old, why in IN_SHELL.items():
                if old in word:
                    work.note(here, f"{old} inside a shell text, which is left as it is: {why}")
    start = next((i for i, (word, _) in enumerate(words) if word.rpartition("/")[2] in ("mpirun", "mpiexec")), None)
    if start is None:
        work.note(path, "its command is no list of words that begins with mpirun, so it is left as it is")
        if lost:
            names = ", ".join(sorted(lost))
            work.note(path, f"give {names} to the ranks with -x: sshd sessions do not inherit them from the workers")
        return
    head, rest = words[: start + 1], _options(work, words[start + 1 :])
    given = {word.partition("=")[0] for flag, word in _pairs([word for word, _ in rest]) if flag == "-x"}
    added = [word for name, value in lost.items() if name not in given for word in ("-x", f"{name}={value}")]
    missing = [name for name in ("LD_LIBRARY_PATH", "PATH") if name not in given]
    added += [word for name in missing for word in ("-x", name)]
    if added:
        carried = ", ".join(added[1::2])
        work.note(path, f"-x {carried} added to mpirun: sshd sessions do not inherit what the pod or the image sets")
    container["command"] = [word for word, _ in head]
    container["args"] = [*added, *(word for word, _ in rest)]


def _options(work: Work, words: list[Word]) -> list[Word]:
    """The words of mpirun with those of the old transport replaced."""
    kept: list[Word] = []
    position, on_eth0 = 0, any(word == "btl_tcp_if_include" for word, _ in words)
    while position < len(words):
        (word, here), after = words[position], words[position + 1 : position + 3]
        values = [value for value, _ in after]
        if word == "-x" and values and "=" in values[0]:
            kept += _exported(work, words[position], after[0])
            position += 2
        elif word in MCA and values[:1] == ["btl"] and "openib" in "".join(values[1:]):
            work.note(
                after[1][1], f"btl {values[1]}: gone with Open MPI 5; tcp,self over eth0 now, or MPI takes a rail"
            )
            kept += [("--mca", here), ("btl", here), ("tcp,self", here)]
            kept += [] if on_eth0 else [(each, here) for each in STAYS_OFF_RAILS]
            position += 3
        elif word in MCA and values[:1] == ["plm_rsh_agent"]:
            work.note(here, GONE["OMPI_MCA_plm_rsh_agent"])
            position += 3
        else:
            kept.append((word, here))
            position += 1
    return kept


def _exported(work: Work, flag: Word, given: Word) -> list[Word]:
    name, _, value = given[0].partition("=")
    changed = convert_variable(name, value)
    if changed is None:
        return [flag, given]
    work.note(given[1], changed[2])
    return [flag, (f"{changed[0]}={changed[1]}", given[1])] if changed[0] else []


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    return list(pairwise(words))
