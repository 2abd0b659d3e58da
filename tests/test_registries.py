"""Each kind of thing that people add takes at most two production files: proven by adding one of each to a copy.

The files in `tests/additions/` are what somebody would write; `ADDITIONS` has the edit of the second file. Then the
copy's own commands are asked about it, as their users would ask.
"""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from components.by_name import class_named
from components.hosts.program.steps import STEPS
from components.hosts.records import KEPT_FACTS
from components.inventory.document import save
from components.inventory.model import Host
from components.inventory.reading import known
from components.report.formats import FORMATS
from components.switches.dialect import Dialect
from components.validation.benchmarks.verbs.plan import PROGRAMS
from stacks.base import members
from stacks.benchmarks import VerbsTest
from stacks.ipam import Ipam
from stacks.lab import Lab
from stacks.read import KEY
from stacks.switches import Switch
from stacks.transports import Training
from tests.components.inventory.fabricate import changed, fabricate
from tests.components.validation.samples import perftest
from tests.conftest import ROOT
from tests.messages import lines_naming, stating

HERE = ROOT / "tests" / "additions"
REFERENCE = (ROOT / "Pulumi.lab.yaml").read_text()


@dataclass(frozen=True, kw_only=True, slots=True)
class Addition:
    """A new file, and lines before and within lines of others."""

    file: str = ""
    edits: dict[str, dict[str, str]] = field(default_factory=dict)
    """By file: what is there, and what replaces it."""

    def make(self, root: Path, kind: str) -> set[str]:
        """The files that it takes."""
        if self.file:
            shutil.copy(HERE / f"{kind}.py", root / self.file)
        for name, edits in self.edits.items():
            text = (root / name).read_text()
            for old, new in edits.items():
                assert text.count(old) == 1, f"{name} has no single {old!r}"
                text = text.replace(old, new)
            (root / name).write_text(text)
        return {*([self.file] if self.file else []), *self.edits}


ADDITIONS = {
    "switch_os": Addition(
        file="components/switches/os/toy.py",
        edits={
            "stacks/switches.py": {
                "\nSwitch = ": '''
class ToySwitch(SwitchBase):
    """A toy."""

    HAS_DEFAULT_VLAN = False

    os: Literal["toy"]
    mtu_bytes: MtuBytes = 9100
    """MTU of the mapped ports."""
    greeting: str = "hello"
    """What it wants to hear first."""
    ports: Mapping[Name, Mapping[InterfaceName, Annotated[str, Field(pattern=r"^toy[0-9]+$")]]]
    """The cables."""


Switch = ToySwitch | '''
            }
        },
    ),
    "ipam": Addition(
        file="components/cluster/ipam/host_local.py",
        edits={
            "stacks/ipam.py": {
                "\nIpam = Annotated[": '''
class HostLocalRanges(IpamBase):
    """Each node counts for itself."""

    kind: Literal["host_local"]
    routes: int = 2


Ipam = Annotated[HostLocalRanges | '''
            }
        },
    ),
    "host_setting": Addition(
        file="components/hosts/program/steps/turbo.py",
        edits={
            "stacks/system.py": {
                "    cpu_governor: ": '    turbo: Literal["keep", "off", "on"] = "keep"\n'
                '    """Clock rates above the nominal one."""\n    cpu_governor: '
            }
        },
    ),
    "training_benchmark": Addition(
        file="components/validation/benchmarks/training/toy_net.py",
        edits={"stacks/transports.py": {"\nTraining = Literal[": '\nTraining = Literal["toy_net", '}},
    ),
    "report_format": Addition(
        file="components/report/csv.py",
        edits={
            "components/report/formats.py": {
                "from components.report.ctrf": (
                    "from components.report.csv import render_csv\nfrom components.report.ctrf"
                ),
                "FORMATS = {\n": 'FORMATS = {\n    "csv": Format("csv", "one line per test", render_csv),\n',
            }
        },
    ),
    "verbs_test": Addition(
        edits={
            "stacks/benchmarks.py": {"\nVerbsTest = Literal[": '\nVerbsTest = Literal["ib_atomic_lat", '},
            "components/validation/benchmarks/verbs/plan.py": {
                "] = {\n": '] = {\n    "ib_atomic_lat": VerbsProgram(title="Atomic FETCH_AND_ADD Latency Test"),\n'
            },
        }
    ),
    "audit_check": Addition(file="components/audit/checks/naming.py"),
}


