"""One running lab for all tests of this folder: the reference lab without benchmarks, which have tests of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import start_clean
from tests.integration.stack import Stack, assert_nothing_secret_was_left


@pytest.fixture(scope="package")
def lab_stack(simulator: Path) -> Iterator[Stack]:
    """The lab, up; each test leaves it as the lab file has it. Nodes and cluster are as new afterwards."""

    def unmeasured(lab: dict[str, Any]) -> None:
        lab.pop("benchmarks")

    stack = Stack.make(simulator / "tests-standing")
    with stack.edited(unmeasured):
        stack.up().succeeded()
        yield stack
    try:
        assert_nothing_secret_was_left(stack)
    finally:
        start_clean("lab")
