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
"""As `rich` names styles. What is no pass is never green, and only what is broken or unknown is red."""


def colour_of(state: str, *, stale: bool = False) -> str:
    """The style of a state; empty for a text that is none. What passed before the last change is not green."""
    return COLOUR.get("warn" if stale and state == "pass" else state, "")