WORKER = """
import contextlib, gc, io, json, sys, traceback
gc.disable()
from components.cli.app import main

for line in sys.stdin:
    request, out, err, code, scope = json.loads(line), io.StringIO(), io.StringIO(), 0, {"json": json}
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            if "code" in request:
                exec(request["code"], scope)
            else:
                code = main(request["words"])
        except SystemExit as ended:
            code = ended.code
        except Exception:
            code = traceback.print_exc() or 70
    print(json.dumps([code, out.getvalue(), err.getvalue(), scope.get("answer")]), flush=True)
"""
"""A Python of its own that has imported the copy and nothing else; it ends with its stdin."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The product with all additions."""

    root: Path
    touched: dict[str, set[str]]
    worker: subprocess.Popen[str]

    def run(self, *words: str) -> tuple[int, str, str]:
        """Status, stdout and stderr of `rocelab WORDS` in the copy."""
        code, out, err, _ = self._asked(words=words)
        return code, out, err

    def told(self, *words: str) -> str:
        """What a command prints that succeeds."""
        code, out, err = self.run(*words)
        assert code == 0, err
        return out

    def refused(self, *words: str) -> str:
        """The error of a command that refuses the lab file."""
        code, _, err = self.run(*words)
        assert code == 2
        return err

    def evaluated(self, code: str) -> Any:
        """What a few lines against the copy's modules leave in `answer`."""
        status, _, err, answer = self._asked(code=code)
        assert status == 0, err
        return answer

    def lab_file(self, edit: Callable[[dict[str, Any]], object]) -> str:
        """The reference lab, edited."""
        stack = yaml.safe_load(REFERENCE)
        edit(stack["config"][KEY])
        (self.root / "Pulumi.x.yaml").write_text(yaml.safe_dump(stack))
        return "Pulumi.x.yaml"

    def _asked(self, **request: object) -> Any:
        assert self.worker.stdin
        assert self.worker.stdout
        self.worker.stdin.write(json.dumps(request) + "\n")
        self.worker.stdin.flush()
        return json.loads(self.worker.stdout.readline())


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    root = tmp_path_factory.mktemp("copy")
    for name in ("components", "stacks"):
        # with bytecode, which stays valid for what is not edited, but without files that are being written
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy(ROOT / "Pulumi.yaml", root)
    touched = {kind: addition.make(root, kind) for kind, addition in ADDITIONS.items()}
    command = [sys.executable, "-B", "-c", WORKER]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        yield Copy(root, touched, worker)


@pytest.mark.parametrize("kind", ADDITIONS)
def test_a_new_one_takes_at_most_two_production_files(copy: Copy, kind: str) -> None:
    assert len(copy.touched[kind]) <= 2


