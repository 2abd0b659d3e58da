"""Pages without their drawings, which take most of a page's time."""

import pytest

from components.report import page


@pytest.fixture
def charts_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of a page's text and links."""
    charts = [name for name in vars(page) if name.endswith("_chart")]
    assert charts
    for name in charts:
        monkeypatch.setattr(page, name, lambda *_: "")


@pytest.fixture
def trends_alone_are_drawn(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """For tests of what a trend shows."""
    drawn = page.trend_chart
    request.getfixturevalue("charts_left_out")
    monkeypatch.setattr(page, "trend_chart", drawn)
