"""Programs of these tests have no vCenter that could be looked at."""

from collections.abc import Iterator

import pytest

from components.fabric.vcenter import session


@pytest.fixture(autouse=True, scope="module")
def peers() -> Iterator[list[session.VcenterEndpoint]]:
    """What a program looked at, in place of looking."""
    seen: list[session.VcenterEndpoint] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "verify", seen.append)
        yield seen
