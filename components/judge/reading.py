"""Reads what people paste: whole logs, excerpts, prefixed lines, several tables in one text.

A row counts only if it confirms itself. What is missing is named; a contradiction is a finding.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from components.finding import Finding, plain
from components.physics.ceilings import Framing
from components.physics.collectives import busbw_factor, ranks_of
from components.validation.benchmarks.nccl.log import NcclNetwork, parse_nccl_log
from components.validation.benchmarks.nccl.table import (
    NcclPlacement,
    Rounding,
    refuse_contradictions,
)
from components.validation.benchmarks.verbs.perftest import FACTOR_OF_UNIT, MIB_S_IN_GBIT_S
from components.validation.parsers import NUMBER, ResultFormatError, decimals, rounding
from stacks.words import plural

Kind = Literal["bandwidth", "latency", "collective", "training", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultRow:
    """One message size: Gbit/s, busbw of collectives in GB/s, latency in microseconds."""

    size_bytes: int | None
    value: float
    algbw_gbyte_s: float | None = None
    wrong: int = 0


@dataclass(kw_only=True, slots=True)
class Facts:
    """What a log says of its hardware and run; None and empty where it does not."""

    device: str | None = None
    path_mtu_bytes: int | None = None
    framing: Framing | None = None
    queue_pairs: int | None = None
    rdma_cm: bool = False
    both_ways: bool = False
    gpu_memory: bool = False
    loopback: bool = False
    ranks: int | None = None
    nodes: int | None = None
    gpu: str | None = None
    ranks_by_host: dict[str, int] = field(default_factory=dict)
    nic_gbit_s: float | None = None
    nics_per_node: int | None = None
    algorithm: str | None = None
    """What NCCL_ALGO pins."""
    sockets: bool = False
    """Whether the command line asks for sockets."""


@dataclass(kw_only=True, slots=True)
class Result:
    """One table, or one number that stands alone."""

    program: str
    kind: Kind
    line: int
    """Where it begins in the text, from 1."""
    rows: list[ResultRow] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    gaps: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    network: NcclNetwork | None = None
    notes: list[str] = field(default_factory=list)
    """Lines in which causes are looked for."""
    claim: bool = False
    """A number in a sentence, without a table."""
    columns: tuple[str, ...] = ()
    open: bool = False
    footer: bool = False
    damaged: int = 0
    factors: tuple[float, float] = (0.0, 2.0)
    """busbw divided by algbw, as narrow as the digits of all rows allow."""

    def find(self, code: str, evidence: str, hint: str = "") -> None:
        if not any(finding.code == code for finding in self.findings):
            where = f"{self.program or 'log'}, line {self.line}"
            self.findings.append(
                Finding(code=code, where=where, evidence=plain(evidence), hint=hint)
            )


_STAMP = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:? "
_PREFIX = re.compile(
    rf"^(?:> ?|\s*\d{{1,6}}: |{_STAMP}|\[pod/[^\]]{{1,300}}\] |"
    r"[A-Za-z0-9: ]{0,40}\[[^\[\]]{1,100}\]<std(?:out|err|diag)>:? ?|"
    r"[\w.-]{1,80}: (?=[\s#]*\d+ +\d+ )|"
    r"[\w.-]{1,80} +\| (?=[\s#]*\S))+"
)
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9])")
_FENCE = re.compile(r"^\s*(?:```|~~~)")

_TITLE = re.compile(
    r"^\s*((?:Send|RDMA_Write|RDMA_Read|Atomic|CMP_AND_SWAP|FETCH_AND_ADD|Raw_Eth)"
    r"[A-Za-z_ ]* Test)\s*$"
)
_LABEL = re.compile(r"(Device|Number of qps|Mtu|Link type|rdma_cm QPs)\s*: (\S+)")
_OSU = re.compile(r"^# OSU (?:MPI|OpenSHMEM|NCCL)\S* (.+?) (?:Latency )?Test")
_IMB = re.compile(r"^# Benchmarking (\w+)")
_NCCL_HEAD = re.compile(r"^#\s+size\s+count\s")
_NCCL_ROW = re.compile(
    r"^\s*(\d{1,19})\s+(\d{1,19})\s+((?:u?int|float|double|half|bfloat|fp|f)\w*)\s+"
    r"(\w+)\s+(?:-?\d+(?:\[\d+\])?\s+)??"
    r"(\d\S*)\s+(\d\S*)\s+(\d\S*)\s+(N/A|\d\S*)(?:\s+(\S.*))?$"
)
_INNER_TAG = re.compile(r"(?:^|(?<=[\w.]))\[\d{1,6}\] ")
"""Some launchers tag what one rank prints piece by piece in the middle of a line too."""
_NUMBERS = re.compile(rf"^\s*\d{{1,19}}(?:\s+{NUMBER})+\s*$")
_NCCL_RANK = re.compile(
    r"^#\s+Rank\s+(\d{1,6}) .*?\bon\s+(\S+)(?:\s+device\s+\d+\s+\[\S+\] ?(.*))?$"
)
_COLLECTIVES = (
    "all_reduce|all_gather|reduce_scatter|alltoall|sendrecv|broadcast|reduce|gather|"
    "scatter|hypercube"
)
_PROGRAM = re.compile(
    rf"\b(?:({_COLLECTIVES})_perf|t ({_COLLECTIVES})|(ib_(?:write|send|read|atomic)_(?:bw|lat))|"
    r"(osu_\w+|ucx_perftest))\b"
)
_CLAIM = re.compile(
    r"(?<![\w.])(\d{1,6}(?:,\d{3})*(?:\.\d{1,6})?)\s*"
    r"(GB/s|Gb/s|Gbps|Gbit/s|GBps|MB/s|MiB/s|TB/s|Mb/s)(?!\w)"
)
_UNIT_IN_GBIT = {
    "GB/s": 8.0,
    "GBps": 8.0,
    "TB/s": 8000.0,
    "MB/s": 8e-3,
    "MiB/s": MIB_S_IN_GBIT_S,
    "Mb/s": 1e-3,
}
_OF_COLLECTIVES = re.compile(
    r"busbw|bus ?bandwidth|nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|sendrecv|alltoall",
    re.IGNORECASE,
)
_OF_VERBS = re.compile(r"ib_\w+_bw|perftest|ucx|osu_\w*bw|rdma", re.IGNORECASE)
NOTE = re.compile(
    r"error|fail|warn|Xid|timeout|retr(?:y|ies)|refused|denied|Unable|Couldn't|"
    r"allocated GPU|use_cuda|dmabuf|"
    r"hypervisor|\bKVM\b|QEMU|VMware|virtual machine|\bACS\b|bond|SHARP|COLLNET|NVLS|"
    r"\bECE\b|relax|flow control|"
    r"FAILED|nNodes|NVLink|MNNVL|mtu",
    re.IGNORECASE,
)
_NCCL_KEPT = re.compile("NET|Using|version| set |WARN|cudaDriver|nNodes|GPU Direct|speed")
MOST_NOTES, MOST_NCCL_LINES, MOST_RESULTS, LONGEST_LINE = 400, 5000, 64, 2000
MOST_CLAIMS = 20
_PREFIX_MARKS = (": ", "] ", "]<", "| ", "> ", "Z ")
_PROGRAM_MARKS = re.compile("_perf|ib_|osu_|ucx_|-t ")
OSU_PROGRAMS: dict[str, tuple[str, Kind]] = {
    "Bandwidth": ("osu_bw", "bandwidth"),
    "Bi-Directional Bandwidth": ("osu_bibw", "bandwidth"),
    "Multiple Bandwidth / Message Rate": ("osu_mbw_mr", "bandwidth"),
    "Allreduce": ("osu_allreduce", "collective"),
    "Latency": ("osu_latency", "latency"),
}
IMB_PROGRAMS: dict[str, Kind] = {
    "Allreduce": "collective",
    "PingPong": "bandwidth",
    "Uniband": "bandwidth",
    "Biband": "bandwidth",
    "Sendrecv": "bandwidth",
    "Exchange": "bandwidth",
}
BOTH_WAYS = ("osu_bibw", "IMB Biband", "IMB Sendrecv", "IMB Exchange")


def text_of(data: bytes) -> str:
    """The text of a file; what PowerShell writes is UTF-16."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return data.decode(encoding, errors="replace")