def test_a_new_switch_os_is_rendered_checked_and_talked_to(copy: Copy) -> None:
    ports = {"gpu01": {"enp5s0": "toy1", "enp132s0": "toy2"}, "gpu02": {"enp5s0": "toy3", "enp132s0": "toy4"}}

    def toys(lab: dict[str, Any]) -> None:
        lab["switches"][0].update(os="toy", ports=ports, greeting="moo", apply=False)

    def a_group(lab: dict[str, Any]) -> None:
        rails = {"rail-a": "toy[1-2]", "rail-b": "toy[3-4]"}
        of_group = [{"nodes": "gpu[01-02]", "rails": rail, "port": port} for rail, port in rails.items()]
        group = {"names": "leaf1", "os": "toy", "address": "10.0.0.9", "greeting": "moo", "ports": of_group}
        lab["switches"] = [{**group, "native_vlans": {"rail-a": 4094, "rail-b": 4093}}]

    assert copy.told("switches", "--config-file", copy.lab_file(toys)).splitlines()[:3] == [
        "; sn2700: Toy OS, lab lab, lossy RoCE",
        "moo",
        "vlan 111",
    ]
    assert "leaf1: Toy OS" in copy.told("switches", "--config-file", copy.lab_file(a_group))
    other_ports = copy.lab_file(lambda lab: lab["switches"][0].update(os="toy"))
    assert "switches[0].ports.gpu01.enp5s0: '1/1'" in copy.refused("switches", "--config-file", other_ports)
    unknown = copy.lab_file(lambda lab: lab["switches"][0].update(os="ios"))
    assert lines_naming(copy.refused("switches", "--config-file", unknown), "switches[0]", "'ios'", "'toy'")

    file = copy.lab_file(toys)
    answer = copy.evaluated(f"""
import asyncio
from pathlib import Path
from components.switches.records import SwitchRecord, switch_record, task_of
from components.switches.settings import cables_of
from components.switches.work import NotOursError, configure
from stacks.read import read_stack_file

lab = read_stack_file(Path({file!r}))
switch = lab.switches[0]
record = SwitchRecord.model_validate_json(switch_record(lab, switch, "ssh-ed25519 AAAA").model_dump_json())
task = task_of(record, {{cable.port: cable.settings for cable in cables_of(lab, switch)}}, lab)
mtu, sent = dict.fromkeys(task.ports, 1500), []

class Talk:
    heard = "gpu01"

    async def ask(self, command):
        sent.append(command)
        if command.startswith("set "):
            mtu[command.split()[1]] = int(command.split()[3])
        if command == "show mtu":
            return "".join(f"{{port}} {{value}}\\n" for port, value in mtu.items())
        port = {{"id": {{"type": "ifname", "value": "enp5s0"}}, "descr": "enp5s0"}}
        heard = {{"toy1": {{"chassis": {{self.heard: {{}}}}, "port": port}}}}
        return json.dumps({{"lldp": {{"interface": heard}}}}) if "lldpctl" in command else ""

talk = Talk()
first = asyncio.run(configure(talk, task, lambda _: None)).changed
again = asyncio.run(configure(talk, task, lambda _: None)).changed
talk.heard = "gpu02"
try:
    asyncio.run(configure(talk, task, lambda _: None))
except NotOursError as error:
    answer = {{"first": len(first), "again": again, "saved": sent.count("keep"), "cable": str(error)}}
""")
    assert (answer["first"], answer["again"], answer["saved"]) == (4, [], 1)
    assert lines_naming(answer["cable"], "toy1:", "gpu01 enp5s0", "LLDP", "gpu02")


def test_a_new_switch_os_is_looked_at_as_far_as_it_can_be_asked(copy: Copy) -> None:
    answer = copy.evaluated("""
import asyncio
from components.inventory.model import Switch
from components.inventory.switches import read_switch
from components.switches.os import default_dialect

class Talk:
    async def ask(self, command):
        return "toy2 9000\\ntoy1 1500\\n" if command == "show mtu" else ""

switch = Switch(name="leaf1", os="toy", address="192.0.2.201")
switch = asyncio.run(read_switch(Talk(), default_dialect("toy"), switch))
ports = switch.ports.or_else(())
answer = {
    "mtus": {port.name: port.mtu_bytes.value for port in ports},
    "heard": ports[0].neighbours.value,
    "macs": switch.macs.unknown,
}
""")

    assert answer["mtus"] == {"toy1": 1500, "toy2": 9000}
    assert answer["heard"] == []
    assert "not read" in answer["macs"]
    assert "toy" in copy.told("look", "--help")


