"""The two charts of the all-reduce that the DeepOps RoCE guide has: bandwidth and time, with a line per transport."""

import re

import pytest

from components.report.page import render_html
from tests.components.report.synthetic import Model, all_reduce_at

pytestmark = pytest.mark.usefixtures("collectives_alone_are_drawn")


@pytest.fixture(scope="module")
def charts(collectives_alone_are_drawn: None) -> dict[str, str]:
    """Each figure of the section by its caption."""
    page = render_html(Model().material())
    section = page.partition('<section id="collectives">')[2].partition("</section>")[0]
    figures = re.findall(r"<figure.*?</figure>", section, re.DOTALL)
    return {re.findall(r"<figcaption>([^<]*?)\s*<", figure)[0]: figure for figure in figures}


def texts(figure: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", figure)


@pytest.mark.row("A 352-360", "B 494-498")
def test_bandwidth_and_time_are_drawn_for_roce_tcp_and_the_hosts_network(charts: dict[str, str]) -> None:
    captions = [f"{program} all-reduce: {what}" for program in ("NCCL", "MPI") for what in ("bandwidth", "time")]
    assert list(charts) == captions
    for caption in captions[:2]:
        assert {text.partition(":")[0] for text in texts(charts[caption])} >= {"fabric", "tcp", "roce", "host"}


def test_the_time_is_that_of_the_largest_message_at_the_end_of_each_line(charts: dict[str, str]) -> None:
    shown = texts(charts["NCCL all-reduce: time"])

    assert "fabric: 175667" in shown, "µs for 2 GiB, as the guide's own table prints it"
    assert f"tcp: {all_reduce_at(4.3)[-1].time_us:.0f}" in shown
    assert "time, µs" in shown


@pytest.mark.row("A 352-360")
def test_the_time_is_drawn_over_all_sizes_of_the_table(charts: dict[str, str]) -> None:
    ticks = [text for text in texts(charts["NCCL all-reduce: time"]) if re.fullmatch(r"\d+ [KMG]?i?B", text)]

    assert len(all_reduce_at(22.845)) == 29, "from 8 bytes to 2 GiB"
    assert (ticks[0], ticks[-1]) == ("8 B", "256 MiB"), "every fifth power of two from the least to the greatest"


def test_a_run_that_kept_no_times_has_the_chart_of_bandwidth_alone() -> None:
    material = Model().material()
    assert material.document
    text = material.document.model_dump_json()
    without = type(material.document).model_validate_json(re.sub(r',"time_us":[\d.e+]+', "", text))
    assert without != material.document

    page = render_html(type(material)(summary=material.summary, document=without))

    assert "NCCL all-reduce: bandwidth" in page
    assert "NCCL all-reduce: time" not in page
