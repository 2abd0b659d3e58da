"""Pages without their drawings, which take most of a page's time."""

from collections.abc import Iterator

import pytest

from components.report import page


@pytest.fixture
def charts_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of a page's text and links."""
    _draw_only(monkeypatch)


@pytest.fixture
def trends_alone_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what a trend shows."""
    _draw_only(monkeypatch, "trend_chart")


@pytest.fixture(scope="module")
def collectives_alone_are_drawn() -> Iterator[None]:
    """For tests of what the charts of an all-reduce show."""
    with pytest.MonkeyPatch.context() as patch:
        _draw_only(patch, "lines_chart")
        yield


def _draw_only(patch: pytest.MonkeyPatch, *drawn: str) -> None:
    charts = {name for name in vars(page) if name.endswith("_chart")}
    assert charts > set(drawn)
    for name in charts - set(drawn):
        patch.setattr(page, name, lambda *_: "")
