"""A marked block of lines in a file that rocelab does not own; the lines outside the marks stay
unchanged.
"""

from typing import List, Sequence, Tuple

from .machine import StepError

BEGIN = "# BEGIN rocelab (written by machine: change the lab file instead)"
END = "# END rocelab"


def block_of(text: str, place: str) -> List[str]:
    """The lines between the marks; none without marks."""
    lines = _lines(text)
    first, last = _marks(lines, place)
    return lines[first + 1 : last]


def with_block(text: str, block: Sequence[str], place: str) -> str:
    """The text with this block, where the old one was or else at the end; without lines, the text
    without marks.
    """
    lines = _lines(text)
    first, last = _marks(lines, place)
    marked = [BEGIN, *block, END] if block else []
    changed = [*lines[:first], *marked, *lines[last + 1 :]]
    return "\n".join(changed) + "\n" if changed else ""


def _lines(text: str) -> List[str]:
    # not splitlines: it also splits at characters that are part of a line in a file of another
    # program
    return text[:-1].split("\n") if text.endswith("\n") else text.split("\n") if text else []


def _marks(lines: List[str], place: str) -> Tuple[int, int]:
    """Numbers of the two marked lines; the end of the file when there are none."""
    firsts = [i for i, line in enumerate(lines) if line.strip() == BEGIN]
    lasts = [i for i, line in enumerate(lines) if line.strip() == END]
    if not firsts and not lasts:
        return len(lines), len(lines)
    if len(firsts) != 1 or len(lasts) != 1 or lasts[0] < firsts[0]:
        raise StepError(
            f"{place} has {len(firsts)} lines {BEGIN!r} and {len(lasts)} lines {END!r}",
            "the markers were edited: keep one pair, or remove them and the lines between",
        )
    return firsts[0], lasts[0]
