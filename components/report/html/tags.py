"""Elements as text. Whatever is not marked as HTML is escaped: names and messages come from hosts."""

import html
from collections.abc import Iterable

from components.report.lines import plain

NUMBER = '<td class="n"'
VOID = frozenset({"meta", "br", "col"})


class Html(str):
    """Text that is HTML already. Only this module and the charts make it."""

    __slots__ = ()


Content = str | Iterable["Content"] | None


def markup(content: Content) -> Html:
    """Content as HTML."""
    if content is None:
        return Html("")
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return Html(html.escape(plain(content), quote=False))
    return Html("".join(markup(part) for part in content))


def tag(name: str, *content: Content, **attributes: str | None) -> Html:
    """An element. An underscore at the end of an attribute's name is dropped, one inside is a hyphen."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{words}>")
    return Html(f"<{name}{words}>{markup(content)}</{name}>")


def table(head: Iterable[Content], rows: Iterable[Iterable[Content]], *, kind: str = "") -> Html:
    """A table in a box that scrolls by itself when the window is narrow."""
    lines = [[_cell(cell) for cell in row] for row in rows]
    numeric = [cell.startswith(NUMBER) for cell in lines[0]] if lines else []
    # a number stands to the right, and its column's name above it
    names = [
        tag("th", cell, scope="col", class_="n" if numeric[at : at + 1] == [True] else None)
        for at, cell in enumerate(head)
    ]
    made = tag("table", tag("thead", tag("tr", names)), tag("tbody", [tag("tr", *line) for line in lines]))
    return tag("div", made, class_=f"scroll {kind}".strip(), tabindex="0")


def number_cell(content: Content) -> Html:
    """A cell that stands to the right."""
    return tag("td", content, class_="n")


def _cell(content: Content) -> Html:
    return content if isinstance(content, Html) and content.startswith("<td") else tag("td", content)
