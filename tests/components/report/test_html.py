"""The page: what it must hold, whatever hosts put into their texts."""

import html
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from components.report.charts.trend import trends
from components.report.page import render_html
from components.validation.store import Material
from tests.components.report.synthetic import Model

VOID = {"meta", "br"}
OPTIONAL = {"tr", "td", "th", "thead", "tbody"}
BAD = "<script>x</script>&\"'$a$\x1b[2J\u202e"


@pytest.fixture(scope="module")
def page() -> str:
    return render_html(Model().material())


class Structure(HTMLParser):
    """Whether elements close in the order in which they opened, which ids there are, and which links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(str(value))
            if key in ("href", "src", "xlink:href", "action"):
                self.links.append(str(value))
            self.links += re.findall(r"url\(([^)]*)\)", value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] != tag and self.open[-1] in OPTIONAL:
            self.open.pop()
        assert self.open.pop() == tag


def test_every_id_is_there_once_and_every_link_leads_to_one(page: str) -> None:
    found = Structure(page)

    assert len(found.ids) == len(set(found.ids))
    inside = [link.removeprefix("#") for link in found.links if not link.startswith("data:image/png;base64,")]
    assert set(inside) <= set(found.ids), "and nothing outside of the page is named"
    assert "script" not in found.names


def test_a_test_that_cannot_run_has_a_row_with_its_reason(page: str) -> None:
    row = page.partition(">gpu_memory")[2].partition("</tr>")[0]

    assert "not run" in row
    assert "gpu01: perftest has no CUDA" in row


def test_the_page_forbids_the_browser_to_fetch_anything(page: str) -> None:
    assert "default-src 'none'" in html.unescape(page)
    assert "://" not in re.sub(r'xmlns="http://www.w3.org/2000/svg"', "", page)


@pytest.mark.whole
def test_the_same_material_gives_the_same_bytes_in_another_process(page: str) -> None:
    program = (
        "import sys; from tests.components.report.synthetic import Model; "
        "from components.report.page import render_html; sys.stdout.write(render_html(Model().material()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == page


def test_it_shows_every_part(page: str) -> None:
    titles = re.findall(r"<h2>([^<]*)</h2>", page)

    assert titles == [
        "Tests",
        "Findings",
        "Pairs",
        "Nodes",
        "Message sizes",
        "Collectives and applications",
        "Over time",
        "Inventory",
        "Chain of MTUs",
        "Counters",
        "What this cannot tell",
        "Raw outputs",
    ]
    assert page.count('<svg xmlns="http://www.w3.org/2000/svg" class="chart') == 13
    for text in (
        "rail-b gpu03 sending",
        "gpu03: 1500 differs",
        "gpu02: 1500 differs",
        "5.44 times",
        "MTU 1024",
        "RoCE over TCP",
        "MPI all-reduce",
    ):
        assert text in page


def test_charts_take_their_colours_from_the_page(page: str) -> None:
    drawings = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    colours = set(re.findall(r"#[0-9a-f]{6}\b", " ".join(re.sub(r'href="data:[^"]*"', "", d) for d in drawings)))

    assert colours <= {"#ffffff", "#111111"}, "which are numbers on cells whose colour is the same in light and dark"
    assert all("var(--" in drawing for drawing in drawings)
    assert all("<text" in drawing for drawing in drawings), "text stays text"


def test_what_hosts_say_does_not_act() -> None:
    model = Model(4, 1)
    model.nodes[1] = BAD
    model.rails[0] = f"rail{BAD}"
    material = model.material()
    found = render_html(replace(material, summary=material.summary.model_copy(update={"lab": BAD})))

    assert "<script>" not in found
    assert found.count("<meta ") == 5, "no attribute is left"
    assert "\x1b" not in found
    assert "\u202e" not in found
    assert "&lt;script&gt;x&lt;/script&gt;&amp;" in found
    Structure(found)


@pytest.mark.usefixtures("charts_left_out")
def test_everything_of_a_simulated_lab_is_labelled() -> None:
    page = render_html(Model(simulated=True).material())
    rows = page.partition('id="tests"')[2].partition("</table>")[0].split("<tr>")[2:]

    assert '<div class="band still"><p><strong>Simulated' in page
    assert all("simulated" in row for row in rows)
    assert all("not rated" in row for row in rows)
    assert "MTU 4096:" not in page, "no ceiling stands beside a simulated speed"


@pytest.mark.usefixtures("charts_left_out")
def test_a_stale_pass_is_not_green() -> None:
    material = Model().material()
    passed = material.summary.model_copy(
        update={"function": "pass", "performance": "pass", "stale": ("gpu01: boot",), "tests": ()}
    )
    page = render_html(replace(material, summary=passed))

    assert 'class="axis pass"' not in page
    assert "pass, but stale" in page
    assert "gpu01: boot" in page


def test_unknown_values_are_reported() -> None:
    material = Model().material()
    bare = Material(summary=material.summary, missing=("The record is not here.",))
    page = render_html(bare)

    assert bare.missing[0] in page
    assert material.summary.raw_sha256 in page
    assert 'id="bundle"' not in page
    assert "<svg" not in page
    assert 'class="to' not in page, "without raw outputs no number claims to have one"


def test_the_program_that_pulumi_runs_never_loads_the_libraries_of_the_page() -> None:
    loaded = "components.cli.report, components.validation.validation"
    program = f"import sys, {loaded}; sys.exit(bool({{'matplotlib', 'jinja2'}} & {{*sys.modules}}))"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.whole
def test_sixty_four_nodes_pairwise_fit_into_five_megabytes() -> None:
    page = render_html(Model(64, 2).material())

    assert len(page.encode()) < 5_000_000
    assert page.count("<td>ib_write_bw/one_way/") == 2 * 2 * (64 * 63) - 2, "each output is listed, but for the failed"


@pytest.mark.usefixtures("trends_alone_are_drawn")
def test_a_trend_is_interrupted_where_the_configuration_changed_and_distinguishes_runs_of_one_day() -> None:
    material = Model().material()
    assert material.document
    runs = tuple(
        run.model_copy(
            update={"started_at": f"2026-11-11T0{n % 10}:00:00Z", "config": {"nodes": "8" if n < 6 else "16"}}
        )
        for n, run in enumerate(material.document.history)
    )
    parts = {trend.title: trend.parts for trend in trends(runs)}
    changed = render_html(replace(material, document=material.document.model_copy(update={"history": runs})))

    assert parts["ib_write_bw"] == (0,) * 6 + (1,) * (len(runs) - 6)
    assert changed.count("interrupted") == sum(len(set(trend)) > 1 for trend in parts.values())
    assert "interrupted" not in render_html(material)
    assert "11-11 03:00" in changed


@pytest.mark.usefixtures("charts_left_out")
def test_every_chart_of_a_simulated_lab_has_a_place_for_its_label() -> None:
    material = Model(simulated=True).material()
    assert material.document
    passed = tuple(run.model_copy(update={"passed": True}) for run in material.document.history)
    page = render_html(replace(material, document=material.document.model_copy(update={"history": passed})))

    assert "figure:not(.replayed) figcaption small::after" in page, "the label hangs on the note"
    assert page.count("<figcaption>") == len(re.findall(r"<figcaption>[^<]*<small>[^<]", page)) > 5
