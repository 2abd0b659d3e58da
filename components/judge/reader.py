"""Reads what people paste: whole logs, excerpts, prefixed lines, several tables in one text.

A row counts only if it confirms itself. What is missing is named; a contradiction is a finding.
"""

import re

from components.judge.log_so_far import LogSoFar
from components.judge.results import Result, ResultRow
from components.judge.tables import claim, mpi, nccl_tests, perftest, training, ucx
from components.validation.parsers import ANSI, NUMBER
from stacks.words import plural

TABLES = (perftest.take, nccl_tests.take, mpi.take, ucx.take)
STAMP = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:? "
PREFIX = re.compile(
    rf"^(?:> ?|\s*\d{{1,6}}: |{STAMP}|\[pod/[^\]]{{1,300}}\] |"
    r"[A-Za-z0-9: ]{0,40}\[[^\[\]]{1,100}\]<std(?:out|err|diag)>:? ?|"
    r"[\w.-]{1,80}: (?=[\s#]*\d+ +\d+ )|"
    r"[\w.-]{1,80} +\| (?=[\s#]*\S))+"
)
PREFIX_MARKS = (": ", "] ", "]<", "| ", "> ", "Z ")
FENCE = re.compile(r"^\s*(?:```|~~~)")
NUMBERS = re.compile(rf"^\s*\d{{1,19}}(?:\s+{NUMBER})+\s*$")
BEGINS_WITH_NUMBER = re.compile(r"^\s*\d+\s")
PROGRAM_MARKS = ("_perf", "ib_", "osu_", "ucx_", "-t ")
NOTED = (
    *("error", "fail", "warn", "xid", "timeout", "retry", "retries", "refused", "denied"),
    *("unable", "couldn't", "allocated gpu", "use_cuda", "dmabuf", "rdma disabled", "via shm"),
    *("hypervisor", "kvm", "qemu", "vmware", "virtual machine", "bond", "sharp", "collnet"),
    *("nvls", "relax", "flow control", "nnodes", "nvlink", "mtu"),
)
"""Words of lines that may show a cause. A search for words is ten times as fast as a pattern."""
NOTED_AS_WRITTEN = ("ACS", "ECE")
GPU_BUFFER = re.compile(r"--use_(?:cuda|rocm)|allocated GPU buffer|initializing CUDA")
MOST_NOTES, MOST_RESULTS, LONGEST_LINE = 400, 64, 2000
MOST_CLAIMS = 20
LONGEST_SENTENCES = 20_000
"""A longer text is a log, and a number in one of its sentences is no claim."""


def text_of(data: bytes) -> str:
    """The text of a file; what PowerShell writes is UTF-16."""
    encoding = "utf-8"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    return data.decode(encoding, errors="replace")


