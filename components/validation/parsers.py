"""Reads lines and numbers from the logs of benchmark tools. Judges nothing."""

import re

from stacks.base import LabError
from stacks.frozen import frozen


class ResultFormatError(LabError):
    """A tool's output that gives no number: foreign, truncated, or contradicting itself."""


@frozen
class Line:
    """One line as the tool printed it."""

    text: str
    rank: str | None = None
    """Who printed it, as the launcher's tag says: `1,0` of `[1,0]<stdout>:`; None without a tag."""


ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9])")
_STAMP = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,}(?:Z|[+-][0-9]{2}:[0-9]{2}) ")
"""Of `kubectl logs --timestamps`."""
_POD = re.compile(r"^\[pod/[^\]]{1,300}\] ")
"""Of `kubectl logs --prefix`."""
_TAG = re.compile(r"^[A-Za-z0-9: ]{0,40}\[([^\[\]]{1,100})\]<std(?:out|err|diag)>:? ?")
"""`[1,0]<stdout>:` of mpirun --tag-output, `[job@1,0]<stdout>: ` of PRRTE, `[0]<stdout>:` of
horovodrun; a time stamp may stand before each."""

INTEGER = r"[0-9]{1,19}"
NUMBER = r"-?[0-9]{1,19}(?:\.[0-9]{1,12})?(?:e[-+]?[0-9]{1,3})?"
"""Neither nan nor inf, no underscores, no other scripts' digits: all of them are numbers to
`float`."""
_NUMBER = re.compile(NUMBER)


def lines_of(text: str) -> list[Line]:
    """The lines. A carriage return ends one as well: with a terminal in between there is one before
    each line feed.
    """
    return [_line(raw) for raw in re.split(r"\r*\n|\r+", text)]


def _line(raw: str) -> Line:
    text = ANSI.sub("", raw) if "\x1b" in raw else raw
    # most lines have neither, and a run of a large lab has hundreds of thousands of lines
    if text.startswith("[pod/"):
        text = _POD.sub("", text, count=1)
    if text[4:5] == "-":
        text = _STAMP.sub("", text, count=1)
    tag = _TAG.match(text) if "<std" in text else None
    if tag:
        return Line(text=text[tag.end() :], rank=tag[1])
    return Line(text=text)


def of_one_rank(lines: list[Line], what: str) -> list[Line]:
    """Lines of which only one rank may be the author.

    Raises:
        ResultFormatError: when several ranks printed: their numbers would mix.
    """
    ranks = {line.rank for line in lines}
    if len(ranks) > 1:
        raise ResultFormatError(
            f"{what} of {len(ranks)} ranks are mixed: only one of them prints results"
        )
    return lines


def number(cell: str, what: str) -> float:
    """A number as these tools print them.

    Raises:
        ResultFormatError: when it is none.
    """
    if not _NUMBER.fullmatch(cell):
        raise ResultFormatError(f"{what}: {cell[:30]!r} is not a number")
    return float(cell)


def integer(cell: str, what: str) -> int:
    """A count as these tools print them.

    Raises:
        ResultFormatError: when it is none.
    """
    if not re.fullmatch(INTEGER, cell):
        raise ResultFormatError(f"{what}: {cell[:30]!r} is not a whole number")
    return int(cell)


def decimals(cell: str) -> int:
    """Digits behind the point: a cell that has lost its last ones is damaged, though still a
    number.
    """
    return len(cell.partition("e")[0].partition(".")[2])


def rounding(cell: str) -> float:
    """Half of the last printed digit: how far the number may lie from what the tool had
    worked out.
    """
    return 0.5 * 10.0 ** (int(cell.partition("e")[2] or 0) - decimals(cell))
