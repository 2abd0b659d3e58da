"""The colour of each state on a terminal; pages have their own, for light and dark."""

COLOUR = {
    "pass": "green",
    "partial": "yellow",
    "warn": "yellow",
    "fail": "bold red",
    "skip": "yellow",
    "error": "bold red",
    "unstable": "yellow",
    "replayed": "default",
    "not run": "default",
    "not rated": "default",
}
"""Styles of `rich`. Only a pass is green, and only broken or unknown states are red."""


def colour_of(state: str, *, stale: bool = False) -> str:
    """The style of a state; empty for any other text. A stale pass is not green."""
    return COLOUR.get("warn" if stale and state == "pass" else state, "")
