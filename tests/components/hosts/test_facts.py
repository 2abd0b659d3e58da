"""What hosts say of themselves: no step's word hides another's, and what people must know is told and kept."""

import re
from typing import Any

from components.hosts.calls import Report
from components.hosts.program import verbs
from components.hosts.program.host import Host
from components.hosts.program.step import Step
from components.hosts.program.steps import STEPS
from components.hosts.records import kept, warnings_of
from components.validation.stale import changed_since, host_states
from tests.components.hosts.fleet_hosts import FakeHosts, converged, crew, record
from tests.components.hosts.host_runs import made, run
from tests.components.hosts.nics import NicHost, hardware
from tests.components.hosts.system_lab import ALL, document_of
from tests.components.hosts.vendor_lab import asks
from tests.messages import states


class Hot(Step):
    """A step of the future that warns too."""

    name = "hot"

    def concerns(self, document: dict[str, Any]) -> bool:
        return True

    def target(self, document: dict[str, Any]) -> dict[str, Any]:
        return {}

    def facts(self, host: Host) -> dict[str, Any]:
        return {"warnings": ["enp5s0 is at 97 degrees"], "degrees": 97}


def slow_link(machine: Any) -> None:
    """A PCIe link that trained low, of which the preflight warns."""
    names = {"current_link_speed": "8.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe"}
    for name, value in {**names, "current_link_width": "8", "max_link_width": "8"}.items():
        machine.file(f"/sys/devices/0000:05:00.0/{name}", value + "\n")


def test_warnings_of_all_steps_are_reported_in_any_order(lab, debian, monkeypatch):
    slow_link(debian)
    for order in ((Hot(), *STEPS), (*STEPS, Hot())):
        monkeypatch.setattr(verbs, "STEPS", order)

        facts = run("probe", debian, document_of(lab, {}))["facts"]

        assert {warning.partition(" at ")[0] for warning in facts["warnings"]} == {"enp5s0 runs", "enp5s0 is"}
        assert facts["degrees"] == 97


def test_a_warning_of_two_steps_is_reported_once(lab, debian, monkeypatch):
    monkeypatch.setattr(verbs, "STEPS", (Hot(), *STEPS, Hot()))

    [warning] = run("probe", debian, document_of(lab, {}))["facts"]["warnings"]
    assert states(warning, "enp5s0", "97 degrees")


def names_told(machine: Any, document: dict[str, Any]) -> list[str]:
    around = Host(machine, document, b"")
    return [key for step in STEPS if step.concerns(document) for key in step.facts(around) if key != "warnings"]


def test_no_two_steps_report_the_same_fact_of_the_vendors_software(lab, host):
    told = names_told(host, asks(lab, driver={}, firmware={"manage": True}, gpu={}, runtime={}))

    assert {"driver", "nics", "gpu", "iommu"} <= set(told)
    assert sorted(told) == sorted(set(told))


def test_no_two_steps_report_the_same_fact_of_the_system(lab, server):
    told = names_told(server, document_of(lab, ALL))

    assert {"os", "secure_boot"} <= set(told)
    assert sorted(told) == sorted(set(told))


def test_licence_guest_and_gpu_are_in_the_state_but_not_what_changes_at_each_reading():
    said: dict[str, Any] = {
        "machine_id": "m", "licence": {"status": "Licensed"}, "bitfusion": {"version": "3.0.1-4"},
        "guest_network": {"tool": "netplan"}, "gpu": {"count": 8}, "gpudirect": "none: no GPU", "carrier": {"a": True},
        "os": "debian 12", "iommu": "off", "secure_boot": "no EFI", "pcie": {}, "acs_bridges": [],
    }  # fmt: skip

    assert kept(Report(host="gpu01", facts=said)).keys() == said.keys() - {"carrier"}


def test_a_warning_of_many_hosts_is_one_line_with_their_number():
    facts: dict[str, Any] = {f"gpu0{i}": {"warnings": ["slow", f"own {i}"]} for i in (1, 2, 3)}

    assert list(warnings_of({**facts, "gpu04": {}})) == [
        "gpu01 and 2 more: slow", "gpu01: own 1", "gpu02: own 2", "gpu03: own 3"
    ]  # fmt: skip


def test_warnings_are_printed_in_the_run():
    hosts, said, one = FakeHosts(), list[str](), record("gpu01", 1)
    hosts.knows(one)
    warning = "enp5s0 runs at 8.0 GT/s x8 but supports 16.0 GT/s x16"
    hosts.facts[2201] = {"warnings": [warning]}

    outcome = converged(crew(hosts, said), {"gpu01": one}, {"gpu01": one})

    assert said == [f"gpu01: {warning}"]
    assert outcome.results["gpu01"]["status"] == "ready", "a warning is no failure"


def test_all_that_a_host_says_once_for_all_is_kept_and_stays_small(lab, host):
    document = asks(lab, gpu={}, runtime={})
    facts = run("probe", host, document)["facts"]

    known = kept(Report(host="gpu01", facts=facts))

    moving = {"carrier", "vfs_in_use", "vfs_offered"}  # kept in another form, or never
    assert set(facts) - set(known) - moving == set()
    assert len(str(known)) < 1500


def test_another_quality_of_service_is_another_measurement_and_says_so(lab, monkeypatch, tmp_path):
    """From lossy to lossless the NICs alone change: no boot, no driver, no plan."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    nic = NicHost(tmp_path, "mlnx_qos")

    def measured_on(**qos: object) -> str:
        facts = made(nic, hardware(lab, **qos))["facts"]
        return host_states({}, {"gpu01": kept(Report(host="gpu01", facts=facts))})

    lossy, again, lossless = measured_on(), measured_on(), measured_on(mode="lossless")

    assert lossy == again
    (said,) = changed_since(lossy, lossless)
    assert states(said, "gpu01", "roce_qos")
    assert re.search(r"\blossy\b.*\blossless\b", said)
