"""The page in a real browser: legible in light and dark, wide and narrow, and it asks nobody for anything."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from components.report.page import render_html
from tests.components.report import browser
from tests.components.report.synthetic import Model

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(browser.PROGRAM is None, reason="no chromium on PATH: the page is not looked at"),
]

SIZES = [(1280, False), (1280, True), (390, False), (390, True)]

OVERLAPS = """[...document.querySelectorAll('svg.chart')].flatMap(drawing => {
  const boxes = [...drawing.querySelectorAll('text')].map(text => [text.getBoundingClientRect(), text.textContent]);
  return boxes.flatMap(([a, one], at) => boxes.slice(at + 1).filter(([b, other]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3).map(([b, other]) => one + ' | ' + other));
})"""
OUTSIDE = """[...document.querySelectorAll('figure:not(.wide) svg.chart text')].filter(text => {
  const inner = text.getBoundingClientRect(), page = document.querySelector('main').getBoundingClientRect();
  return inner.right > page.right || inner.left < page.left;
}).map(text => text.textContent)"""
CONTRAST = """(() => {
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = element => {
    for (; element; element = element.parentElement) {
      const found = rgb(getComputedStyle(element).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('p, td, th, li, h1, h2, h3, .chip, .axis span, a, svg.chart text')]
    .filter(element => element.textContent.trim() && element.getClientRects().length)
    .filter(element => !['#ffffff', '#111111'].includes(element.style.fill) &&
                       !/255, 255, 255|17, 17, 17/.test(element.style.fill))
    .map(element => {
      const style = getComputedStyle(element);
      const [a, b] = [light(rgb(element.closest('svg') ? style.fill : style.color)), light(ground(element))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.textContent.slice(0, 40)];
    }).filter(([ratio]) => ratio < 4.5);
})()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(render_html(Model(8, 2).material()), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    with browser.browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize(("width", "dark"), SIZES)
def test_it_is_legible(chromium: browser.Browser, page: Path, width: int, dark: bool) -> None:
    chromium.open(page, width=width, dark=dark)

    assert chromium.value("document.documentElement.scrollWidth") <= width, "the page itself never scrolls sideways"
    assert chromium.value(OVERLAPS) == []
    assert chromium.value(OUTSIDE) == []
    assert chromium.value(CONTRAST) == [], "4.5 to 1, as WCAG asks of text"
    ground = str(chromium.value("getComputedStyle(document.body).backgroundColor"))
    assert (ground < "rgb(2") == dark


@pytest.mark.parametrize("width", [1000, 1500])
def test_names_of_tests_and_rails_stay_on_one_line_beside_a_long_note(
    chromium: browser.Browser, tmp_path: Path, width: int
) -> None:
    material = Model(8, 2).material()
    note = "ran on one node only, because the other has no GPU that the driver can use. " * 3
    tests = [test.model_copy(update={"rail": "rail-a", "because": note}) for test in material.summary.tests]
    summary = material.summary.model_copy(update={"tests": tests})
    file = tmp_path / "report.html"
    file.write_text(render_html(replace(material, summary=summary)), encoding="utf-8")
    chromium.open(file, width=width, dark=False)

    assert tests
    for column in ("test", "rail"):
        names = f"[...document.querySelectorAll('td[data-name={column}] .v')]"
        assert chromium.value(f"{names}.map(name => name.getClientRects().length)") == [1] * len(tests)


def test_a_dark_page_is_printed_on_white(chromium: browser.Browser, page: Path) -> None:
    chromium.open(page, width=1000, dark=True, media="print")

    assert chromium.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert chromium.value("getComputedStyle(document.querySelector('h2')).color") == "rgb(22, 32, 43)"


def test_the_page_fetches_nothing_even_when_its_content_would(chromium: browser.Browser, page: Path) -> None:
    chromium.requests.clear()
    chromium.open(page, width=1280, dark=False)
    assert chromium.complaints == []
    asked = {address for address in chromium.requests if not address.startswith("data:")}
    assert asked == {page.as_uri()}

    chromium.requests.clear()
    chromium.value("document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/x.png\">')")
    for _ in range(100):
        chromium.value("1")  # events come with answers
        if chromium.complaints:
            break
        time.sleep(0.05)
    assert any("Content Security Policy" in text for text in chromium.complaints), "the page's own policy refuses it"


def test_links_from_numbers_lead_to_their_outputs(chromium: browser.Browser, page: Path) -> None:
    chromium.open(page, width=1280, dark=False)

    wrong = chromium.value(
        "[...document.querySelectorAll('a.to')].filter(a => !document.querySelector(a.getAttribute('href'))).length"
    )
    assert wrong == 0
    assert int(str(chromium.value("document.querySelectorAll('a.to').length"))) > 50
