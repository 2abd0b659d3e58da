"""Reads what a report claims back out of its file, as HTML or as JSON. Pure."""

import json
from html.parser import HTMLParser

from pydantic import BaseModel, ValidationError

from components.report.checking import ROUNDED, Claim, Claims
from components.report.raw import names_again, names_of, nccl_name
from components.report.values import (
    AGAIN,
    NCCL_KEY,
    Measured,
    judged_key,
    measured_by,
    series_key,
    slowest_of,
    values_of,
)
from components.validation.records import RunRecord
from components.validation.summary import Summary
from stacks.base import LabError

NCCL = ("nccl_all_reduce", "")
"""The all-reduce over all rails; with a transport as its shape it is one of the comparison."""


class _Raw(BaseModel):
    sha256: str
    outputs: list[tuple[str, int, str, str]]


class _Document(BaseModel):
    verdict: Summary
    record: RunRecord
    raw: _Raw


def claims_in(text: str) -> Claims:
    """The claims of a report.

    Raises:
        LabError: when the text is no report, or one without a record.
    """
    if text.lstrip().startswith("{"):
        return _from_json(text)
    page = _Page()
    page.feed(text)
    if not page.run_id:
        raise LabError("this page is no report with raw outputs: make it where the lab's store is")
    return Claims(
        run_id=page.run_id,
        bundle_sha256=page.bundle_sha256,
        digests=page.digests,
        outputs=page.outputs,
        numbers=tuple(page.numbers),
        nccl=page.nccl,
        partial=frozenset(page.partial),
    )


def _from_json(text: str) -> Claims:
    try:
        found = _Document.model_validate(json.loads(text))
    except (ValidationError, ValueError) as error:
        first = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ("the file",)
        where = ".".join(map(str, first))
        raise LabError(f"{where}: this is no report in JSON with the record of a run") from None
    known = {name: sha256 for name, _, sha256, _ in found.raw.outputs}
    measured = [t for t in found.record.transfers if t.outcome == "measured"]
    outputs = {name: measured_by(t) for t in measured for name in names_of(t, known)}
    again = names_again(measured, known)
    outputs |= {
        name: (t.test, AGAIN, t.rail, t.client, t.server)
        for t in measured
        if t.retest
        for name in again.get(t.raw[0] if t.raw else "", ())
    }
    values = values_of(found.record)
    slowest = slowest_of(found.record, found.verdict, again)
    numbers = [Claim(key=key, value=value.value) for key, value in (values | slowest).items() if value.traceable]
    for test in found.verdict.tests:
        key = series_key(test.test, test.shape, test.rail, "median") if test.rail else NCCL_KEY
        # of several jobs of a program, each has its own number
        if test.median is not None and key in values and (test.rail or (test.test, test.shape) == NCCL):
            numbers.append(Claim(key=key, value=test.median, tolerance=ROUNDED))
        if test.worst is not None and test.rail is not None:
            key = judged_key((test.test, test.shape, test.rail, test.worst.client, test.worst.server))
            if key not in slowest or slowest[key].traceable:
                numbers.append(Claim(key=key, value=test.worst.value, tolerance=ROUNDED))
    return Claims(
        run_id=found.verdict.run_id,
        bundle_sha256=found.raw.sha256,
        digests=known,
        outputs=outputs,
        numbers=tuple(numbers),
        nccl=nccl_name(found.record, known),
    )


class _Page(HTMLParser):
    """The parts of the page that `html.raw_list` and `html.parts` made for this: what is read is what is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.run_id = self.bundle_sha256 = self.nccl = ""
        self.digests: dict[str, str] = {}
        self.outputs: dict[str, Measured] = {}
        self.numbers: list[Claim] = []
        self.partial: set[str] = set()
        self._group: tuple[str, str, str] | None = None
        self._number: tuple[str, float] = ("", 0.0)
        self._in_list = False
        self._pair = self._name = ""
        self._reading = self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes up what the page says in attributes, and what is to be read."""
        found = {key: value or "" for key, value in attrs}
        if self._reading == "name":
            self._name = self._read()
        if tag == "code" and found.get("id") == "bundle":
            self.run_id, self._reading = found.get("data-run", ""), "bundle"
        elif tag == "details" and "data-test" in found:
            self._group = (found["data-test"], found["data-shape"], found["data-rail"])
            if found.get("data-whole") != "yes":
                self.partial.add("/".join(self._group))
        elif tag == "table":
            self._in_list = found.get("class") == "raw"
        elif tag == "data" and "data-key" in found:
            self._number, self._reading = (found["data-key"], float(found["value"])), "number"
            if found["data-key"] == NCCL_KEY:
                self.nccl = found["data-raw"].partition(":")[2]
        elif self._in_list:
            self._in_row(tag, found)

    def _in_row(self, tag: str, found: dict[str, str]) -> None:
        """A row of the list: a cell with the name, one with the size, one with the digest."""
        if tag == "tr":
            self._pair, self._name = found.get("data-t", ""), ""
        elif tag == "td" and not self._name:
            self._reading = "name"
        elif tag == "code" and "class" not in found:
            self._reading = "digest"

    def handle_data(self, data: str) -> None:
        """Collects the text of what is being read."""
        if self._reading:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        """Closes what is being read."""
        if tag == "details":
            self._group = None
        elif tag == "table":
            self._in_list = False
        elif tag == "code" and self._reading == "bundle":
            self.bundle_sha256 = self._read()
        elif tag == "code" and self._reading == "digest":
            self._output(self._read())
        elif tag == "data" and self._reading == "number":
            self.numbers.append(Claim(key=self._number[0], value=self._number[1], text=self._read()))

    def _read(self) -> str:
        text, self._reading, self._text = self._text.strip(), "", ""
        return text

    def _output(self, digest: str) -> None:
        self.digests[self._name] = digest
        client, space, server = self._pair.partition(" ")
        if space and self._group:
            self.outputs[self._name] = (*self._group, client, server)
