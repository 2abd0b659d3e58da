"""Runs as a seeded model would have measured them: nothing here is a measurement."""

import random
from ipaddress import IPv4Address

from components.finding import Finding
from components.physics.ceilings import Path, bandwidth_ceiling
from components.ssh.session import CommandResult
from components.validation.benchmarks.nccl.run import NCCL_LOG, curve_of
from components.validation.benchmarks.nccl.table import parse_nccl
from components.validation.benchmarks.plan import End, Plan, PlannedRail, plan_of
from components.validation.benchmarks.verbs.hosts import FACTS
from components.validation.benchmarks.verbs.run import as_raw
from components.validation.history import Entry, Value
from components.validation.records import (
    CurvePoint,
    JobResult,
    MeasuredHost,
    NcclResult,
    PodRails,
    RailInPods,
    RunRecord,
    TransferResult,
    VerbsTest,
    median_of,
    outcome_counts,
)
from components.validation.store import DeclaredRail, Material, RunDocument, raw_files
from components.validation.summary import JudgedTest, Pair, Regression, Summary, not_run
from stacks.read import read_stack_file
from tests.conftest import ROOT

SAMPLE = (ROOT / "tests" / "samples" / "lab" / "rail-a_gpu01-to-gpu02.client.txt").read_text()
LATENCY = (ROOT / "tests" / "samples" / "perftest" / "wlat.client.txt").read_text()
ALL_REDUCE = (ROOT / "tests" / "samples" / "nccl" / "deepops.txt").read_text()
LINE_GBIT_S = 100.0
CEILING_GBIT_S = 98.014