class Reader(LogSoFar):
    """Reads line by line."""

    def __init__(self) -> None:
        super().__init__()
        self.training: list[str] = []

    def read(self, text: str) -> list[Result]:
        cut = bool(text) and not text.endswith(("\n", "\r", "`"))
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for number, line in enumerate(lines, 1):
            if len(self.results) >= MOST_RESULTS:
                self.results[-1].gaps.append(
                    f"what follows line {number}: {MOST_RESULTS} tables are read"
                )
                break
            if len(line) <= LONGEST_LINE:
                self._clean_line(line, number, last=cut and number == len(lines))
        return self._finished(text)

    def _clean_line(self, line: str, number: int, *, last: bool) -> None:
        if "\x1b" in line:
            line = ANSI.sub("", line)
        if "NCCL " in line and "NCCL_" not in line.partition("NCCL ")[0]:
            if self.nccl.counts(line):
                line = PREFIX.sub("", line, count=1)
                self.nccl.take(line, self.facts)
                self._note(line)
            return
        if line[:1] != "#" and any(mark in line for mark in PREFIX_MARKS):
            line = PREFIX.sub("", line, count=1)
        if line and not FENCE.match(line):
            self._line(line, number, last=last)

    def _note(self, line: str) -> None:
        if len(self.notes) >= MOST_NOTES:
            return
        if _has(line.lower(), NOTED) or _has(line, NOTED_AS_WRITTEN):
            self.notes.append(line[:300])

    def _line(self, line: str, number: int, *, last: bool) -> None:
        named = _has(line, PROGRAM_MARKS) and claim.PROGRAM.search(line)
        if named:
            self.collective = named[1] or named[2] or self.collective
            self.point_to_point = named[3] or named[4] or self.point_to_point
        self._settings(line)
        self._note(line)
        for take in TABLES:
            if take(self, line, number):
                return
        table = self.current
        if table is not None and not table.open:
            table = None
        if table and table.program.startswith(("osu_", "IMB ")) and last:
            # nothing in such a row shows that its last digits are missing
            table.damaged += bool(BEGINS_WITH_NUMBER.match(line))
        elif table and NUMBERS.match(line):
            self._cells(table, line.split())
        elif perftest.take_bare_row(self, line, number):
            return
        elif training.LINE.match(line):
            self.training.append(line)
        elif table and BEGINS_WITH_NUMBER.match(line):
            table.damaged += 1
        elif not self.results and len(self.claims) < MOST_CLAIMS:
            sentence = claim.claim_in(line, number, self.collective, cut=last)
            if sentence:
                self.claims.append(sentence)

    def _settings(self, line: str) -> None:
        """Options and variables of a command line that the output does not repeat."""
        if ("GPU" in line or "use_" in line or "CUDA" in line) and GPU_BUFFER.search(line):
            self.facts.gpu_memory = True
        if "NCCL_" not in line:
            return
        if algorithm := re.search(r"\bNCCL_ALGO[=: ]+(\w+)", line):
            self.facts.algorithm = algorithm[1].capitalize()
        if re.search(r"\bNCCL_IB_DISABLE[=: ]+1|\bNCCL_NET[=: ]+Socket", line):
            self.facts.sockets = True

    def _cells(self, current: Result, cells: list[str]) -> None:
        if current.read_row is None:
            return
        row = current.read_row(current, cells)
        if row is None:
            current.damaged += 1
        elif not current.rows or (row.size_bytes or 0) > (current.rows[-1].size_bytes or 0):
            current.rows.append(row)
        else:
            current.open = False

    def _finished(self, text: str) -> list[Result]:
        if self.results:
            last = self.results[-1]
            last.notes = [*last.notes, *self.notes]
            last.network = last.network or self.nccl.network
        if self.training:
            self.results.append(training.result_of(self.training, text.count("\n") + 1))
        results = _without_doubles(self.results)
        if not results and not self.nccl.lines and len(text) < LONGEST_SENTENCES:
            results = self.claims
        if not results:
            self.nccl.count_nics(self.facts)
            result = Result(program="", kind="unknown", line=1, facts=self.facts, notes=self.notes)
            result.network = self.nccl.network
            result.gaps.append("a table of results")
            results = [result]
        for result in results:
            _name_gaps(result)
        return results


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def read_results(text: str) -> list[Result]:
    """All results of a text; at least one, which then has no rows."""
    return Reader().read(text)


def _without_doubles(results: list[Result]) -> list[Result]:
    """Both ends of perftest print the same table, and runs without MPI print an empty head each."""
    kept: list[Result] = []
    tables: set[tuple[str, tuple[ResultRow, ...]]] = set()
    for place, result in enumerate(results):
        table = (result.program, tuple(result.rows))
        only_a_head = result.of_nccl_tests and not result.rows and not result.damaged
        if only_a_head and place + 1 < len(results):
            following = results[place + 1]
            if following.of_nccl_tests and not following.facts.listed_ranks:
                following.facts, following.notes = result.facts, result.notes
                following.network = following.network or result.network
                continue
        if not result.rows or table not in tables:
            kept.append(result)
        tables.add(table)
    return kept


def _name_gaps(result: Result) -> None:
    """What a whole log has and this one lacks, and what its rows say of the ranks."""
    if result.damaged:
        result.gaps.append(f"{plural(result.damaged, 'damaged row')}, which were ignored")
    if result.claim:
        return
    has_footer = result.program.startswith("ib_") or result.of_nccl_tests
    if result.rows and has_footer and not result.footer:
        result.gaps.append("the end of the table")
    if not result.rows and result.program:
        result.gaps.append(
            "every row of the table: the test ended before it measured, or the log was cut"
        )
    if result.rows and result.of_nccl_tests:
        nccl_tests.check(result)