class Reader:
    """Collects results line by line."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.facts = Facts()
        self.collective, self.point_to_point = "", ""
        self.nccl_lines: list[str] = []
        self.channels: set[str] = set()
        self.notes: list[str] = []
        self.claims: list[Result] = []
        self.current: Result | None = None
        self.training: list[str] = []
        self.gid = ""
        self.gids: dict[str, str] = {}

    def read(self, text: str) -> list[Result]:
        cut = bool(text) and not text.endswith(("\n", "\r", "`"))
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for number, raw in enumerate(lines, 1):
            if len(self.results) >= MOST_RESULTS:
                self.results[-1].gaps.append(
                    f"what follows line {number}: {MOST_RESULTS} tables are read"
                )
                break
            line = raw
            if len(line) > LONGEST_LINE:
                continue
            if "\x1b" in line:
                line = _ANSI.sub("", line)
            if "NCCL " in line and "NCCL_" not in line.partition("NCCL ")[0]:
                self._nccl_line(line)
                continue
            if line[:1] != "#" and any(mark in line for mark in _PREFIX_MARKS):
                line = _PREFIX.sub("", line, count=1)
            if line and not _FENCE.match(line):
                self._line(line, number, last=cut and number == len(lines))
        return self._finished(text)

    def _nccl_line(self, line: str) -> None:
        """Keeps one line of each kind: a large job prints the same of thousands of channels."""
        text = line.partition("NCCL ")[2]
        kind = text.rpartition(" via ")[2] if " via " in text else text
        if kind in self.channels or len(self.channels) >= MOST_NCCL_LINES:
            return
        self.channels.add(kind)
        line = _PREFIX.sub("", line, count=1)
        if " via " in text or _NCCL_KEPT.search(text):
            self.nccl_lines.append(line)
        self._note(line)
        if nodes := re.search(r"\bnNodes (\d{1,6})\b", text):
            self.facts.nodes = int(nodes[1])
        if nics := re.findall(r"NET\[(\d{1,4}\.\d)\]", text):
            self.facts.nic_gbit_s = float(nics[0]) * 8

    def _note(self, line: str) -> None:
        if len(self.notes) < MOST_NOTES and NOTE.search(line):
            self.notes.append(line[:300])

    def _begin(self, program: str, kind: Kind, number: int, **facts: object) -> Result:
        """A new table; what was read before it belongs to it."""
        result = Result(
            program=program, kind=kind, line=number, facts=self.facts, notes=self.notes, open=True
        )
        for name, value in facts.items():
            setattr(result.facts, name, value)
        if self.nccl_lines:
            result.network = parse_nccl_log("\n".join(self.nccl_lines))
        self.results.append(result)
        self.current = result
        self.facts, self.notes, self.nccl_lines, self.gids = Facts(), [], [], {}
        self.channels = set()
        return result

    def _line(self, line: str, number: int, *, last: bool) -> None:
        named = _PROGRAM_MARKS.search(line)
        if named and (program := _PROGRAM.search(line)):
            self.collective = program[1] or program[2] or self.collective
            self.point_to_point = program[3] or program[4] or self.point_to_point
        if "NCCL_" in line or "--use_" in line:
            self._settings(line)
        self._note(line)
        if any(
            begins(line, number) for begins in (self._perftest, self._nccl, self._mpi, self._ucx)
        ):
            return
        current = self.current
        if (
            last
            and current
            and current.program.startswith(("osu_", "IMB "))
            and re.match(r"^\s*\d+\s", line)
        ):
            # nothing in such a row shows that its last digits are missing
            current.damaged += 1
            return
        if self.current is not None and self.current.open and _NUMBERS.match(line):
            self._cells(self.current, line.split())
        elif self._bare_perftest(line, number):
            return
        elif re.match(
            r"^(Iter #|Img/sec per |Total img/sec|total images/sec:|Number of (GPU|CPU)s:)", line
        ):
            self.training.append(line)
        elif self.current is not None and self.current.open and re.match(r"^\s*\d+\s", line):
            self.current.damaged += 1
        elif not self.results and len(self.claims) < MOST_CLAIMS and (claim := _CLAIM.search(line)):
            self._claim(claim, line, number)

    def _settings(self, line: str) -> None:
        """Options and variables of a command line that the output does not repeat."""
        if re.search(r"--use_(?:cuda|rocm)", line):
            self.facts.gpu_memory = True
        if algorithm := re.search(r"\bNCCL_ALGO[=: ]+(\w+)", line):
            self.facts.algorithm = algorithm[1].capitalize()
        if re.search(r"\bNCCL_IB_DISABLE[=: ]+1|\bNCCL_NET[=: ]+Socket", line):
            self.facts.sockets = True

    def _perftest(self, line: str, number: int) -> bool:
        if title := _TITLE.match(line):
            words = title[1].split()
            operation = {"Send": "send", "RDMA_Write": "write", "RDMA_Read": "read"}.get(
                words[0], "atomic"
            )
            kind: Kind = "latency" if "Latency" in words else "bandwidth"
            name = f"ib_{operation}_{'lat' if kind == 'latency' else 'bw'}"
            result = self._begin(name, kind, number, both_ways="Bidirectional" in words)
            result.open = False
            return True
        current = self.current
        if current is None or not current.program.startswith("ib_"):
            return False
        if line.lstrip().startswith("#bytes"):
            current.columns = tuple(
                re.findall(
                    r"#[a-z]+|tps average|[A-Za-z0-9][A-Za-z0-9.%_ ]*\[[^\]\[]{1,12}\]", line
                )
            )
            current.open = True
            return True
        if re.match(r"^\s*-{20,}\s*$", line):
            current.footer = current.footer or bool(current.open and current.rows)
            current.open = current.open and not current.rows
            return True
        for label, value in _LABEL.findall(line):
            self._label(current.facts, label, value)
        if "address:" in line:
            self.gid = line.strip()[:6]
        elif line.strip().startswith("GID:"):
            self.gids[self.gid] = line.strip()
            current.facts.loopback = len(self.gids) == 2 and len(set(self.gids.values())) == 1
        return False

    def _label(self, facts: Facts, label: str, value: str) -> None:
        if label == "Device":
            facts.device = value
        elif label == "rdma_cm QPs":
            facts.rdma_cm = value == "ON"
        elif label == "Link type":
            framings: dict[str, Framing] = {
                "Ethernet": "roce_v2",
                "IB": "infiniband",
                "InfiniBand": "infiniband",
            }
            facts.framing = framings.get(value)
        elif (
            label == "Mtu"
            and value.endswith("[B]")
            and value[:-3] in ("256", "512", "1024", "2048", "4096")
        ):
            facts.path_mtu_bytes = int(value[:-3])
        elif label == "Number of qps" and re.fullmatch(r"\d{1,5}", value):
            facts.queue_pairs = int(value)

    def _nccl(self, line: str, number: int) -> bool:
        if line.startswith("#"):
            if rank := _NCCL_RANK.match(line):
                if (
                    self.current is not None
                    and self.current.kind == "collective"
                    and self.current.rows
                ):
                    self.current.open = False
                hosts = self.facts.ranks_by_host
                hosts[rank[2]] = hosts.get(rank[2], 0) + 1
                self.facts.ranks = max(self.facts.ranks or 0, int(rank[1]) + 1)
                self.facts.gpu = self.facts.gpu or (rank[3] or "").strip() or None
                return True
            if _NCCL_HEAD.match(line) and "busbw" in line:
                self._begin(self.collective, "collective", number)
                return True
            if (
                line.startswith(("# Out of bounds", "# Avg bus bandwidth"))
                and self.current is not None
            ):
                self.current.footer = self.current.footer or line.startswith("# Avg")
                self.current.open = not self.current.footer
                self._bounds(self.current, line)
                return True
            return False
        if match := _NCCL_ROW.match(_INNER_TAG.sub(" ", line)):
            current = self.current
            if current is None or current.kind != "collective" or not current.open:
                current = self._begin(self.collective, "collective", number)
                current.gaps.append("the table's header")
            self._nccl_row(current, match)
            return True
        return False

    def _bounds(self, current: Result, line: str) -> None:
        if line.rstrip().endswith("FAILED"):
            current.find("WRONG_VALUES", line.strip("# \n"))

    def _nccl_row(self, current: Result, match: re.Match[str]) -> None:
        size = int(match[1])
        cells = [cell for cell in match.groups()[4:7] if cell]
        if not all(re.fullmatch(NUMBER, cell) for cell in cells):
            current.damaged += 1
            return
        time, algbw, busbw = map(float, cells)
        half = NcclPlacement(time_us=time, algbw_gbyte_s=algbw, busbw_gbyte_s=busbw, wrong=None)
        digits = Rounding(rounding(cells[0]), rounding(cells[1]), rounding(cells[2]))
        try:
            refuse_contradictions([(size, half, digits)], None)
        except ResultFormatError as error:
            current.damaged += 1
            current.find("CONTRADICTION", str(error)[:200])
            return
        if size and algbw > 0:
            least = (busbw - digits.busbw_gbyte_s) / (algbw + digits.algbw_gbyte_s)
            most = (busbw + digits.busbw_gbyte_s) / max(algbw - digits.algbw_gbyte_s, 1e-9)
            current.factors = (max(current.factors[0], least), min(current.factors[1], most))
        if not current.program:
            current.program = (
                "all_reduce" if match[4] in ("sum", "prod", "max", "min", "avg") else "all_gather"
            )
            current.gaps.append(f"the name of the test: read as {current.program}")
        wrong = 0
        in_place = (match[9] or "").split()
        for cell in (match[8], *in_place[3:4]):
            # old tables print the largest error there, not a count
            if cell and re.fullmatch(r"\d{1,12}|\de\+\d\d", cell):
                wrong += int(float(cell))
        current.rows.append(
            ResultRow(size_bytes=size, value=busbw, algbw_gbyte_s=algbw, wrong=wrong)
        )

    def _mpi(self, line: str, number: int) -> bool:
        if osu := _OSU.match(line):
            if osu[1] not in OSU_PROGRAMS:
                return False
            program, kind = OSU_PROGRAMS[osu[1]]
            self._begin(program, kind, number, both_ways=program in BOTH_WAYS)
            return True
        if imb := _IMB.match(line):
            if imb[1] in IMB_PROGRAMS:
                program = f"IMB {imb[1]}"
                self._begin(program, IMB_PROGRAMS[imb[1]], number, both_ways=program in BOTH_WAYS)
            return True
        processes = re.match(r"^# ?#processes = (\d{1,6})", line)
        if processes and self.current is not None:
            self.current.facts.ranks = int(processes[1])
        return False

    def _ucx(self, line: str, number: int) -> bool:
        if line.startswith("|") and (unit := re.search(r"(overhead|latency) \(usec\)", line)):
            table = self._begin("ucx_perftest", "bandwidth", number)
            if unit[1] == "latency":
                table.kind = "latency"
            return True
        final = re.match(r"^(?:Final:|\[thread \d+\])\s+(.*)$", line)
        if final is None:
            return False
        current = self.current
        if current is None or current.program != "ucx_perftest":
            current = self._begin("ucx_perftest", "bandwidth", number)
            current.gaps.append("the header")
        cells = final[1].split()
        if len(cells) in (8, 9) and all(re.fullmatch(NUMBER, cell) for cell in cells):
            bandwidth, rate = float(cells[-3]), float(cells[-1])
            size = round(bandwidth * 2**20 / rate) if rate > 0 else None
            value = bandwidth * MIB_S_IN_GBIT_S if current.kind == "bandwidth" else float(cells[-5])
            current.rows = [ResultRow(size_bytes=size, value=value)]
            current.footer = line.startswith("Final")
        else:
            current.damaged += 1
        return True

    def _cells(self, current: Result, cells: list[str]) -> None:
        reader: Callable[[Result, list[str]], ResultRow | None]
        if current.program.startswith("ib_"):
            reader = _perftest_row
        elif current.program.startswith(("osu_", "IMB ")):
            reader = _mpi_row
        else:
            return
        row = reader(current, cells)
        if row is None:
            current.damaged += 1
        elif not current.rows or (row.size_bytes or 0) > (current.rows[-1].size_bytes or 0):
            current.rows.append(row)
        else:
            current.open = False

    def _bare_perftest(self, line: str, number: int) -> bool:
        """A row without the header that names the unit; its message rate confirms it."""
        if not _NUMBERS.match(line) or len(line.split()) != 5:
            return False
        kind: Kind = "bandwidth"
        program = self.point_to_point if self.point_to_point.startswith("ib_") else "ib_write_bw"
        trial = Result(program=program, kind=kind, line=number)
        row = _perftest_row(trial, line.split())
        if row is None:
            return False
        result = self._begin(program, kind, number)
        result.rows, result.open = [row], False
        result.gaps.append("the header: device, path MTU, link type, queue pairs")
        if not self.point_to_point:
            result.gaps.append("the name of the test: read as ib_write_bw")
        return True

    def _claim(self, claim: re.Match[str], line: str, number: int) -> None:
        collective, verbs = _OF_COLLECTIVES.search(line), _OF_VERBS.search(line)
        if re.search(r"[<>~]\s*$", line[: claim.start()].rstrip("*") + " "):
            return
        kind: Kind = "unknown"
        named = _PROGRAM.search(line)
        program = ""
        if collective and not (verbs and verbs.start() < collective.start()):
            kind, program = "collective", (named[1] or named[2] or "") if named else ""
            word = (
                collective[0]
                .lower()
                .replace("allreduce", "all_reduce")
                .replace("allgather", "all_gather")
            )
            program = program or (
                word if "_" in word or word in ("sendrecv", "alltoall") else "all_reduce"
            )
        elif verbs:
            kind = "bandwidth"
            program = "ib_write_bw"
            if named:
                program = named[3] or named[4] or program
        gbit_s = float(claim[1].replace(",", "")) * _UNIT_IN_GBIT.get(claim[2], 1.0)
        row = ResultRow(size_bytes=None, value=gbit_s)
        if kind == "collective":
            row = ResultRow(size_bytes=None, value=gbit_s / 8)
        result = Result(
            program=program, kind=kind, line=number, rows=[row], claim=True, notes=[line[:300]]
        )
        result.facts.both_ways = program == "osu_bibw" or "bidirectional" in line
        result.facts.loopback = "loopback" in line.lower()
        result.gaps.append("the log: a number alone confirms nothing")
        self.claims.append(result)

    def _finished(self, text: str) -> list[Result]:
        if self.results:
            last = self.results[-1]
            last.notes = [*last.notes, *self.notes]
            if last.network is None and self.nccl_lines:
                last.network = parse_nccl_log("\n".join(self.nccl_lines))
        if self.training:
            self.results.append(_training(self.training, len(text.splitlines())))
        results = _without_doubles(self.results)
        if not results and not self.nccl_lines and len(text) < 20_000:
            results = self.claims
        if not results:
            result = Result(program="", kind="unknown", line=1, facts=self.facts, notes=self.notes)
            if self.nccl_lines:
                result.network = parse_nccl_log("\n".join(self.nccl_lines))
            result.gaps.append("a table of results")
            results = [result]
        for result in results:
            _name_gaps(result)
        return results


def read_results(text: str) -> list[Result]:
    """All results of a text; at least one, which then has no rows."""
    return Reader().read(text)


def _without_doubles(results: list[Result]) -> list[Result]:
    """Both ends of perftest print the same table."""
    kept: list[Result] = []
    tables: set[tuple[str, tuple[ResultRow, ...]]] = set()
    for result in results:
        table = (result.program, tuple(result.rows))
        if not result.rows or table not in tables:
            kept.append(result)
        tables.add(table)
    return kept


def _perftest_row(current: Result, cells: list[str]) -> ResultRow | None:
    """A row in the unit in which bandwidth and message rate agree."""
    size, numbers = int(cells[0]), [float(cell) for cell in cells]
    columns = current.columns
    if current.kind == "latency":
        for name in ("t_typical[usec]", "t_avg[usec]"):
            if name in columns and len(cells) == len(columns) and numbers[columns.index(name)] > 0:
                return ResultRow(size_bytes=size, value=numbers[columns.index(name)])
        return None
    average = 3
    for number, column in enumerate(columns):
        if column.startswith("BW average["):
            average = number
    if len(cells) <= average + 1 or (columns and len(cells) != len(columns)):
        return None
    if decimals(cells[average + 1]) != 6:
        return None  # the row is cut
    by_rate = numbers[average + 1] * size * 8 / 1e3
    slack = rounding(cells[average + 1]) * size * 8 / 1e3
    for unit, factor in FACTOR_OF_UNIT.items():
        value = numbers[average] * factor
        stated = not columns or f"BW average[{unit}]" in columns
        if (
            stated
            and value > 0
            and abs(value - by_rate) <= 1.001 * (slack + rounding(cells[average]) * factor) + 1e-9
        ):
            return ResultRow(size_bytes=size, value=value)
    return None


def _mpi_row(current: Result, cells: list[str]) -> ResultRow | None:
    """A row of OSU or IMB; it says its number once, so only its form can be checked."""
    size = int(cells[0])
    numbers = [float(cell) for cell in cells]
    if size == 0 or "." not in cells[-1] or min(numbers[1:]) <= 0:
        return None
    if current.program in ("osu_bw", "osu_bibw", "osu_mbw_mr"):
        return ResultRow(size_bytes=size, value=numbers[1] * 8e-3)
    if current.program == "osu_latency":
        return ResultRow(size_bytes=size, value=numbers[1])
    if current.kind != "collective":
        return _imb_row(current.program, numbers)
    time_us = numbers[1]
    if current.program == "IMB Allreduce":
        time_us = numbers[-1]
    ranks = current.facts.ranks
    algbw = size / time_us / 1e3
    return ResultRow(
        size_bytes=size, value=algbw * busbw_factor("all_reduce", ranks or 1), algbw_gbyte_s=algbw
    )


def _imb_row(program: str, numbers: list[float]) -> ResultRow | None:
    """Its MB are 10^6 bytes, or 2^20 in old versions: the time says which."""
    if len(numbers) < 4:
        return None
    size, mbytes, time_us = int(numbers[0]), numbers[-1], numbers[2]
    if program in ("IMB Sendrecv", "IMB Exchange"):
        time_us = numbers[3] / {"IMB Sendrecv": 2, "IMB Exchange": 4}[program]
    for unit in (1e6, 2**20):
        if (
            program in ("IMB Uniband", "IMB Biband")
            or abs(size / time_us * 1e6 / unit / mbytes - 1) < 0.02
        ):
            return ResultRow(size_bytes=size, value=mbytes * unit * 8 / 1e9)
    return None


def _training(lines: list[str], number: int) -> Result:
    result = Result(program="training", kind="training", line=number)
    values = []
    for line in lines:
        if value := re.match(r"^Iter #\d+: (\d+\.\d+) img/sec per", line):
            values.append(float(value[1]))
        elif total := re.match(
            r"^(?:Total img/sec on (\d+) \w+\(s\)|total images/sec): (\d+\.\d+)", line
        ):
            result.facts.ranks = int(total[1]) if total[1] else None
            result.rows = [ResultRow(size_bytes=None, value=float(total[2]))]
            result.footer = True
    if values and max(values) > 1.1 * min(values):
        result.find(
            "SPREAD",
            f"iterations between {min(values):g} and {max(values):g} img/s per GPU",
            "measure longer: a mean of such iterations compares with nothing",
        )
    return result


def _name_gaps(result: Result) -> None:
    """What a whole log has and this one lacks, and what its rows say of the ranks."""
    if result.damaged:
        result.gaps.append(f"{plural(result.damaged, 'damaged row')}, which count for nothing")
    if result.claim:
        return
    has_footer = result.program.startswith("ib_") or result.kind == "collective"
    if (
        result.rows
        and has_footer
        and not result.footer
        and not result.program.startswith(("osu_", "IMB "))
    ):
        result.gaps.append("the end of the table")
    if not result.rows and result.program:
        result.gaps.append(
            "every row of the table: the test ended before it measured, or the log was cut"
        )
    if result.kind != "collective" or not result.rows:
        return
    wrong = sum(row.wrong for row in result.rows)
    if wrong:
        result.find("WRONG_VALUES", f"{wrong} wrong elements")
    if not result.program.startswith(("osu_", "IMB ")):
        _check_ranks(result)


def _check_ranks(result: Result) -> None:
    least, most = result.factors
    possible = ranks_of(result.program, least, most)
    ranks = result.facts.ranks
    if least > most or (
        len(possible) == 0 and busbw_factor(result.program, 2) != busbw_factor(result.program, 3)
    ):
        text = f"busbw is {least:.4f} to {most:.4f} times algbw, which no {result.program} has"
        result.find("CONTRADICTION", text)
    elif len(possible) and ranks is not None and ranks not in possible:
        count = f"{possible[0]}" if len(possible) == 1 else f"{possible[0]} to {possible[-1]}"
        text = f"the log lists {plural(ranks, 'rank')}, but busbw/algbw is that of {count}"
        result.find("RANKS_CONTRADICT", text)
    elif len(possible) == 1:
        result.facts.ranks = possible[0]
    hosts = result.facts.ranks_by_host
    if hosts and not result.facts.nodes and sum(hosts.values()) == result.facts.ranks:
        result.facts.nodes = len(hosts)
    if len(set(hosts.values())) > 1 and sum(hosts.values()) == result.facts.ranks:
        few = min(hosts, key=lambda host: hosts[host])
        result.find(
            "MISSING_GPU",
            f"{few} has {hosts[few]} ranks, others have {max(hosts.values())}",
            f"nvidia-smi -L on {few}: a ring is as fast as its smallest node",
        )
