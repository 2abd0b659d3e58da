"""`rocelab gate`: what keeps jobs away from which node, by exit code, line and document."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.audit.audit import audit
from components.cli.app import main
from components.finding import Finding
from components.gate.decision import GateMaterial, LabGate, decide
from components.gate.measured import MeasuredState
from components.hosts.program.look.read_only import ReadOnly
from components.hosts.program.look.run import look
from components.inventory.answer import host_of
from components.inventory.document import save
from components.inventory.model import Host, Inventory, Pf
from components.inventory.reading import known
from components.validation.benchmarks.plan import plan_of
from components.validation.summary import Summary
from components.validation.verdict import bounds_digest
from stacks.lab import Lab
from tests.components.audit.spoilt import SPOILS, counters, earlier, healthy, lab, pf, rdma, switch_port, system
from tests.components.inventory.fabricate import changed
from tests.components.inventory.tree import GPU, Tree
from tests.conftest import ROOT

MEASURED_LAB = lab(benchmarks={"mode": "enforce"})
BOOT = "00000000-0000-4000-8000-{:012}"
NODES = tuple(f"gpu{n:02}" for n in range(1, 6))


def verdict(function: str = "pass", performance: str = "pass", **fields: Any) -> Summary:
    content = {
        "run_id": "20261101-110000-aaaa",
        "started_at": "2026-11-01T11:00:00Z",
        "duration_s": 60,
        "simulated": False,
        "lab": "pod1",
        "mode": "enforce",
        "function": function,
        "performance": performance,
        "reasons": (),
        "hints": (),
        "tests": (),
    }
    return Summary.model_validate(content | fields)


def facts(number: int, **changes: object) -> dict[str, object]:
    return {
        "status": "ready",
        "boot_id": BOOT.format(number),
        "nics": {"ens1np0": {"driver": "mlx5_core", "model": "MT4129"}},
        "gpu": {"count": 2.0},
        **changes,
    }


def measured(summary: Summary | None = None, **hosts: dict[str, object]) -> MeasuredState:
    before = {name: facts(number) for number, name in enumerate(NODES, start=1)}
    return MeasuredState(verdict=summary or verdict(), hosts={**before, **hosts})


def gate(
    inventory: Inventory | None = None,
    state: MeasuredState | None = None,
    *,
    of: Lab = MEASURED_LAB,
    **options: Any,
) -> LabGate:
    inventory = inventory or healthy()
    before = earlier(inventory)
    nodes = {node.name: node.state for node in of.nodes}
    return decide(
        GateMaterial(
            lab=of,
            nodes=nodes,
            inventory=inventory,
            audit=audit(inventory, of, before),
            measured=state or measured(),
            **options,
        )
    )


def closed_nodes(result: LabGate) -> dict[str, list[str]]:
    return {node.name: [reason.code for reason in node.reasons] for node in result.nodes if node.reasons}


def test_a_healthy_lab_with_a_fresh_pass_is_open() -> None:
    result = gate()

    assert result.state == "open"
    assert result.line == "open: gpu[01-05]: run 20261101-110000-aaaa, function pass, performance pass"


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (pf(carrier=False), "closed: gpu02: link-down ens1np0: no carrier"),
        (pf(rdma=()), "closed: gpu02: rdma-port ens1np0: no RDMA device"),
        (rdma(), None),
        (SPOILS["gpu-lost"], "closed: gpu02: gpu-lost"),
        (SPOILS["gpu-xid"], "closed: gpu02: gpu-xid"),
        (
            counters(sent_pkts=1_000_000, rcvd_seq_err=1_000),
            "closed: gpu02: packet-loss ens1np0: 0.10% of packets sent again",
        ),
        (counters(sent_pkts=1_000_000, rcvd_seq_err=100), None),
        (counters(packet_seq_err=1_000_000), "closed: gpu02: packet-loss ens1np0: packet_seq_err 278/s"),
        (switch_port(mtu_bytes=1500), "closed: gpu02: mtu-switch leaf1 Ethernet4: 1500"),
    ],
)
def test_a_fault_of_now_closes_the_gate_of_its_node_alone(
    spoil: Callable[[Inventory], Inventory], line: str | None
) -> None:
    result = gate(spoil(healthy()))

    assert result.line.startswith(line or "open: ")
    assert {*closed_nodes(result)} == ({"gpu02"} if line else set())


def test_a_renamed_rdma_device_and_a_port_without_rail_are_told_apart() -> None:
    def rename(inventory: Inventory) -> Inventory:
        def change(host: Any) -> Any:
            pfs = []
            for port in host.pfs.value:
                devices = tuple(replace(device, device="rocep2") for device in port.rdma.or_else(()))
                first = port.interface == "ens1np0"
                pfs.append(replace(port, rdma=known(devices, "rdma")) if first else port)
            return replace(host, pfs=known(tuple(pfs), "pfs"))

        return changed(inventory, "gpu02", change)

    def unplug_unused(inventory: Inventory) -> Inventory:
        def change(host: Any) -> Any:
            unused = Pf(
                pci="0000:77:00.0",
                interfaces=known(("ens9np0",), "net"),
                up=known(True, "flags"),
                carrier=known(False, "carrier"),
                rdma=known((), "rdma"),
            )
            return replace(host, pfs=known((*host.pfs.value, unused), "pfs"))

        return changed(inventory, "gpu03", change)

    result = gate(unplug_unused(rename(healthy())))

    assert result.line == "closed: gpu02: rdma-name ens1np0: rocep2"


def test_what_changed_since_the_measurement_closes_the_gate_of_its_node() -> None:
    rebooted = system("gpu02", boot_id="another")(healthy())
    state = measured(gpu03=facts(3, gpu={"count": 3.0}))

    result = gate(rebooted, state)

    assert result.line == "closed: gpu02: stale boot changed; gpu03: stale gpu count 3 is now 2"
    assert gate(rebooted, state, stale_closes=False).state == "open"


def test_a_fault_that_is_open_survives_a_reboot() -> None:
    fault = Finding(code="NODE_SLOW", where="gpu02, all rails", evidence="82.1 of 97.5 Gbit/s")
    bad = verdict(performance="fail", findings=(fault,), reasons=("rail-1 gpu01 to gpu02: slow",))

    result = gate(system("gpu02", boot_id="another")(healthy()), measured(bad))

    assert closed_nodes(result) == {"gpu02": ["NODE_SLOW", "stale"]}


@pytest.mark.parametrize(
    ("reasons", "nodes"),
    [
        (("rail-1 gpu01 to gpu04: nothing answers",), {"gpu01", "gpu04"}),
        (("not measured: gpu[02-03]",), {"gpu02", "gpu03"}),
        (("slower than run x",), {*NODES}),
        ((), {*NODES}),
    ],
)
def test_a_bad_verdict_closes_the_nodes_that_it_names_or_all(reasons: tuple[str, ...], nodes: set[str]) -> None:
    state = measured(verdict("fail", reasons=reasons))

    assert {*closed_nodes(gate(state=state))} == nodes


def test_a_verdict_that_the_owner_accepts_closes_nothing() -> None:
    assert gate(state=measured(verdict("fail", "fail", mode="warn"))).state == "open"


def test_a_host_that_did_not_take_part_or_is_drained_stays_closed() -> None:
    content = json.loads(MEASURED_LAB.model_dump_json())
    content["nodes"][0]["state"] = "drained"

    result = gate(state=measured(gpu02=facts(2, status="failed")), of=Lab.model_validate(content))

    assert closed_nodes(result) == {"gpu01": ["drained"], "gpu02": ["not-ready"]}


def test_an_unread_host_is_unknown_and_an_unread_switch_makes_all_nodes_unknown() -> None:
    silent = changed(healthy(), "gpu05", lambda host: replace(host, unread="no answer"))
    switches = tuple(replace(switch, unread="refused") for switch in healthy().switches[:1])

    assert gate(silent).line == "unknown: gpu05: not-read no answer"
    deaf = gate(replace(healthy(), switches=(*switches, *healthy().switches[1:])))
    assert {node.state for node in deaf.nodes} == {"unknown"}


def test_a_lab_is_closed_until_it_is_measured_unless_it_has_no_benchmarks() -> None:
    material = {
        "nodes": dict.fromkeys(NODES, "active"),
        "inventory": healthy(),
        "audit": audit(healthy(), MEASURED_LAB, earlier(healthy())),
        "measured": None,
    }

    unmeasured = decide(GateMaterial(lab=MEASURED_LAB, **material))
    without = decide(GateMaterial(lab=lab(), **material))

    assert unmeasured.line == "closed: gpu[01-05]: not-measured the stack has no verdict yet"
    assert without.state == "open"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Lab file, state and inventory as files; the options that name them."""
    monkeypatch.chdir(tmp_path)
    content = json.loads(MEASURED_LAB.model_dump_json(exclude_defaults=True))
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump({"config": {"rocelab:lab": content}}))

    def options(inventory: Inventory, summary: Summary, **outputs: object) -> list[str]:
        save(inventory, tmp_path / "inventory.json")
        save(earlier(inventory), tmp_path / "earlier.json")
        plan = plan_of(MEASURED_LAB)
        assert plan
        hosts = {name: facts(number) for number, name in enumerate(NODES, start=1)}
        kept: dict[str, Any] = {"verdict": summary.model_dump(mode="json"), "plan_digest": plan.digest, "hosts": hosts}
        assert MEASURED_LAB.benchmarks
        kept["verdict"]["bounds"] = bounds_digest(MEASURED_LAB.benchmarks)
        measurement = {"type": "rocelab:validation:Measurement", "outputs": kept | outputs}
        state = {"deployment": {"resources": [{"type": "pulumi:pulumi:Stack"}, measurement]}}
        (tmp_path / "state.json").write_text(json.dumps(state))
        named = ["--config-file", "lab.yaml", "--state", "state.json"]
        return ["gate", *named, "--from", "inventory.json", "--since", "earlier.json"]

    return options


