"""The top of the page: both axes, what to know about them, every test in a line, and what was found."""

from components.report.html.parts import bullets, chip, section, state_class
from components.report.html.sources import Sources
from components.report.html.tags import Content, Html, markup, tag
from components.report.lines import (
    counted,
    duration,
    number,
    other_hints,
    percent,
    rated,
    test_title,
    when,
)
from components.report.sources import Material
from components.validation.memory.history import Entry
from components.validation.records import TransferResult, unit_text
from components.validation.summary import JudgedTest, Regression, Summary
from stacks.words import plural

COLUMNS = ("test", "rail", "function", "performance", "median", "slowest", "ceiling", "of ceiling", "change", "note")


def head(material: Material) -> Html:
    """Name, both axes, and the banners that nobody may miss."""
    summary = material.summary
    facts = {
        "measured": f"{when(summary.started_at)}, took {duration(summary.duration_s)}",
        "run": summary.run_id,
        "mode": summary.mode,
        "fingerprint": summary.fingerprint[:16] or "none",
    }
    return Html(
        tag("h1", f"Validation of {summary.lab}")
        + tag("dl", *(tag("div", tag("dt", name), tag("dd", text)) for name, text in facts.items()), class_="facts")
        + tag(
            "div",
            _axis("Function: does it work as declared?", summary.function, _counts(summary), stale=bool(summary.stale)),
            _axis("Performance: how close to physics?", summary.performance, rated(summary), stale=bool(summary.stale)),
            class_="axes",
        )
        + "".join(_banners(material))
    )


def _axis(question: str, state: str, detail: str, *, stale: bool) -> Html:
    word = tag("span", f"{state}, but stale" if stale and state == "pass" else state)
    return tag(
        "div",
        tag("b", question),
        word,
        tag("small", detail) if detail else None,
        class_=f"axis {state_class(state, stale=stale)}",
    )


def _counts(summary: Summary) -> str:
    tests = [test for test in summary.tests if test.function != "replayed"]
    passed = sum(test.function == "pass" for test in tests)
    quarantined = f", {plural(len(summary.quarantined), 'host')} quarantined" if summary.quarantined else ""
    return f"{passed} of {plural(len(tests), 'test')} pass{quarantined}"


def _banners(material: Material) -> list[Html]:
    summary, found = material.summary, []
    if summary.stale:
        told = tag("p", tag("strong", "Stale: "), "since it was measured, something changed that it depends on.")
        found.append(tag("div", told, bullets(summary.stale), class_="band warn"))
    if summary.simulated:
        told = tag(
            "p",
            tag("strong", "Simulated. "),
            "Every number here was measured on the simulator: behaviour is real, speed is not, and nothing on this "
            "page says anything about hardware.",
        )
        found.append(tag("div", told, class_="band still"))
    if any(test.function == "replayed" for test in summary.tests):
        told = tag(
            "p",
            tag("strong", "Replayed. "),
            "A log that is marked so was recorded on other machines and is only shown: it enters no verdict.",
        )
        found.append(tag("div", told, class_="band still"))
    if material.missing:
        found.append(tag("div", bullets(material.missing), class_="band still"))
    return found


def tests(material: Material, sources: Sources) -> Html:
    """Every test in a line."""
    summary = material.summary
    lines = [[markup(cell) for cell in _cells(test, summary, sources)] for test in summary.tests]
    shown = [at for at in range(len(COLUMNS)) if any(line[at] for line in lines)]
    rows = (
        tag(
            "tr",
            *(
                tag("td", tag("span", line[at], class_="v") if line[at] else None, data_name=COLUMNS[at])
                for at in shown
            ),
        )
        for line in lines
    )
    names = (tag("th", COLUMNS[at], scope="col") for at in shown)
    made = tag("table", tag("thead", tag("tr", *names)), tag("tbody", rows))
    return section("Tests", "tests", tag("div", made, class_="scroll stack", tabindex="0"))


def _cells(test: JudgedTest, summary: Summary, sources: Sources) -> tuple[Content, ...]:
    label = "replayed" if test.function == "replayed" else "simulated" if summary.simulated else ""
    of = counted(test)
    worst: Content = None
    if test.worst:
        pair = f"{test.worst.client} to {test.worst.server}"
        worst = [sources.worst(test), tag("small", pair)]
    return (
        test_title(test),
        test.rail or "all",
        [chip(test.function, stale=bool(summary.stale)), tag("small", of) if of else None],
        chip(test.performance, stale=bool(summary.stale)),
        [sources.median(test, test.median), " ", unit_text(test.unit), tag("small", label) if label else None]
        if test.median is not None
        else None,
        worst,
        f"{'bound ' if test.unit == 'us' else ''}{number(test.ceiling)} {unit_text(test.unit)}"
        if test.ceiling is not None
        else None,
        percent(test.ratio),
        percent(test.change, signed=True),
        test.because if test.because != label else "",
    )


def findings(material: Material) -> Html | None:
    """Reasons, places of faults with their evidence, and hints."""
    summary = material.summary
    content: list[Content] = []
    if summary.reasons:
        content += [tag("h3", "Why the verdict is not better"), bullets(summary.reasons)]
    if summary.findings:
        rows = [
            tag(
                "li",
                tag("strong", finding.where),
                ": ",
                finding.evidence,
                tag("small", finding.hint, class_="note") if finding.hint else None,
                tag("code", finding.code),
            )
            for finding in summary.findings
        ]
        content += [tag("h3", "Where it is, as far as the measurements tell"), tag("ul", rows, class_="texts")]
        content.append(
            tag("p", "What stands in small letters says where to look. It is never a cause.", class_="small")
        )
    if hints := other_hints(summary):
        content += [tag("h3", "Hints"), bullets(hints)]
    if summary.quarantined:
        named = [f"{host}: {text}" for host, text in summary.quarantined.items()]
        content += [tag("h3", "Hosts that took no part"), bullets(named)]
    return section("Findings", "findings", *content) if content else None


def ceilings(material: Material) -> Html | None:
    """What each ceiling was worked out from."""
    lines = [
        f"{test_title(t)}{f' on {t.rail}' if t.rail else ''}: {t.basis}" for t in material.summary.tests if t.basis
    ]
    return tag("details", tag("summary", "What the ceilings are"), bullets(lines)) if lines else None


def regression(found: Regression | None, history: tuple[Entry, ...]) -> Html | None:
    """This run against its baseline."""
    if found is None:
        return None
    began = next((when(run.started_at) for run in history if run.run_id == found.baseline_run), "")
    against = f"Against run {found.baseline_run}{f' of {began}' if began else ''}: "
    shown = {"same": "pass", "better": "pass", "worse": "fail", "unconfirmed": "unstable"}.get(
        found.verdict, "not rated"
    )
    word = tag("span", found.verdict, class_=f"chip {state_class(shown)}")
    return Html(tag("p", against, word) + (bullets(found.reasons) if found.reasons else ""))


def slowest(transfers: list[TransferResult], most: int) -> list[TransferResult]:
    """The transfers with the least value for their unit: least bandwidth, or most latency."""
    return sorted(transfers, key=lambda t: -t.value if t.unit == "us" else t.value)[:most]
