"""What lines of a log say of causes: one list for a lab's verdict and for `rocelab judge`."""

import re
from collections.abc import Iterator

from stacks.frozen import frozen
from stacks.safe_yaml import load_beside


@frozen
class LogSign:
    """A cause that shows in a line of text."""

    code: str
    pattern: str
    evidence: str
    hint: str = ""


_ROWS = load_beside(__file__, "signs.yaml")
LOG_SIGNS = [LogSign(**row) for row in _ROWS]
_HINTS = {sign.code: sign.hint for sign in LOG_SIGNS}
GPUDIRECT_HINT = _HINTS["GPUDIRECT_OFF"]
GPU_PEERS_HINT = (
    "check nvidia-smi topo -p2p r, ACS and IOMMU, and NCCL_P2P_DISABLE or NCCL_P2P_LEVEL"
)
FAILURES = ("GPU_FAULT", "NET_ERROR")
LONGEST_LINE = 120


def signs_in(text: str) -> Iterator[tuple[LogSign, str]]:
    """Each sign with the first line that shows it."""
    for sign in LOG_SIGNS:
        match = re.search(sign.pattern, text)
        if match is not None:
            begin = text.rfind("\n", 0, match.start()) + 1
            line = text[begin:].partition("\n")[0].strip()
            yield sign, line[:LONGEST_LINE]


def reasons_in(text: str) -> list[str]:
    """Why a run gave no number, as its log has it."""
    return [f"{sign.evidence} ({line})" for sign, line in signs_in(text) if sign.code in FAILURES]
