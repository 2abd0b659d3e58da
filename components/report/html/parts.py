"""What several sections of the page use: states, anchors, figures."""

import re

from components.report.html.tags import Content, Html, tag

SIGN = {
    "pass": "✓",
    "warn": "!",
    "fail": "✕",
    "partial": "◐",
    "skip": "\N{MINUS SIGN}",
    "error": "?",
    "unstable": "~",
    "replayed": "⟲",
    "not rated": "○",
}
STILL = ("not rated", "replayed")
"""States that say nothing, neither good nor bad."""


def state_class(state: str, *, stale: bool = False) -> str:
    """The style of a state. What is stale is never green."""
    if state in STILL:
        return "still"
    return "warn" if stale and state == "pass" else state


def chip(state: str, *, stale: bool = False) -> Html:
    """A state as a word with a sign, so that its colour is not needed."""
    return tag("span", f"{SIGN.get(state, '')} {state}", class_=f"chip {state_class(state, stale=stale)}")


def anchor_of(*words: str) -> str:
    """An id out of names that may hold anything."""
    return "raw-" + re.sub(r"[^a-zA-Z0-9-]", lambda found: f"_{ord(found[0]):x}", "-".join(words))


def figure(caption: str, note: str, svg: str, *, kind: str | None = None) -> Html:
    """A chart with what it shows and how to read it. `wide` scrolls on its own; `replayed` is not even simulated."""
    head = tag("figcaption", caption, tag("small", note) if note else None)
    return tag("figure", head, Html(svg), class_=kind)


def section(title: str, name: str, *content: Content) -> Html:
    """A part of the page that can be linked to."""
    return tag("section", tag("h2", title), *content, id=name)


def bullets(texts: tuple[str, ...] | list[str]) -> Html:
    """Texts of tools and hosts, one below the other."""
    return tag("ul", [tag("li", text) for text in texts], class_="texts")
