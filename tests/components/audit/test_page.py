"""docs/audit.md has every check as the registry has it."""

from components.audit.registry import checks
from components.audit.table import with_table
from tests.conftest import ROOT


def test_the_page_has_the_table_of_the_registry() -> None:
    page = (ROOT / "docs" / "audit.md").read_text()

    assert page == with_table(page), "write it again: docs/audit.md says how"
    assert all(f"`{code}`" in page for code in checks())
