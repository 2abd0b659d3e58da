"""What a line of text must name, whatever the sentence around it says."""

import re


def naming(*facts: object) -> str:
    """A pattern for a line with all of these facts in any order, each as whole words; for `match` and `re.search`."""
    return "".join(rf"(?=.*{_whole(str(fact))})" for fact in facts)


def lines_naming(text: str, *facts: object) -> list[str]:
    """The lines of a text that have all of these facts."""
    return [line for line in text.splitlines() if re.match(naming(*facts), line)]


def _whole(fact: str) -> str:
    return rf"(?<!\w){re.escape(fact)}(?!\w)"
