"""What an up would change: asked of the host program, and folded."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.cli.app import main
from components.hosts.calls import Report
from components.hosts.document import host_document
from components.hosts.plan import HostPlan, plan_of, remarks, table
from components.hosts.program.main import perform
from components.hosts.records import HostRecord, target_fields
from stacks.lab import Lab
from tests.components.hosts.fleet_hosts import record
from tests.components.hosts.host_runs import fewer_vfs, given_to_a_pod, made
from tests.components.hosts.kernel import FakeHost
from tests.conftest import ROOT
from tests.labs import simulator_files
from tests.messages import states

RAILS = ("ens1", "ens2", "ens3", "ens4")


def reported(machine: FakeHost, document: dict[str, Any]) -> dict[str, Any]:
    return perform("plan", machine, json.dumps(document), b"print('the program')\n")


def host_on_four_rails(number: int) -> tuple[HostRecord, Report]:
    """A host whose NICs have another address than the lab file sets."""
    known = record(f"gpu{number:02d}", number)
    [pf] = known.pfs
    pfs = [{**pf, "interface": name, "address": f"10.10.{rail}.{number}/24"} for rail, name in enumerate(RAILS, 1)]
    document: Any = {**known.document, "pfs": pfs}
    target = target_fields(document)
    now = {f"{name}.address": f"10.20.{rail}.{number}/24" for rail, name in enumerate(RAILS, 1)}
    fields = {**target, **now}
    changed = known.model_copy(update={"document": document, "fields": target})
    return changed, Report(host=f"gpu{number:02d}", fields=fields, facts={})


def test_a_host_lists_who_has_the_vfs_that_would_be_removed(machine: FakeHost, document: dict[str, Any]) -> None:
    made(machine, document)
    given_to_a_pod(machine)
    machine.file("/var/log/pods/default_trainer-0_5d2b3a0e-7c1f-4f6a-9a38-0c5f2e6b7d11/main/0.log", "")

    facts = reported(machine, fewer_vfs(document))["facts"]

    assert facts["vfs_in_use"] == {"enp5s0 VF 1": "allocated to pod default/trainer-0"}
    assert [refusal["step"] for refusal in facts["refusals"]] == ["vfs"]


def test_a_vf_of_a_virtual_machine_names_the_machine(machine: FakeHost, document: dict[str, Any]) -> None:
    made(machine, document)
    (machine.vf("enp5s0", 1) / "driver").unlink()
    machine.symlink("/sys/devices/0000:05:10.1/driver", machine.folder / "sys/bus/pci/drivers/vfio-pci")
    words = (
        "/usr/bin/qemu-system-x86_64",
        "-name",
        "guest=vm7,debug-threads=on",
        "-device",
        "vfio-pci,host=0000:05:10.1",
    )
    machine.file("/proc/4711/cmdline", "\0".join(words))

    facts = reported(machine, fewer_vfs(document))["facts"]

    assert facts["vfs_in_use"] == {"enp5s0 VF 1": "bound to vfio-pci, used by vm7"}


def test_a_host_reports_every_refusal_and_not_only_the_first(machine: FakeHost, lab: Lab) -> None:
    document: Any = host_document(lab, lab.nodes[0])
    document["pfs"][0]["vfs"] = 99
    document["pfs"][1]["driver"] = "mlx5_core"

    refusals = reported(machine, document)["facts"]["refusals"]

    assert {refusal["step"] for refusal in refusals} >= {"preflight", "link", "vfs"}


def test_rows_that_differ_only_by_address_are_one_row() -> None:
    hosts = {f"gpu{number:02d}": host_on_four_rails(number) for number in range(1, 13)}
    plans = {name: plan_of(*answer) for name, answer in hosts.items()}

    rows = list(table(plans))[2:]

    assert sum(len(plan.changes) for plan in plans.values()) == 48
    assert len(rows) == 1
    assert states(rows[0], "gpu[01-12] ens[1-4]", "10.20.4.[1-12]/24", "10.10.1.[1-12]/24", "loses")


def test_an_address_that_stays_is_not_lost() -> None:
    known, _ = host_on_four_rails(1)
    fields = {**known.fields, "ens1.address": "10.10.1.1/24 192.168.7.7/24"}

    [row] = list(table({"gpu01": plan_of(known, Report(host="gpu01", fields=fields))}))[2:]

    assert states(row, "loses 192.168.7.7/24")


def test_equal_refusals_and_silent_hosts_are_folded() -> None:
    refusal = {"step": "link", "reason": "a bond", "hint": "remove it"}
    plans = {name: HostPlan(refusals=(refusal,)) for name in ("gpu01", "gpu02")}

    lines = list(remarks(plans, {"gpu03": "no answer", "gpu04": "no answer"}))

    assert [line.partition(":")[0] for line in lines] == ["- gpu[01-02]", "- gpu[03-04]"]


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({}, 0),
        ({"gpu02": "127.0.0.1:22 does not answer"}, 4),
        ({"gpu01": Report(host="gpu01", failed={"step": "x", "reason": "r", "hint": "h"}), "gpu02": "silent"}, 1),
    ],
)
def test_the_verb_ends_with_1_for_a_refusal_and_4_for_a_host_that_was_not_read(
    answers: dict[str, Any], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(records: dict[str, HostRecord], _key: str | None) -> dict[str, Any]:
        return {name: Report(host=name, fields=known.fields) for name, known in records.items()} | answers

    monkeypatch.setattr("components.cli.plan.read_plans", read)
    simulator_files(tmp_path)
    (tmp_path / "Pulumi.lab.yaml").write_text((ROOT / "Pulumi.lab.yaml").read_text())
    (tmp_path / "Pulumi.yaml").write_text("")
    monkeypatch.chdir(tmp_path)

    assert main(["plan"]) == code
