"""docs/audit-checks.md has every check as the registry has it. UPDATE_GOLDEN=1 writes its tables again."""

import os

from components.audit.registry import PRACTICE, Check, checks
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "audit-checks.md"
BEGIN, END = "<!-- checks: begin -->", "<!-- checks: end -->"
"""What is between them in the page is generated."""


def tables() -> str:
    """One table per subject."""
    groups: dict[str, list[Check]] = {}
    for check in checks().values():
        groups.setdefault(check.group, []).append(check)
    return "\n".join(line for group, some in groups.items() for line in table(group, some))


def table(group: str, some: list[Check]) -> list[str]:
    head = [f"\n### {group.capitalize()}\n", "| check | severity | fault | why it matters |", "|---|---|---|---|"]
    return [*head, *(f"| `{one.code}` | {one.severity.word} | {one.title} | {why(one)} |" for one in some)]


def why(check: Check) -> str:
    source = "practice" if check.source == PRACTICE else f"[source]({check.source})"
    return f"{check.why} ({source})"


def test_the_page_has_the_table_of_the_registry() -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    wanted = f"{before}{BEGIN}\n{tables()}\n{END}{rest.partition(END)[2]}"
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(wanted)
        page = wanted

    assert page == wanted, "write it again with UPDATE_GOLDEN=1"
    assert all(f"`{code}`" in page for code in checks())