def test_a_new_ipam_is_in_networks_programs_definitions_images_and_rules(copy: Copy) -> None:
    file = copy.lab_file(lambda lab: lab["cluster"].update(ipam={"kind": "host_local", "routes": 7}))

    answer = copy.evaluated(f"""
from pathlib import Path
from components.cluster.profiles import kinds, networks, pools, programs
from stacks.read import read_stack_file

lab = read_stack_file(Path({file!r}))
config = next(iter(networks(lab, lab.cluster).values()))["spec"]["config"]
answer = {{
    "ipam": json.loads(config)["plugins"][0]["ipam"],
    "programs": sorted(programs(lab, lab.cluster)),
    "kinds": sorted(kinds(lab.cluster)),
    "pools": pools(lab, lab.cluster),
}}
""")

    assert answer["ipam"] == {"type": "host-local", "subnet": "10.20.111.0/24", "routes": 7}
    assert {"host-local", "multus"} <= set(answer["programs"])
    assert "nv-ipam" not in answer["programs"]
    assert answer["kinds"] == ["mpijobs", "networks", "ranges"]
    assert answer["pools"] == {}
    assert "busybox" in copy.told("image", "list", "--config-file", file)
    unknown = copy.lab_file(lambda lab: lab["cluster"].update(ipam={"kind": "x"}))
    assert lines_naming(copy.refused("ports", "--config-file", unknown), "cluster.ipam", "'x'", "'host_local'")


def test_a_new_host_setting_reaches_the_host_and_is_undone(copy: Copy) -> None:
    file = copy.lab_file(lambda lab: lab.update(system={"turbo": "off"}))
    boost = copy.root / "host/sys/devices/system/cpu/cpufreq/boost"
    boost.parent.mkdir(parents=True)
    boost.write_text("1\n")

    answer = copy.evaluated(f"""
from pathlib import Path
from components.hosts.document import host_document
from components.hosts.records import target_fields
from components.hosts.changes import field_effect
from components.hosts.repair import repair_class
from components.hosts.records import KEPT_FACTS
from components.hosts.pack import packed
from components.hosts.program.host import Host
from components.hosts.program.machine import Machine
from components.hosts.program.steps import STEPS
from stacks.read import read_stack_file

lab = read_stack_file(Path({file!r}))
document = host_document(lab, lab.nodes[0])
step = next(step for step in STEPS if step.name == "turbo")
host = Host(Machine("host"), document, b"")
before, at_first = step.before(host), step.observed(host)
step.apply(host, {{"turbo"}})
applied = step.observed(host)
step.undo(host, before)
names = [step.name for step in STEPS]
answer = {{
    "target": target_fields(document)["turbo"],
    "seen": [at_first["turbo"], applied["turbo"], step.observed(host)["turbo"]],
    "effect": [field_effect("turbo"), repair_class("turbo")],
    "kept": "turbo" in KEPT_FACTS,
    "packed": b"steps/turbo.py" in packed(),
    "in_turn": names.index("cpu_governor") < names.index("turbo") < names.index("users"),
}}
""")

    assert answer == {
        "target": "off",
        "seen": ["on", "off", "on"],
        "effect": ["none", "none"],
        "kept": True,
        "packed": True,
        "in_turn": True,
    }
    assert "turbo" not in copy.evaluated(f"""
from pathlib import Path
from components.hosts.document import host_document
from stacks.read import read_stack_file
lab = read_stack_file(Path({copy.lab_file(lambda _: None)!r}))
answer = host_document(lab, lab.nodes[0])
"""), "a document of a lab that does not ask for it stays as it was"


def test_a_new_training_benchmark_is_planned_offered_read_and_shown(copy: Copy) -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["images"] = {"training": {"image": "registry.lab:5000/toys:1"}}
        lab["benchmarks"]["application"] = {"program": "toy_net"}

    file = copy.lab_file(edit)

    answer = copy.evaluated(f"""
from pathlib import Path
from components.validation.benchmarks.training import training_benchmark
from components.validation.benchmarks.plan import plan_of
from components.validation.benchmarks.jobs.run import without_a_run
from stacks.read import read_stack_file

plan = plan_of(read_stack_file(Path({file!r})))
answer = {{
    "documents": [name for name, text in plan.documents() if "toy-net" in text],
    "unit": without_a_run(plan.jobs, "error", "")[0].unit,
    "read": training_benchmark("toy_net").read("84", 2).samples,
}}
""")

    assert "toy-net-roce.yaml" in answer["documents"]
    assert (answer["unit"], answer["read"]) == ("img/s", [42.0])
    assert "toy-net" in copy.told("job", "toy_net", "--config-file", file)


