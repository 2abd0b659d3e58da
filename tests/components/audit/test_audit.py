"""What an audit makes of many faults at once: it finds all of them, invents none, and folds and waives them."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from components.audit.audit import MOST_WAYS, audit
from components.audit.findings import Audit, Severity
from components.audit.registry import checks
from components.audit.view import IDLE, NO_EARLIER, REBOOTED
from components.audit.waivers import Waivers, read_waivers
from components.inventory.document import load, save
from components.inventory.model import Pf
from components.inventory.reading import NOT_READ, known, unknown
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.audit.spoilt import (
    HOSTS,
    SPOILS,
    TWELVE,
    both,
    cluster,
    counters,
    crossed,
    earlier,
    healthy,
    lab,
    on_pf,
    pf,
    spoilt_in_twelve_ways,
    state,
    switch_port,
    system,
)
from tests.components.inventory.fabricate import changed, fabricate, pci_of
from tests.messages import states


def codes(found: Audit) -> list[str]:
    return sorted(one.code for one in found.findings)


def test_twelve_faults_of_twelve_kinds_are_all_found_and_nothing_else() -> None:
    found = audit(spoilt_in_twelve_ways(), None, earlier(healthy()))

    assert set(codes(found)) == set(TWELVE)
    assert {one.nodes for one in found.findings if one.code != "cross-cabled"} == {
        ("gpu01",), ("gpu02",), ("gpu03",), ("gpu04",), ("gpu05",),
    }  # fmt: skip
    crossed_ports = {place for one in found.findings if one.code == "cross-cabled" for place in one.places}
    assert crossed_ports == {("gpu01", "ens1np0"), ("gpu01", "ens2np0")}


def test_with_a_lab_file_the_same_twelve_faults_are_found() -> None:
    found = audit(spoilt_in_twelve_ways(), lab(), earlier(healthy()))

    assert set(codes(found)) == set(TWELVE) - {"rail-subnet"} | {"rail-address"}


def test_the_worst_finding_comes_first() -> None:
    found = audit(spoilt_in_twelve_ways())

    severities = [one.severity for one in found.findings]
    assert severities == sorted(severities)
    assert found.worst is Severity.CRITICAL


def test_equal_faults_of_many_hosts_are_one_finding() -> None:
    spoil = both(*(pf(f"gpu{n:02}", k, iommu_group_type="DMA") for n in range(1, 4) for k in (1, 2)))

    [finding] = audit(spoil(healthy())).findings

    assert (finding.code, len(finding.places), finding.nodes) == ("iommu", 6, ("gpu01", "gpu02", "gpu03"))


def test_many_different_values_of_one_check_are_one_finding_with_an_example() -> None:
    count = MOST_WAYS + 2
    inventory = fabricate(count, 1)
    for n in range(1, count + 1):
        inventory = system(f"gpu{n:02}", containerd_memlock=str(n))(inventory)

    [finding] = audit(inventory).findings

    assert finding.code == "memlock"
    assert len(finding.nodes) == count
    assert finding.actual.startswith(f"{count} different values")


def test_two_peers_that_differ_are_both_named_since_either_may_be_right() -> None:
    inventory = pf("gpu02", 1, mtu_bytes=4200)(fabricate(2, 1))

    [finding] = [one for one in audit(inventory).findings if one.code == "mtu-pf"]

    assert finding.nodes == ("gpu01", "gpu02")
    assert "9000 on gpu01" in finding.actual


def test_a_value_that_is_unknown_on_one_host_is_named_and_makes_no_finding() -> None:
    inventory = on_pf("gpu02", 1, lambda one: replace(one, fec=unknown("Operation not supported")))(healthy())

    found = audit(inventory)

    assert found.findings == ()
    [missing] = [one for one in found.not_checked if one.code == "link-fec"]
    assert (missing.nodes, missing.reason) == (("gpu02",), "Operation not supported")


def test_a_host_that_was_not_read_is_named_once_and_no_check_misses_it() -> None:
    inventory = changed(healthy(), "gpu02", lambda one: replace(one, unread="Connection refused"))

    found = audit(inventory)

    assert found.unread == (("gpu02", "Connection refused"),)
    assert found.hosts == HOSTS - 1
    assert not any("gpu02" in one.nodes for one in found.not_checked)


def test_a_node_of_the_lab_file_that_is_not_in_the_inventory_counts_as_not_read() -> None:
    inventory = healthy()

    found = audit(replace(inventory, hosts=inventory.hosts[1:]), lab())

    assert [name for name, _ in found.unread] == ["gpu01"]


def test_a_drained_node_is_left_alone() -> None:
    nodes = [node.model_dump(mode="json", exclude_unset=True) for node in lab().nodes]
    nodes[1]["state"] = "drained"

    found = audit(SPOILS["link-down"](healthy()), lab(nodes=nodes))

    assert found.findings == ()
    assert found.drained == ("gpu02",)


def test_the_same_host_under_another_name_is_found_by_its_address() -> None:
    inventory = changed(healthy(), "gpu02", lambda one: replace(one, name="rack1-u07"))

    assert audit(inventory, lab()).unread == ()


def test_counters_say_nothing_without_an_earlier_look_after_a_reboot_and_on_idle_links() -> None:
    inventory = SPOILS["packet-loss"](healthy())
    traffic = counters("gpu02", 1, rx_bytes_phy=10, rx_discards_phy=10**9)(healthy())
    rebooted = system("gpu02", boot_id="another")(inventory)

    assert reasons(audit(inventory)) == {NO_EARLIER}
    assert reasons(audit(rebooted, None, earlier(inventory))) == {REBOOTED}
    assert IDLE in reasons(audit(traffic, None, earlier(traffic)))
    for found in (audit(inventory), audit(rebooted, None, earlier(inventory))):
        assert "packet-loss" not in codes(found)


def reasons(found: Audit) -> set[str]:
    return {one.reason for one in found.not_checked if one.code == "packet-loss"}


def test_an_earlier_look_is_read_from_its_file(tmp_path: Path) -> None:
    inventory = both(SPOILS["packet-loss"], SPOILS["link-flaps"])(healthy())
    save(earlier(inventory), tmp_path / "earlier.json")

    found = audit(inventory, None, load(tmp_path / "earlier.json"))

    assert found == audit(inventory, None, earlier(inventory))
    assert {"packet-loss", "link-flaps"} == set(codes(found))


@pytest.mark.parametrize("text", ["{", "{}", '{"schema": 99, "read_at": "2026-11-01T12:00:00Z"}'])
def test_an_invalid_earlier_inventory_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)

    with pytest.raises(LabError, match=r"x\.json"):
        load(tmp_path / "x.json")


def test_a_waiver_covers_its_nodes_until_its_day(tmp_path: Path) -> None:
    inventory = both(pf("gpu01", iommu_group_type="DMA"), pf("gpu02", iommu_group_type="DMA"))(healthy())
    file = tmp_path / "waivers.yaml"
    file.write_text("- {check: iommu, nodes: 'gpu[02-04]', reason: VMs until spring, expires: 2027-03-01}")

    def at(day: date) -> Audit:
        return audit(inventory, waivers=read_waivers(file, checks(), day))

    on_the_day, after = at(date(2027, 3, 1)), at(date(2027, 3, 2))
    assert [one.nodes for one in on_the_day.findings] == [("gpu01",)]
    assert [(one.finding.nodes, one.reason) for one in on_the_day.waived] == [(("gpu02",), "VMs until spring")]
    assert on_the_day.expired == ()
    assert [one.nodes for one in after.findings] == [("gpu01", "gpu02")]
    assert (after.waived, len(after.expired)) == ((), 1)
    assert states(after.expired[0], "iommu", "gpu[02-04]", "2027-03-01")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("- {check: no-such, reason: x, expires: 2027-01-01}", "no-such"),
        ("- {check: iommu, expires: 2027-01-01}", r"0\.reason: missing"),
        ("- {check: iommu, reason: x}", "0.expires"),
        ("- {check: iommu, reason: x, expires: soon}", "0.expires"),
        ("- {check: iommu, nodes: 'gpu[4-1]', reason: x, expires: 2027-01-01}", "0.nodes"),
        ("iommu", "file: should be a list"),
        ("[", "not YAML"),
    ],
)
def test_a_waiver_without_check_reason_or_day_is_refused(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "waivers.yaml"
    file.write_text(text)

    with pytest.raises(LabError, match=named):
        read_waivers(file, checks(), date(2026, 1, 1))


def test_an_empty_file_waives_nothing(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("# none yet\n")

    assert isinstance(read_waivers(tmp_path / "w.yaml", checks(), date(2026, 1, 1)), Waivers)


def test_a_leaf_for_all_rails_is_not_taken_for_crossed_cables() -> None:
    inventory = healthy()
    for n in range(1, HOSTS + 1):
        first = inventory.hosts[n - 1].pf(pci_of(1))
        assert first
        shared = first.lldp.map(lambda heard: tuple(replace(each, port_id=f"{each.port_id}/2") for each in heard))
        inventory = on_pf(f"gpu{n:02}", 2, lambda own, shared=shared: replace(own, lldp=shared))(inventory)

    assert "cross-cabled" not in codes(audit(inventory))


def test_the_switch_port_of_a_host_without_lldp_is_found_by_mac() -> None:
    inventory = healthy()
    for n in range(1, HOSTS + 1):
        inventory = on_pf(f"gpu{n:02}", 1, lambda own: replace(own, lldp=known((), "lldpctl -f json0")))(inventory)
    silent = replace(
        inventory,
        switches=tuple(
            replace(
                one, ports=one.ports.map(lambda ports: tuple(replace(port, neighbours=known((), "")) for port in ports))
            )
            for one in inventory.switches
        ),
    )

    assert audit(silent).findings == ()
    assert codes(audit(switch_port(mtu_bytes=1500)(silent))) == ["mtu-switch"]


def test_the_switch_port_of_a_host_without_lldp_is_found_by_the_names_that_the_switch_hears() -> None:
    inventory = healthy()
    for n in range(1, HOSTS + 1):
        for k in (1, 2):
            inventory = on_pf(f"gpu{n:02}", k, lambda own: replace(own, lldp=unknown("no lldpd"), mac=known("", "")))(
                inventory
            )

    assert codes(audit(switch_port(mtu_bytes=1500)(inventory))) == ["mtu-switch"]


def test_cables_of_the_lab_file_decide_even_between_two_hosts() -> None:
    def leaf(k: int) -> dict[str, object]:
        ports = {f"gpu{n:02}": {f"ens{k}np0": f"Ethernet{4 * (n - 1)}"} for n in (1, 2)}
        return {
            "name": f"leaf{k}",
            "os": "sonic",
            "address": f"192.0.2.{200 + k}",
            "native_vlans": {"rail-1": 11, "rail-2": 12},
            "ports": ports,
        }

    given = lab(2, 2, switches=[leaf(1), leaf(2)])
    inventory = fabricate(2, 2)

    assert audit(inventory, given).findings == ()
    found = [one for one in audit(crossed("gpu02")(inventory), given).findings if one.code == "cross-cabled"]
    assert {one.expected for one in found} == {"leaf1 Ethernet4", "leaf2 Ethernet4"}
    assert {one.nodes for one in found} == {("gpu02",)}


def vfs_left_to_the_operator(delivered: int) -> Audit:
    content = lab().model_dump(mode="json", exclude_unset=True)
    for node in content["nodes"]:
        for one in node["pfs"]:
            one["vfs"] = 0
    content["cluster"]["delivery"] = {"profile": "sriov_operator", "vfs": delivered}
    inventory = cluster(sriov_node_states=(state(),))(healthy())
    return audit(inventory, Lab.model_validate_json(json.dumps(content)))


@pytest.mark.parametrize(("delivered", "found"), [(4, set()), (3, {"vfs"})])
def test_vfs_that_a_lab_file_leaves_to_the_operator_are_counted_as_its_policy_says(
    delivered: int, found: set[str]
) -> None:
    assert set(codes(vfs_left_to_the_operator(delivered))) == found


def test_a_lab_file_without_a_cluster_that_makes_vfs_beside_the_operator_has_two_owners() -> None:
    content = lab().model_dump(mode="json", exclude_unset=True)
    del content["cluster"]
    for rail in content["rails"]:
        for key in ("pod", "resource_prefix", "resource_name", "network_name"):
            rail.pop(key, None)
    inventory = cluster(sriov_node_states=(state(),))(healthy())

    [finding] = audit(inventory, Lab.model_validate_json(json.dumps(content))).findings

    assert (finding.code, finding.places) == ("vf-owners", (("gpu02", "ens1np0"),))


def test_a_nic_whose_firmware_retransmits_in_another_way_or_lacks_a_setting_is_named_with_the_setting() -> None:
    spoil = pf(firmware_settings={"PCI_WR_ORDERING": 0}, roce_acceleration={"roce_adp_retrans_en": 0})

    findings = audit(spoil(healthy())).findings

    assert {finding.code for finding in findings} == {"firmware-settings"}
    assert {(finding.actual, finding.expected) for finding in findings} == {
        ("ATS_ENABLED absent", "ATS_ENABLED 0, as most peers"),
        ("roce_adp_retrans_en 0", "roce_adp_retrans_en 1, as most peers"),
    }


def test_firmware_settings_that_no_look_read_are_not_checked_and_no_fault() -> None:
    def unread(port: Pf) -> Pf:
        return replace(port, pending_firmware=NOT_READ, firmware_settings=NOT_READ, roce_acceleration=NOT_READ)

    everywhere = both(*(on_pf(f"gpu{n:02}", rail, unread) for n in range(1, HOSTS + 1) for rail in (1, 2)))
    result = audit(everywhere(healthy()))

    assert result.findings == ()
    reasons = {check.code: check.reason for check in result.not_checked if check.code.startswith("firmware")}
    assert set(reasons) == {"firmware-pending", "firmware-settings"}
    assert all("--firmware" in reason for reason in reasons.values())
