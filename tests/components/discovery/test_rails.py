"""Which evidence makes a rail, and what becomes a question: the cases that real clusters leave open."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import yaml

from components.discovery.candidates import ports_of
from components.discovery.questions import Question
from components.inventory.model import Link, Pf, Route, Switch, SwitchPort
from components.inventory.reading import known, unknown
from components.switches.settings import Announcement, LearnedMac
from stacks.base import LabError
from tests.components.discovery.spoilt import (
    UNREAD,
    address,
    bare,
    by_rail,
    codes,
    each_pf,
    healthy,
    inferred,
    leaf,
    moved,
    near,
    one_pf,
    without,
)
from tests.components.inventory.fabricate import changed, changed_pf, fabricate, mac_of, pci_of
from tests.messages import states, stating

ALL = ("gpu", "leaf", "subnet")


def answer_of(question: Question) -> dict[str, Any]:
    """What answers.yaml gets."""
    answer: dict[str, Any] = yaml.safe_load(question.answer)
    return answer


def test_a_healthy_cluster_has_its_rails_with_all_evidence_and_no_question() -> None:
    found = inferred(bare(3, 4))

    assert by_rail(found) == healthy(3, 4)
    assert {rail.evidence for rail in found.rails} == {("gpu", "leaf", "slot", "subnet")}
    assert (found.questions, found.notices) == ((), ())


@pytest.mark.parametrize("kind", ALL)
def test_the_slot_and_one_other_kind_of_evidence_are_enough(kind: str) -> None:
    lacking = [each for each in ALL if each != kind]

    found = inferred(each_pf(bare(3, 2), without(*lacking)))

    assert by_rail(found) == healthy(3, 2)
    assert {rail.evidence for rail in found.rails} == {tuple(sorted((kind, "slot")))}


def test_the_slot_alone_is_a_question_that_shows_the_evidence() -> None:
    found = inferred(each_pf(bare(3, 2), without(*ALL)))

    assert found.rails == ()
    assert codes(found.questions) == ["too-little", "too-little"]
    assert found.questions[0].nodes == ("gpu01", "gpu02", "gpu03")
    [evidence] = found.questions[0].evidence
    assert states(evidence, "gpu[01-03]", "ens1np0", pci_of(1), "GPU unknown", "leaf unknown", "no address")
    assert answer_of(found.questions[0]) == {"ports": {"gpu[01-03]": {"ens1np0": "rail-N"}}}


@pytest.mark.parametrize("lacking", [*ALL, ""])
def test_two_server_models_meet_by_leaf_and_subnet_where_the_slot_says_nothing(lacking: str) -> None:
    inventory = moved(bare(2, 2), "gpu02", bus=80, product="Other")
    if lacking:
        inventory = each_pf(inventory, without(lacking))

    found = inferred(inventory)

    if lacking in ("", "gpu"):
        assert by_rail(found) == healthy(2, 2)
        assert {rail.evidence for rail in found.rails} == {("leaf", "subnet")}
    else:
        assert found.rails == (), "one kind of evidence is not enough"


def test_models_that_share_only_the_order_of_their_gpus_are_asked_about() -> None:
    def apart(n: int, k: int, pf: Pf) -> Pf:
        return replace(pf, lldp=leaf(f"pod2-leaf{k}"), addresses=address(f"10.{60 + k}.0.{n}/24"))

    inventory = moved(bare(4, 2), "gpu03", bus=80, product="Other")
    inventory = each_pf(moved(inventory, "gpu04", bus=80, product="Other"), apart, ["gpu03", "gpu04"])

    found = inferred(inventory)

    assert by_rail(found) == healthy(2, 2)
    assert codes(found.questions) == ["other-model", "other-model"]
    assert {question.nodes for question in found.questions} == {("gpu03", "gpu04")}


def test_models_whose_leaf_and_subnet_disagree_are_asked_about() -> None:
    inventory = moved(bare(3, 2), "gpu03", bus=80, product="Other")
    swapped = {1: leaf("leaf2"), 2: leaf("leaf1")}
    inventory = each_pf(inventory, lambda _, k, pf: replace(pf, lldp=swapped[k]), ["gpu03"])
    inventory = each_pf(inventory, lambda _, k, pf: replace(pf, lldp=leaf(f"leaf{k}")), ["gpu01", "gpu02"])

    found = inferred(inventory)

    assert by_rail(found) == healthy(2, 2)
    assert codes(found.questions) == ["contradiction", "contradiction"]


@pytest.mark.parametrize(("kind", "rails"), [("gpu", 2), ("leaf", 2), ("", 0)])
def test_nics_of_one_subnet_need_other_evidence(kind: str, rails: int) -> None:
    lacking = [each for each in ("gpu", "leaf") if each != kind]
    inventory = each_pf(bare(3, 2), without(*lacking))
    inventory = each_pf(inventory, lambda n, k, pf: replace(pf, addresses=address(f"10.9.{k}.{n}/16")))

    found = inferred(inventory)

    assert len(found.rails) == rails
    if not rails:
        assert states(found.questions[0].text, "subnet")


def test_links_cut_from_a_range_per_rail_are_evidence() -> None:
    def link(n: int, k: int, pf: Pf) -> Pf:
        return replace(pf, addresses=address(f"172.16.{k}.{2 * (n - 1)}/31"))

    found = inferred(each_pf(each_pf(bare(4, 3), without("gpu", "leaf")), link))

    assert by_rail(found) == healthy(4, 3)
    assert {rail.evidence for rail in found.rails} == {("slot", "subnet")}


def test_links_that_run_through_a_servers_leaves_are_evidence() -> None:
    def link(n: int, k: int, pf: Pf) -> Pf:
        return replace(pf, addresses=address(f"10.200.0.{2 * (3 * (n - 1) + k - 1) + 1}/31"))

    found = inferred(each_pf(each_pf(bare(4, 3), without("gpu", "leaf")), link))

    assert by_rail(found) == healthy(4, 3)
    assert {rail.evidence for rail in found.rails} == {("slot", "subnet")}


def test_links_in_no_order_are_no_evidence() -> None:
    places = {(1, 1): 0, (1, 2): 7, (2, 1): 3, (2, 2): 4, (3, 1): 5, (3, 2): 9}

    def link(n: int, k: int, pf: Pf) -> Pf:
        return replace(pf, addresses=address(f"10.200.0.{2 * places[n, k]}/31"))

    found = inferred(each_pf(each_pf(bare(3, 2), without("gpu", "leaf")), link))

    assert codes(found.questions) == ["too-little", "too-little"]


def test_a_rail_may_have_a_leaf_and_a_subnet_per_block_of_nodes() -> None:
    def segment(n: int, k: int, pf: Pf) -> Pf:
        block = (n - 1) // 2
        return replace(pf, lldp=leaf(f"leaf{k}{'ab'[block]}"), addresses=address(f"10.10.{k}.{64 * block + n}/26"))

    found = inferred(each_pf(bare(4, 2), segment))

    assert by_rail(found) == healthy(4, 2)
    assert {rail.evidence for rail in found.rails} == {("gpu", "leaf", "slot", "subnet")}


def test_a_node_on_another_leaf_keeps_the_rail_of_its_slot_and_is_noticed() -> None:
    inventory = one_pf(bare(4, 3), "gpu03", 1, lldp=leaf("leaf2"))
    inventory = each_pf(inventory, lambda _, k, pf: replace(pf, lldp=leaf(f"leaf{k}")), ["gpu01", "gpu02", "gpu04"])

    found = inferred(inventory)

    assert by_rail(found) == healthy(4, 3)
    assert found.questions == ()
    crossed = [notice for notice in found.notices if notice.code == "cross-cabled"]
    assert [notice.nodes for notice in crossed] == [("gpu03",)]
    assert "leaf2" in crossed[0].text
    assert "leaf1" in crossed[0].text


def test_two_nodes_cabled_crosswise_are_a_question_since_either_may_be_right() -> None:
    swapped = {1: leaf("leaf2"), 2: leaf("leaf1")}
    inventory = each_pf(bare(2, 2), lambda _, k, pf: replace(pf, lldp=leaf(f"leaf{k}")), ["gpu01"])
    inventory = each_pf(inventory, lambda _, k, pf: replace(pf, lldp=swapped[k]), ["gpu02"])

    found = inferred(inventory)

    assert found.rails == ()
    assert codes(found.questions) == ["contradiction", "contradiction"]


def test_a_node_with_another_rails_address_is_a_question_of_its_own() -> None:
    found = inferred(one_pf(bare(4, 2), "gpu02", 1, addresses=address("10.12.0.99/16")))

    assert by_rail(found)["rail-1"].keys() == {"gpu01", "gpu03", "gpu04"}
    assert by_rail(found)["rail-2"].keys() == {"gpu01", "gpu02", "gpu03", "gpu04"}
    assert [(question.code, question.nodes) for question in found.questions] == [("contradiction", ("gpu02",))]
    assert "subnet" in found.questions[0].text


def test_a_nic_of_the_same_model_without_a_gpu_near_is_asked_about_as_storage() -> None:
    def storage(_n: int, k: int, pf: Pf) -> Pf:
        return replace(pf, nearest_gpus=near()) if k == 3 else pf

    found = inferred(each_pf(bare(3, 3), storage))

    assert by_rail(found) == healthy(3, 2)
    assert [(question.code, question.nodes) for question in found.questions] == [
        ("no-gpu", ("gpu01", "gpu02", "gpu03"))
    ]


def test_the_evidence_of_many_nodes_is_folded_and_that_of_few_is_shown_in_full() -> None:
    def storage(_n: int, k: int, pf: Pf) -> Pf:
        return replace(pf, nearest_gpus=near()) if k == 2 else pf

    many, few = (inferred(each_pf(bare(hosts, 2), storage)).questions[0] for hosts in (5, 2))

    place = f"ens2np0 at {pci_of(2)}: no GPU below its bridge, leaf2"
    assert many.evidence == (f"gpu[01-05]: {place}, 10.12.0.0/16",)
    assert few.evidence[0] == f"gpu01: {place} Ethernet0, 10.12.0.1/16, 10.12.0.0/16"


def test_two_ports_of_one_card_are_asked_about() -> None:
    def dual(_n: int, k: int, pf: Pf) -> Pf:
        return replace(pf, pci=pci_of(2).replace(".0", ".1"), nearest_gpus=pf.nearest_gpus) if k == 3 else pf

    found = inferred(each_pf(bare(3, 3), dual))

    assert by_rail(found) == {"rail-1": healthy(3, 3)["rail-1"]}
    assert codes(found.questions) == ["one-card"]
    assert answer_of(found.questions[0]) == {"ports": {"gpu[01-03]": {"ens2np0": "rail-N", "ens3np0": "rail-N"}}}


def test_an_unused_second_port_is_not_a_question() -> None:
    def dual(_n: int, k: int, pf: Pf) -> Pf:
        unused = {"carrier": known(value=False, source="sysfs"), "addresses": known((), "ip"), "lldp": UNREAD}
        return replace(pf, pci=pci_of(2).replace(".0", ".1"), **unused) if k == 3 else pf

    found = inferred(each_pf(bare(3, 3), dual))

    assert by_rail(found) == healthy(3, 2)
    assert (found.questions, codes(found.notices)) == ((), ["unused"])


def not_set_up(pf: Pf) -> Pf:
    """As on a server whose operating system has just been installed."""
    no_carrier = unknown("the kernel does not report it while the interface is down")
    down = {"up": known(value=False, source="sysfs"), "carrier": no_carrier}
    return replace(pf, addresses=known((), "ip"), lldp=UNREAD, **down)


def test_ports_that_are_not_set_up_are_one_question_whose_answer_makes_them_rails() -> None:
    inventory = each_pf(bare(3, 2), lambda _n, _k, pf: not_set_up(pf))

    found = inferred(inventory)
    answered = inferred(inventory, {(f"gpu0{n}", f"ens{k}np0"): f"rail-{k}" for n in (1, 2, 3) for k in (1, 2)})

    assert (found.rails, codes(found.questions)) == ((), ["not-set-up"])
    assert answer_of(found.questions[0]) == {
        "ports": {"gpu[01-03]": {"ens1np0": "rail-1", "ens2np0": "rail-2"}},
        "host_subnets": {"rail-1": "SUBNET", "rail-2": "SUBNET"},
    }
    assert (by_rail(answered), answered.questions) == (healthy(3, 2), ())


def test_a_port_that_is_not_set_up_beside_others_is_not_a_question() -> None:
    found = inferred(each_pf(bare(3, 2), lambda _n, k, pf: not_set_up(pf) if k == 2 else pf))

    assert (found.questions, codes(found.notices)) == ((), ["unused"])


def test_a_port_that_is_down_has_the_rail_of_its_peers_slot() -> None:
    down = {"carrier": known(value=False, source="sysfs"), "addresses": known((), "ip"), "lldp": UNREAD}

    found = inferred(one_pf(bare(3, 2), "gpu02", 1, **down))

    assert by_rail(found) == healthy(3, 2)


def test_a_gpu_that_fell_off_the_bus_does_not_shift_the_rails_of_its_node() -> None:
    inventory = changed(bare(3, 3), "gpu02", lambda host: replace(host, gpus=host.gpus.map(lambda gpus: gpus[1:])))

    found = inferred(one_pf(inventory, "gpu02", 1, nearest_gpus=near()))

    assert by_rail(found) == healthy(3, 3)
    assert found.questions == ()


def test_two_switches_with_the_same_name_are_distinguished_by_chassis() -> None:
    inventory = each_pf(bare(3, 2), lambda _, k, pf: replace(pf, lldp=leaf("mlag", f"chassis {k}")))

    found = inferred(each_pf(inventory, without("gpu", "subnet")))

    assert by_rail(found) == healthy(3, 2)


def test_a_switch_shows_the_leaf_where_the_host_receives_no_lldp() -> None:
    hosts = each_pf(bare(3, 2), without("gpu", "leaf", "subnet"))

    found = inferred(replace(hosts, switches=fabricate(3, 2).switches))

    assert by_rail(found) == healthy(3, 2)
    assert {rail.evidence for rail in found.rails} == {("leaf", "slot")}


def test_a_switch_that_receives_interface_names_and_one_chassis_per_host_shows_the_leaf() -> None:
    hosts = each_pf(bare(3, 2), without("gpu", "leaf", "subnet"))

    def port(n: int, k: int) -> SwitchPort:
        heard = Announcement(system=f"gpu{n:02}.lab.example", chassis_id=mac_of(1, n), port_id=f"ens{k}np0")
        return SwitchPort(name=f"1/{2 * n + k}", neighbours=known((heard,), "show lldp"))

    leaf1 = Switch(
        name="leaf1",
        os="onyx",
        address="192.0.2.1",
        ports=known(tuple(port(n, k) for n in (1, 2, 3) for k in (1, 2)), "show"),
    )

    found = ports_of(replace(hosts, switches=(leaf1,)), virtual=False).ports

    assert {(one.node, one.interface): one.leaf and one.leaf.port for one in found} == {
        (f"gpu{n:02}", f"ens{k}np0"): f"1/{2 * n + k}" for n in (1, 2, 3) for k in (1, 2)
    }


def test_a_mac_table_shows_the_leaf_except_on_ports_that_lead_to_other_switches() -> None:
    hosts = each_pf(bare(3, 2), without("gpu", "leaf", "subnet"))
    own = {k: tuple(LearnedMac(mac=mac_of(k, n), port=f"Ethernet{n}") for n in (1, 2, 3)) for k in (1, 2)}
    others = {k: tuple(LearnedMac(mac=mac_of(3 - k, n), port="Ethernet64") for n in (1, 2, 3)) for k in (1, 2)}
    leaves = tuple(
        Switch(
            name=f"leaf{k}",
            os="sonic",
            address=f"192.0.2.{k}",
            ports=known((SwitchPort(name="Ethernet64"),), "show"),
            macs=known(own[k] + others[k], "show mac"),
        )
        for k in (1, 2)
    )

    found = inferred(replace(hosts, switches=leaves))

    assert by_rail(found) == healthy(3, 2)


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("bond", {"master": known("bond0", "ip")}),
        ("bluefield", {"device_id": known("a2dc", "sysfs")}),
        ("driver", {"driver": known("ionic_rdma", "sysfs")}),
        ("no-interface", {"interfaces": known((), "sysfs")}),
    ],
)
def test_what_rocelab_does_not_configure_is_noticed_and_never_a_rail(code: str, values: dict[str, object]) -> None:
    found = ports_of(one_pf(bare(2, 2), "gpu01", 2, **values), virtual=False)

    assert {(port.node, port.interface) for port in found.ports} == {
        ("gpu01", "ens1np0"),
        ("gpu02", "ens1np0"),
        ("gpu02", "ens2np0"),
    }
    assert [(notice.code, notice.nodes) for notice in found.notices] == [(code, ("gpu01",))]


def test_an_infiniband_port_is_noticed_and_never_a_rail() -> None:
    def infiniband(pf: Pf) -> Pf:
        return replace(
            pf,
            rdma=pf.rdma.map(
                lambda ports: tuple(replace(port, link_layer=known("InfiniBand", "sysfs")) for port in ports)
            ),
        )

    found = ports_of(changed(bare(2, 2), "gpu02", lambda host: changed_pf(host, pci_of(1), infiniband)), virtual=False)

    assert [(notice.code, notice.nodes) for notice in found.notices] == [("infiniband", ("gpu02",))]


def test_what_the_host_depends_on_is_never_a_rail_not_even_below_a_vlan() -> None:
    inventory = changed(
        bare(2, 2),
        "gpu01",
        lambda host: replace(
            host,
            carriers=replace(host.carriers, storage=known({"ens2np0.7": "nfs /home"}, "/proc/mounts")),
            network=replace(
                host.network,
                links=known((Link(name="ens2np0.7", kind="vlan", lower="ens2np0", vlan_id=7),), "ip -j link"),
            ),
        ),
    )

    found = ports_of(inventory, virtual=False)

    assert ("gpu01", "ens2np0") not in {(port.node, port.interface) for port in found.ports}
    assert "nfs /home" in next(notice.text for notice in found.notices if notice.code == "carrier")


def test_the_router_of_a_port_is_the_gateway_in_its_own_subnet() -> None:
    routes = (
        Route(destination="10.0.0.0/8", gateway="10.11.0.254", interface="ens1np0", table="100"),
        Route(destination="default", gateway="198.18.255.254", interface="ens1np0"),
    )
    inventory = changed(
        bare(2, 2), "gpu01", lambda host: replace(host, network=replace(host.network, routes=known(routes, "ip")))
    )

    found = ports_of(inventory, virtual=False)

    assert {port.interface: port.gateway for port in found.ports if port.node == "gpu01"} == {
        "ens1np0": "10.11.0.254",
        "ens2np0": "",
    }


def test_an_answer_puts_ports_on_a_rail_by_interface_or_slot_and_closes_the_question() -> None:
    def storage(_n: int, k: int, pf: Pf) -> Pf:
        return replace(pf, nearest_gpus=near()) if k > 1 else pf

    inventory = each_pf(bare(2, 3), storage)
    answers = {(node, pci_of(2)): "rail-2" for node in ("gpu01", "gpu02")}
    answers |= {(node, "ens3np0"): "none" for node in ("gpu01", "gpu02")}

    found = inferred(inventory, answers)

    assert by_rail(found) == healthy(2, 2)
    assert [rail.evidence for rail in found.rails][1] == ("answer",)
    assert found.questions == ()


@pytest.mark.parametrize("answers", [{("gpu09", "ens1np0"): "rail-1"}, {("gpu01", "eno1"): "rail-1"}])
def test_an_answer_for_no_candidate_is_refused(answers: dict[tuple[str, str], str]) -> None:
    with pytest.raises(LabError, match="no such candidate"):
        inferred(bare(2, 2), answers)


def test_two_ports_of_a_node_on_one_rail_are_refused() -> None:
    with pytest.raises(LabError, check=stating("gpu01", "ens1np0", "ens2np0", "rail-1")):
        inferred(bare(2, 2), {("gpu01", "ens2np0"): "rail-1"})


@pytest.mark.parametrize("lost", list(combinations(("gpu01", "gpu02", "gpu03", "gpu04"), 2)))
def test_a_node_with_less_evidence_than_its_peers_is_asked_about_alone(lost: tuple[str, str]) -> None:
    found = inferred(each_pf(bare(4, 2), without(*ALL), lost))

    assert {rail: sorted(ports) for rail, ports in by_rail(found).items()} == {
        rail: sorted({"gpu01", "gpu02", "gpu03", "gpu04"} - set(lost)) for rail in ("rail-1", "rail-2")
    }
    assert {question.nodes for question in found.questions} == {lost}


def test_interfaces_called_otherwise_on_one_node_change_nothing() -> None:
    found = inferred(one_pf(bare(3, 2), "gpu02", 1, interfaces=known(("enp27s0np0",), "sysfs")))

    assert by_rail(found)["rail-1"] == {"gpu01": "ens1np0", "gpu02": "enp27s0np0", "gpu03": "ens1np0"}
    assert found.questions == ()


def test_two_neighbours_on_one_port_are_no_evidence() -> None:
    both = known(
        (Announcement(system="leaf1", chassis_id="1"), Announcement(system="phone", chassis_id="2")), "lldpctl"
    )
    inventory = each_pf(bare(3, 1), without("gpu", "subnet"))

    found = inferred(each_pf(inventory, lambda *given: replace(given[2], lldp=both)))

    assert codes(found.questions) == ["too-little"]