def test_the_command_ends_with_1_and_writes_a_line_per_node(
    files: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = files(pf(carrier=False)(healthy()), verdict(lab="pod1"))

    assert main([*options, "--json", "--results", "shared"]) == 1

    document = json.loads(capsys.readouterr().out)
    assert document["gate"] == "closed"
    assert document["nodes"]["gpu02"]["reasons"] == [{"code": "link-down", "text": "ens1np0: no carrier"}]
    results = {path.name: path.read_text().split() for path in (tmp_path / "shared").iterdir()}
    assert {name: words[0] for name, words in results.items()} == {
        name: "closed" if name == "gpu02" else "open" for name in NODES
    }


ENDED_AT_A_GPU = "Unable to determine the device handle for GPU0000:1A:00.0: Unknown Error"
"""nvidia-smi on a host that had lost a GPU (meta-llama/llama-models#200), with the address of this one."""
OTHER_GPU = (ROOT / "tests/samples/gpu/h100_idle.xml").read_text()
"""Recorded on an H100, at another address than the server's."""


@pytest.mark.parametrize("smi", [f"echo '{ENDED_AT_A_GPU}'; exit 15", f"cat <<'X'\n{OTHER_GPU}X"])
def test_a_gpu_that_recorded_output_shows_lost_closes_the_gate_of_its_node(
    smi: str, files: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server = Tree(tmp_path / "server")

    def read() -> Host:
        return host_of(json.dumps(look(ReadOnly(str(server.root), str(server.programs)), deadline_s=60)), host)

    def with_gpu_of(reading: Host, host: Host) -> Host:
        first, *others = host.gpus.or_else(())
        first = replace(first, pci=GPU, health=reading.gpus.or_else(())[0].health)
        return replace(host, gpus=known((first, *others), "lspci"))

    host = healthy().hosts[0]
    sound = read()
    inventory = replace(healthy(), hosts=tuple(with_gpu_of(sound, host) for host in healthy().hosts))
    server.script("nvidia-smi", smi)
    broken = read()

    def lose(host: Host) -> Host:
        return replace(with_gpu_of(broken, host), system=replace(host.system, xids=broken.system.xids))

    options = files(changed(inventory, "gpu02", lose), verdict(lab="pod1"))

    assert main([*options, "--allow-stale", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    reasons = document["nodes"]["gpu02"]["reasons"]
    assert [(reason["code"], GPU.removesuffix(".0") in reason["text"].lower()) for reason in reasons] == [
        ("gpu-lost", True),
        ("gpu-xid", True),
    ]
    assert {name for name, node in document["nodes"].items() if node["gate"] != "open"} == {"gpu02"}


def test_one_node_can_be_open_while_another_is_closed(
    files: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    options = files(pf(carrier=False)(healthy()), verdict(lab="pod1"))

    assert main([*options, "--node", "gpu01"]) == 0
    assert capsys.readouterr().out.startswith("open: gpu01: run ")
    assert main([*options, "--node", "gpu09"]) == 2


def test_a_lab_file_that_changed_makes_the_verdict_stale(
    files: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(files(healthy(), verdict(lab="pod1"), plan_digest="before")) == 1
    assert "stale the lab file sets other measurements" in capsys.readouterr().out