class Model:
    """A fabric of `nodes` and `rails` with one node that sends badly, one failed pair, and noise."""

    def __init__(
        self, nodes: int = 8, rails: int = 2, *, seed: int = 7, simulated: bool = False, repeats: int = 2
    ) -> None:
        self.random = random.Random(seed)  # noqa: S311  # a fabric, no secret
        self.nodes = [f"gpu{n:02}" for n in range(1, nodes + 1)]
        self.rails = [f"rail-{chr(97 + n)}" for n in range(rails)]
        self.simulated = simulated
        self.repeats = repeats
        self.raw: dict[str, str] = {}
        self.run_id = "20261121-060000-abcd"

    def gbit_s(self, rail: str, client: str) -> float:
        slow = 0.86 if (rail, client) == (self.rails[-1], self.nodes[2 % len(self.nodes)]) else 1.0
        scale = 0.001 if self.simulated else 1.0
        return round(scale * slow * CEILING_GBIT_S * self.random.uniform(0.985, 0.998), 2 if not self.simulated else 6)

    def record(self) -> RunRecord:
        transfers = [
            self._bandwidth(rail, client, server)
            for rail in self.rails
            for client in self.nodes
            for server in self.nodes
            if client != server
        ]
        transfers += [
            self._latency(rail, client, server)
            for rail in self.rails
            for client, server in zip(self.nodes, [*self.nodes[1:], self.nodes[0]], strict=True)
        ]
        transfers += [self._curve(rail, test) for rail in self.rails for test in ("ib_write_bw", "ib_write_lat")]
        self.raw[NCCL_LOG] = ALL_REDUCE
        table = parse_nccl(ALL_REDUCE)
        self.raw[f"{FACTS}gpu01"] = as_raw(
            ["host.pyz", "bench", "ib_write_bw", "mlx5_0", "enp5s0"],
            CommandResult(code=0, out='{"schema":1,"host":{},"ports":[]}\n', err=""),
        )
        return RunRecord(
            run_id=self.run_id,
            started_at="2026-11-21T06:00:00Z",
            duration_s=412.5,
            simulated=self.simulated,
            plan_digest="0" * 64,
            fingerprint="f1" * 32,
            transfers=tuple(transfers),
            nccl=NcclResult(
                outcome="measured",
                busbw_gbyte_s=table.busbw_gbyte_s,
                curve=curve_of(table),
                raw=NCCL_LOG,
            ),
            pods=None if self.simulated else self._pods(),
            jobs=self._jobs(),
            hosts={node: self._host(index) for index, node in enumerate(self.nodes)},
            notes=("perftest 25.01",),
            raw_sha256="ab" * 32,
        )

    def summary(self, record: RunRecord) -> Summary:
        kinds = dict.fromkeys((t.test, t.rail) for t in record.transfers if t.shape == "one_way")
        tests = [self._judged(test, rail, record) for test, rail in kinds]
        nccl = JudgedTest(
            test="nccl_all_reduce",
            shape="",
            rail=None,
            function="pass",
            performance="not rated" if self.simulated else "pass",
            because="simulated" if self.simulated else "",
            median=22.92,
            unit="GB/s",
            ceiling=None if self.simulated else 24.2,
            basis="" if self.simulated else "measured ib_write_bw of 2 rails",
            ratio=None if self.simulated else 0.947,
            measured=1,
            failed=0,
            skipped=0,
        )
        why = "a simulated node has no GPU" if self.simulated else "gpu01: perftest has no CUDA"
        return Summary(
            **record.head,
            lab="hall-b",
            mode="warn",
            function="fail",
            performance="not rated" if self.simulated else "fail",
            performance_because="simulated" if self.simulated else "",
            reasons=("rail-b gpu03 to gpu04: ib_write_bw 83.97 Gbit/s is 85.7% of 98.01: fail",),
            hints=("gpu03 on rail-b sends 14 % less than the others: look at its PCIe width and its cable",),
            findings=(
                Finding(
                    code="NIC_TX_SLOW",
                    where=f"{self.rails[-1]} gpu03 sending",
                    evidence="7 of its 7 transfers lie 14 % under the rail's median; receiving is as fast as elsewhere",
                    hint="ethtool -S on its PF: tx errors; current_link_width against max_link_width",
                ),
            ),
            tests=(*tests, not_run("gpu_memory", why), nccl),
            regression=Regression(
                baseline_run="20261114-060000-0000", verdict="worse", reasons=(f"{self.rails[-1]}: -1.9 %, confirmed",)
            ),
        )

    def material(self) -> Material:
        record = self.record()
        summary = self.summary(record)
        return Material(
            summary=summary,
            document=self.document(record, summary),
            raw=raw_files(self.raw.items()),
        )

    def document(self, record: RunRecord, verdict: Summary) -> RunDocument:
        tests = (t for t in verdict.tests if t.median is not None)
        values = {f"{t.test} one_way {t.rail}" if t.rail else t.test: (t.median or 0.0, t.unit) for t in tests}
        return RunDocument(
            plan=self.plan(),
            rails=tuple(DeclaredRail(rail=rail, switch_mtu_bytes=9216) for rail in self.rails),
            record=record,
            history=(*self._history(), self._entry(record.run_id, record.started_at, values, passed=False)),
        )

    def plan(self) -> Plan:
        """The plan of the reference lab on the model's nodes and rails."""
        plan = plan_of(read_stack_file(ROOT / "Pulumi.lab.yaml"))
        assert plan
        rails = tuple(
            PlannedRail(
                name=rail,
                mtu_bytes=9000,
                path_mtu_bytes=4096,
                ceiling_ratio=0.98,
                resource=f"intel.com/sriov_{index}",
                ends=tuple(
                    End(
                        node=node,
                        device=f"mlx5_{index}",
                        interface=f"enp{5 + index}s0",
                        address=IPv4Address("192.168.0.1") + number,
                    )
                    for number, node in enumerate(self.nodes)
                ),
            )
            for index, rail in enumerate(self.rails)
        )
        return plan.model_copy(update={"lab": "hall-b", "simulated": self.simulated, "rails": rails, "nccl": None})

    def _bandwidth(self, rail: str, client: str, server: str) -> TransferResult:
        if (rail, client, server) == (self.rails[0], self.nodes[-1], self.nodes[1]) and len(self.nodes) > 3:
            return TransferResult(
                rail=rail, client=client, server=server, outcome="failed", reasons=("retries exceeded",)
            )
        names, values = [], []
        for repeat in range(self.repeats):
            value = self.gbit_s(rail, client)
            names.append(f"ib_write_bw/one_way/{rail}/{client}-to-{server}/{repeat}.client")
            self.raw[names[-1]] = bandwidth_text(client, server, value)
            values.append(value)
        return TransferResult(
            rail=rail,
            client=client,
            server=server,
            outcome="measured",
            samples=tuple(values),
            path_mtu_bytes=4096,
            queue_pairs=2,
            line_rate_gbit_s=None if self.simulated else LINE_GBIT_S,
            counters={"np_cnp_sent": self.random.randrange(9)} if client == self.nodes[0] else {},
            raw=tuple(names),
        )

    def _latency(self, rail: str, client: str, server: str) -> TransferResult:
        value = round(self.random.uniform(1.6, 1.9), 2)
        name = f"ib_write_lat/one_way/{rail}/{client}-to-{server}/0.client"
        self.raw[name] = latency_text(client, server, value)
        return TransferResult(
            test="ib_write_lat",
            rail=rail,
            client=client,
            server=server,
            outcome="measured",
            samples=(value,),
            tail_us=(value * 1.4,),
            raw=(name,),
        )

    def _curve(self, rail: str, test: VerbsTest) -> TransferResult:
        points = []
        names = []
        for power in range(1, 24):
            size = 2**power
            if test == "ib_write_bw":
                path = Path(line_rate_gbit_s=LINE_GBIT_S, path_mtu_bytes=4096, message_bytes=size)
                value = min(bandwidth_ceiling(path).value, size * 8 * 0.0075) * 0.991
                points.append(CurvePoint(message_bytes=size, value=round(value, 6)))
                said = bandwidth_text(self.nodes[0], self.nodes[1], round(value, 6), size)
            else:
                value = 1.65 + size * 8 / 98e3
                points.append(CurvePoint(message_bytes=size, value=round(value, 2), tail=round(value * 1.25 + 0.4, 2)))
                said = latency_text(self.nodes[0], self.nodes[1], round(value, 2), size)
            names.append(f"{rail}/{test}-sizes/{self.nodes[0]}-to-{self.nodes[1]}/{power}.client")
            self.raw[names[-1]] = said
        return TransferResult(
            test=test,
            shape="sizes",
            rail=rail,
            client=self.nodes[0],
            server=self.nodes[1],
            outcome="measured",
            curve=tuple(points),
            line_rate_gbit_s=LINE_GBIT_S,
            raw=tuple(names),
        )

    def _jobs(self) -> tuple[JobResult, ...]:
        found = []
        nccl = (("tcp", 4.1), ("roce", 22.845), ("host", 23.05), ("roce", 22.88), ("tcp", 4.3))
        jobs = [("nccl_all_reduce", *one) for one in nccl] + [("mpi_all_reduce", "roce", 9.1)]
        for program, transport, busbw in jobs:
            found.append(
                JobResult.model_validate(
                    {
                        "program": program,
                        "transport": transport,
                        "outcome": "measured",
                        "unit": "GB/s",
                        "samples": (busbw,),
                        "value": busbw,
                        "curve": all_reduce_at(busbw),
                    }
                )
            )
        samples = (245.1, 246.0, 199.4, 244.2, 245.9, 186.1, 245.0, 244.7, 246.3, 245.2)
        found.append(
            JobResult(
                program="horovod",
                transport="roce",
                outcome="measured",
                unit="img/s",
                samples=samples,
                dropped=(199.4, 186.1),
                value=245.15,
                details={"Img/sec per GPU": "234.8 +-42.0"},
            )
        )
        return tuple(found)

    def _pods(self) -> PodRails:
        """The VF of the second node's pod has a smaller MTU on the last rail."""
        mtus = {rail: dict.fromkeys(self.nodes, 9000) for rail in self.rails}
        mtus[self.rails[-1]][self.nodes[1]] = 1500
        rails = (RailInPods(rail=rail, pods=2, pairs=1, reached=1, mtu_bytes=of_rail) for rail, of_rail in mtus.items())
        return PodRails(outcome="measured", rails=tuple(rails))

    def _host(self, index: int) -> MeasuredHost:
        odd = index == 2
        return MeasuredHost(
            nic="ConnectX-6 Dx",
            driver="mlx5_core 24.10-1.1.4",
            firmware="22.43.1014" if not odd else "22.39.2048",
            kernel="6.8.0-49-generic",
            perftest="25.01",
            mtu_bytes={f"enp{5 + rail}s0": 9000 if not odd or rail else 1500 for rail in range(len(self.rails))},
            line_rate_gbit_s={f"mlx5_{rail}": 100.0 for rail in range(len(self.rails))},
            pcie={f"mlx5_{rail}": "16.0 GT/s x16" if not odd else "16.0 GT/s x8" for rail in range(len(self.rails))},
            numa_node={f"mlx5_{rail}": rail % 2 for rail in range(len(self.rails))},
        )

    def _judged(self, test: VerbsTest, rail: str, record: RunRecord) -> JudgedTest:
        latency, transfers = test.endswith("_lat"), record.transfers_of(test, "one_way", rail)
        assert transfers
        counts = outcome_counts(t.outcome for t in transfers)
        of = [t for t in transfers if t.samples]
        worst = max(of, key=lambda t: t.value) if latency else min(of, key=lambda t: t.value)
        rated = not self.simulated
        ceiling = None if latency or not rated else CEILING_GBIT_S
        ratio = worst.value / ceiling if ceiling else None
        performance = "not rated" if not rated else "pass" if ratio is None or ratio > 0.97 else "fail"
        return JudgedTest.model_validate(
            {
                "test": test,
                "rail": rail,
                "function": "fail" if counts["failed"] else "pass",
                "performance": performance,
                "because": "" if rated else "simulated",
                "median": median_of(transfers),
                "unit": worst.unit,
                "ceiling": ceiling,
                "basis": "line rate 100 Gbit/s at path MTU 4096" if ceiling else "",
                "ratio": ratio,
                "worst": Pair(client=worst.client, server=worst.server, value=worst.value),
                **counts,
                "change": -0.019 if rail == self.rails[-1] else 0.002,
            }
        )

    def _history(self) -> list[Entry]:
        return [
            self._entry(
                f"202611{day:02}-060000-0000",
                f"2026-11-{day:02}T06:00:00Z",
                {
                    f"ib_write_bw one_way {rail}": (
                        round(CEILING_GBIT_S * self.random.uniform(0.985, 0.995), 2),
                        "Gbit/s",
                    )
                    for rail in self.rails
                },
                passed=day != 17,
            )
            for day in range(11, 21)
        ]

    def _entry(self, run_id: str, started_at: str, values: dict[str, tuple[float, str]], *, passed: bool) -> Entry:
        return Entry(
            lab="hall-b",
            run_id=run_id,
            started_at=started_at,
            duration_s=412.5,
            simulated=self.simulated,
            function="pass",
            performance="pass" if passed else "fail",
            passed=passed,
            fingerprint="f1",
            config={"nodes": str(len(self.nodes))},
            values={name: Value(median=value, unit=unit) for name, (value, unit) in values.items()},
        )