def test_a_new_verbs_test_is_planned_run_read_and_judged(copy: Copy) -> None:
    def both(lab: dict[str, Any]) -> None:
        lab["benchmarks"]["verbs"].update(tests=["ib_write_bw", "ib_atomic_lat"], latency_iterations=1000)

    file = copy.lab_file(both)
    outputs = [perftest(name).replace("RDMA_Write", "Atomic FETCH_AND_ADD") for name in ("wlat.client", "wlat.server")]

    answer = copy.evaluated(f"""
from ipaddress import IPv4Address
from pathlib import Path
from components.validation.benchmarks.verbs.commands import Side, perftest
from components.validation.benchmarks.verbs.judge import judge_stage
from components.validation.benchmarks.verbs.run import read
from components.validation.benchmarks.plan import End, plan_of
from components.validation.records import RunRecord, TransferResult
from stacks.read import read_stack_file

lab = read_stack_file(Path({file!r})).model_copy(update={{"kind": "hardware"}})
plan = plan_of(lab)
rail, stage = plan.rails[0], next(one for one in plan.stages if one.test == "ib_atomic_lat")
client, server = (
    End(node=node, device="rxe0", interface="ens1", address=IPv4Address(f"10.10.11.{{n}}"))
    for node, n in (("gpu02", 12), ("gpu01", 11))
)
given = {{"path_mtu_bytes": rail.path_mtu_bytes, "gid_index": 1, "port": 1, "queue_pairs": 1, "message_bytes": 2}}
sides = [
    Side(end=end, peer=peer, connects=end is client, **given) for end, peer in ((client, server), (server, client))
]
run = read(stage, plan.verbs, sides, {outputs!r})
known = {{"test": stage.test, "client": "gpu02", "server": "gpu01", "outcome": "measured"}}
transfer = TransferResult(rail=rail.name, samples=(12.0,), **known)
record = RunRecord(
    run_id="x", started_at="", duration_s=1, simulated=False, plan_digest=plan.digest, transfers=(transfer,)
)
judged = judge_stage(plan, lab.benchmarks, stage, rail, record)
answer = {{
    "words": perftest(stage, sides[0], plan.verbs)[:3],
    "run": [run.value, run.faults],
    "judged": [judged.performance, judged.unit, judged.ceiling],
}}
""")

    assert answer["words"] == ["ib_atomic_lat", "-d", "rxe0"]
    assert answer["run"] == [2132.01, []]
    assert answer["judged"] == ["warn", "us", 10.0], "12 us there and back are 6 us one way, above 5"
    unknown = copy.lab_file(lambda lab: lab["benchmarks"]["verbs"].update(tests=["ib_atomic_bw"]))
    refused = copy.refused("ports", "--config-file", unknown)
    assert lines_naming(refused, "benchmarks.verbs.tests[0]", "'ib_atomic_bw'", "'ib_atomic_lat'", "'ib_write_bw'")


def test_a_new_audit_check_finds_and_can_be_waived(copy: Copy) -> None:
    def spoilt(host: Host) -> Host:
        kernel = known("6.8.0-60-lowlatency", "/proc/sys/kernel/osrelease")
        return replace(host, system=replace(host.system, kernel=kernel))

    save(changed(fabricate(cluster=False), "gpu02", spoilt), copy.root / "inventory.json")
    words = ("audit", "--from", "inventory.json", "--fail-on", "low", "--json")

    code, out, _ = copy.run(*words)
    found = {finding["code"]: finding for finding in json.loads(out)["findings"]}

    assert code == 1
    assert "install the generic kernel" in found["kernel-flavour"]["remedy"]
    assert "gpu02" in json.dumps(found["kernel-flavour"])
    assert "gpu01" not in json.dumps(found["kernel-flavour"])
    waiver = "- {check: kernel-flavour, nodes: gpu02, reason: on trial, expires: 2099-01-01}\n"
    (copy.root / "waivers.yaml").write_text(waiver)
    _, out, _ = copy.run(*words, "--waivers", "waivers.yaml")
    assert "kernel-flavour" not in {finding["code"] for finding in json.loads(out)["findings"]}


