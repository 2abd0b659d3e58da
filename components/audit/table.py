"""The checks as the table of docs/audit.md."""

from components.audit.registry import PRACTICE, Check, checks

BEGIN, END = "<!-- checks: begin -->", "<!-- checks: end -->"
"""What is between them in the page is generated."""


def table() -> str:
    """One table per subject."""
    groups: dict[str, list[Check]] = {}
    for check in checks().values():
        groups.setdefault(check.group, []).append(check)
    return "\n".join(text for group, some in groups.items() for text in _of(group, some))


def with_table(page: str) -> str:
    """A page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


def _of(group: str, some: list[Check]) -> list[str]:
    head = [f"\n### {group.capitalize()}\n", "| check | severity | right is | otherwise |", "|---|---|---|---|"]
    return [*head, *(f"| `{one.code}` | {one.severity.word} | {one.good} | {_why(one)} |" for one in some)]


def _why(check: Check) -> str:
    source = "practice" if check.source == PRACTICE else f"[source]({check.source})"
    return f"{check.why} ({source})"