def all_reduce_at(busbw_gbyte_s: float) -> tuple[CurvePoint, ...]:
    """The recorded table as a transport of this bandwidth would have it, at all of its sizes."""
    table = parse_nccl(ALL_REDUCE)
    share = busbw_gbyte_s / table.busbw_gbyte_s
    return tuple(
        point.model_copy(update={"value": point.value * share, "time_us": (point.time_us or 0) / share})
        for point in curve_of(table)
    )


def bandwidth_text(client: str, server: str, gbit_s: float, size: int = 65536) -> str:
    """A recorded output with other numbers in it."""
    rate = gbit_s * 1e3 / 8 / size
    row = f" {size}      500           {gbit_s:.6f}            {gbit_s:.6f}            {rate:.6f}"
    return _text("ib_write_bw -F --report_gbits", client, server, SAMPLE.replace(_row(SAMPLE), row), size)


def latency_text(client: str, server: str, us: float, size: int = 2) -> str:
    """A recorded output with other numbers in it."""
    numbers = (us * 0.9, us * 4, us, us * 1.01, us * 0.2, us * 1.4, us * 2)
    row = f" {size}       1000          {'    '.join(f'{number:.2f}' for number in numbers)}"
    return _text("ib_write_lat -F", client, server, LATENCY.replace(_row(LATENCY), row), size)


def _row(sample: str) -> str:
    """The line of the table with the numbers."""
    lines = sample.splitlines()
    return lines[next(at for at, line in enumerate(lines) if line.strip().startswith("#bytes")) + 1]


def _text(command: str, client: str, server: str, said: str, size: int) -> str:
    return f"$ {command} -d mlx5_0 -x 3 -s {size} {server}\nexit 0\n{said}\n[stderr]\non {client}\n"