def test_a_new_report_format_is_an_option_and_a_file_of_the_folder(copy: Copy, tmp_path: Path) -> None:
    run = ROOT / "tests" / "samples" / "run"

    copy.run("report", "--outputs", f"{run}/outputs.json", "--store", str(run), "--folder", str(tmp_path / "report"))

    assert (tmp_path / "report" / "lab.csv").read_text().startswith("test,function,performance\nib_write_bw,")
    assert "--csv FILE" in copy.told("report", "--help")


def test_the_schema_offers_what_was_added(copy: Copy) -> None:
    definitions = json.loads(copy.told("schema"))["$defs"]

    assert definitions["ToySwitch"]["properties"]["greeting"]["description"] == "What it wants to hear first."
    assert "greeting" in definitions["SwitchGroup"]["properties"]
    assert "toy" in definitions["SwitchGroup"]["properties"]["os"]["enum"]
    assert "HostLocalRanges" in definitions
    assert definitions["System"]["properties"]["turbo"]["enum"] == ["keep", "off", "on"]
    assert "toy_net" in definitions["Application"]["properties"]["program"]["enum"]
    assert "ib_atomic_lat" in definitions["Verbs"]["properties"]["tests"]["items"]["enum"]


def test_a_word_without_a_file_is_named_with_the_page_that_helps() -> None:
    with pytest.raises(LookupError, check=stating("components/switches/os", "ios.py", "CONTRIBUTING.md")):
        class_named("components.switches.os", "ios", Dialect)


VERBS_TESTS = {
    "stacks/benchmarks.py",
    "components/validation/benchmarks/verbs/plan.py",
    # the two commands of its guide
    "components/validation/bitfusion.py",
}
"""Files that name more than one verbs test."""

REGISTRIES: dict[str, tuple[str, Collection[str]]] = {
    # folder whose files are the things, and their names
    "switch OS": ("components/switches/os", members(Switch, "os")),
    "IPAM": ("components/cluster/ipam", members(Ipam, "kind")),
    "training benchmark": ("components/validation/benchmarks/training", get_args(Training)),
}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_the_folder_has_a_file_for_each_word_of_the_model_and_no_other(kind: str) -> None:
    folder, names = REGISTRIES[kind]

    assert {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"} == set(names)


def test_every_verbs_test_of_the_model_has_its_program_and_no_other_has_one() -> None:
    assert set(PROGRAMS) == set(get_args(VerbsTest))


@pytest.mark.parametrize(
    ("names", "only"),
    [
        (members(Switch, "os"), {"stacks/switches.py"}),
        (members(Ipam, "kind"), {"stacks/ipam.py"}),
        (get_args(Training), {"stacks/transports.py"}),
        (set(FORMATS) - {"json", "markdown", "html"}, {"components/report/formats.py"}),
        (get_args(VerbsTest), VERBS_TESTS),
    ],
    ids=["switch OS", "IPAM", "training benchmark", "report format", "verbs test"],
)
def test_there_is_no_second_list_of_the_names(names: Collection[str], only: set[str]) -> None:
    lists = set()
    for package in ("components", "stacks", "simulator"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text()
            if sum(each in text for each in names) > 1 and len(constants(path) & set(names)) > 1:
                lists.add(name)

    assert lists == only


@cache
def constants(path: Path) -> set[str]:
    """The words of a file that stand alone in quotes."""
    tree = ast.parse(path.read_text())
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_step_has_a_place_of_its_own_and_its_setting_is_a_field_of_the_lab(lab: Lab) -> None:
    places = [step.order for step in STEPS]

    assert places == sorted(set(places))
    assert all(100 <= place < 900 for place in places)
    for step in STEPS:
        owner: Any = lab
        for name in filter(None, step.setting.split(".")):
            assert name in type(owner).model_fields, step.setting
            owner = getattr(owner, name)
    kept = {fact for step in STEPS for fact in step.keeps}
    assert set(KEPT_FACTS) == kept | {"machine_id", "boot_id", "kernel", "warnings"}
    assert kept & constants(ROOT / "components/hosts/records.py") == {"qos"}, "only the section that it reads"
