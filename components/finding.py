"""A finding, and the Markdown of findings. Nothing in a text of a host or a tool can act in it."""

import html
import re
from collections.abc import Callable, Iterable, Sequence

from pydantic import BaseModel, ConfigDict, Field

COMMENT_LIMIT = 60_000
"""Characters. GitHub takes 65,536, GitLab 1,000,000."""
ZERO_WIDTH = "&#8203;"
"""Behind @ and # it keeps a text from naming people and threads."""
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


class Finding(BaseModel):
    """A fault, its place, and what to do about it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    """Stable, such as `NODE_SLOW`, `MTU_FINGERPRINT_1024` or `link-down`."""
    where: str
    """As text: `gpu07, all rails`, `rail-b gpu03 sending`, `path gpu01 to gpu05 on rail-a`."""
    evidence: str
    """The values or the answer that show it."""
    reason: str = Field(default="", exclude_if=lambda reason: not reason)
    """What goes wrong because of it, if the code alone does not say so."""
    hint: str = ""
    """What to check, to change or to run next."""

    def __str__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.where}: {self.evidence}{hint}"


def plain(text: str) -> str:
    """A text without control characters, and without those that turn the writing around."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(text: str) -> str:
    """A text in Markdown, on one line. It may come from anywhere, and nothing of it may act."""
    text = html.escape(plain(" ".join(text.split())), quote=False)
    text = re.sub(r"([\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", text)
    return re.sub(r"(@|#|:(?=//))", rf"\1{ZERO_WIDTH}", text)


def cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\N{HORIZONTAL ELLIPSIS}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of cells in Markdown, without columns that are empty in each row."""
    body = list(rows)
    columns = [place for place, cells in enumerate(zip(*body, strict=True)) if any(cells)]
    if not columns:
        return []
    lines = []
    for row in (head, *body):
        cells = [row[place] for place in columns]
        lines.append(f"| {' | '.join(cells)} |")
    lines.insert(1, "|---" * len(columns) + "|")
    return [*lines, ""]


def bullets(title: str, texts: Iterable[object]) -> list[str]:
    """A titled list of texts that are escaped; no lines without texts."""
    lines = [f"- {escaped(str(text))}" for text in texts]
    return [title, "", *lines, ""] if lines else []


def details(title: str, lines: Iterable[str]) -> list[str]:
    """Lines that a reader opens; nothing without lines."""
    body = "\n".join(lines).rstrip()
    if body:
        return [f"<details><summary>{title}</summary>", "", body, "", "</details>", ""]
    return []


def comment_head(command: str, title: str, headline: str) -> list[str]:
    """The first lines of a comment. Its marker finds it again in later runs."""
    marker = re.sub(r"[^A-Za-z0-9._]+", "-", title)
    heading = f"{title}: {headline}" if title else headline
    return [f"<!-- rocelab:{command} {marker or '-'} -->", f"### {escaped(heading)}", ""]


def fitted(text_of: Callable[[int], str], most: int, limit: int) -> str:
    """The text with the fewest cuts that keeps to a limit; with all `most` cuts if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if len(text_of(middle)) <= limit:
            high = middle
        else:
            low = middle + 1
    return text_of(low)
