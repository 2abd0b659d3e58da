"""A draft loads, says what the hosts are, and changes nothing that works."""

import subprocess
import sys
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.discovery.draft import Draft, draft_of
from components.discovery.questions import Answers, as_markdown, read_answers
from components.inventory.document import dump, parse
from components.inventory.model import Attachment, CustomObject, Host, Inventory, KubeNode, Pf, RdmaPort, Route, Switch
from components.inventory.reading import known, unknown
from components.validation.benchmarks.plan import plan_of
from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import KEY, read_stack_file
from tests.components.discovery.spoilt import UNREAD, address, bare, codes, each_pf, leaf, moved, one_pf, without
from tests.components.inventory.fabricate import changed, fabricate, pci_of
from tests.conftest import ROOT
from tests.messages import stating

LEAVE = Answers(cluster="leave")
ADOPT = Answers(cluster="adopt")


def drafted(inventory: Inventory, answers: Answers = LEAVE) -> Draft:
    return draft_of(inventory, "pod1", "known_hosts", answers)


def loaded(draft: Draft, folder: Path) -> Lab:
    """The draft as the program reads it, from its file."""
    file = folder / f"Pulumi.{draft.name}.yaml"
    file.write_text(draft.text)
    return read_stack_file(file)


def written(draft: Draft) -> dict[str, Any]:
    """The draft as it is written."""
    lab: dict[str, Any] = yaml.safe_load(draft.text)["config"][KEY]
    return lab


def states(draft: Draft) -> dict[str, str]:
    assert draft.lab is not None
    return {node.name: node.state for node in draft.lab.nodes}


def pf_of(draft: Draft, node: str, rail: str) -> Any:
    assert draft.lab is not None
    return next(each for each in draft.lab.nodes if each.name == node).pf_on(rail)


def test_the_nodes_of_a_healthy_cluster_are_one_group(tmp_path: Path) -> None:
    draft = drafted(fabricate(64, 8))

    lab = loaded(draft, tmp_path)
    assert [node["names"] for node in written(draft)["nodes"]] == ["gpu[01-64]"]
    assert len(draft.text.splitlines()) <= 64 * 8 + 100, "a line for each cable"
    assert (len(lab.nodes), len(lab.rails), len(lab.switches)) == (64, 8, 8)
    assert (draft.questions, draft.notices) == ((), ())
    assert lab == draft.lab


def test_every_value_is_what_the_hosts_have(tmp_path: Path) -> None:
    lab = loaded(drafted(fabricate(5, 3)), tmp_path)

    node = lab.nodes[4]
    assert (node.name, str(node.address), node.management_interface, node.gpus) == ("gpu05", "198.18.0.5", "eno1", 3)
    assert [pf.model_dump(mode="json", exclude_defaults=True) for pf in node.pfs] == [
        {
            "rail": f"rail-{k}",
            "interface": f"ens{k}np0",
            "pci": pci_of(k),
            "address": f"10.{10 + k}.0.5/16",
            "vfs": 4,
            "rdma_device": f"mlx5_{k - 1}",
        }
        for k in (1, 2, 3)
    ]
    assert [(str(rail.host_subnet), rail.mtu_bytes) for rail in lab.rails] == [
        ("10.11.0.0/16", 9000),
        ("10.12.0.0/16", 9000),
        ("10.13.0.0/16", 9000),
    ]
    assert lab.access.user == "ops"
    assert lab.switches[2].ports["gpu05"] == {"ens3np0": "Ethernet16"}
    assert lab.switches[2].native_vlan("rail-3") == 13


def test_the_draft_touches_neither_drivers_nor_firmware_nor_qos_nor_switches(tmp_path: Path) -> None:
    lab = loaded(drafted(fabricate(3, 2)), tmp_path)

    assert (lab.driver.source, lab.firmware.manage, lab.qos, lab.gpu, lab.runtime) == ("keep", False, None, None, None)
    assert lab.hosts.reboot == "never"
    assert lab.hosts.rdma_namespaces == "exclusive", "as the hosts have it"
    assert {switch.apply for switch in lab.switches} == {False}
    assert lab.cluster is None
    assert lab.benchmarks is not None
    assert lab.benchmarks.rerun == "asked"


def test_what_a_document_says_is_drafted_alike(tmp_path: Path) -> None:
    inventory = fabricate(4, 2)

    assert drafted(parse(dump(inventory))).text == drafted(inventory).text


# what would change a host leaves it alone


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"mtu_bytes": known(1500, "sysfs")}, "MTU 1500"),
        ({"mtu_bytes": unknown("no sysfs")}, "MTU unknown"),
        ({"carrier": known(value=False, source="sysfs")}, "no link"),
        ({"up": known(value=False, source="ip -j addr"), "carrier": unknown("EINVAL")}, "no link"),
        ({"vfs_num": unknown("no sysfs")}, "VFs"),
        ({"addresses": known((), "ip")}, "no address"),
        ({"addresses": known(("10.11.0.2/16", "10.11.9.2/16"), "ip")}, "several addresses"),
        ({"addresses": address("10.99.0.2/16")}, "no subnet of another node"),
        ({"rdma": known((), "sysfs"), "vendor_id": known("15b3", "sysfs")}, "nothing usable"),
    ],
)
def test_a_node_that_an_up_would_change_is_drained_with_the_reason(
    values: dict[str, Any], why: str, tmp_path: Path
) -> None:
    draft = drafted(one_pf(bare(4, 2), "gpu02", 1, **values))

    assert loaded(draft, tmp_path) == draft.lab
    assert states(draft) == {"gpu01": "active", "gpu02": "drained", "gpu03": "active", "gpu04": "active"}
    assert any(
        notice.code == "drained" and notice.nodes == ("gpu02",) and why in notice.text for notice in draft.notices
    )


def test_a_node_with_other_rdma_namespaces_than_its_peers_is_drained() -> None:
    shared = known("shared", "rdma system show")
    inventory = changed(
        bare(3, 2), "gpu03", lambda host: replace(host, system=replace(host.system, rdma_namespaces=shared))
    )

    assert states(drafted(inventory))["gpu03"] == "drained"


def test_a_missing_vf_is_drafted_as_it_is() -> None:
    draft = drafted(one_pf(bare(4, 3), "gpu02", 1, vfs_num=known(3, "sysfs")))

    assert set(states(draft).values()) == {"active"}
    assert (pf_of(draft, "gpu02", "rail-1").vfs, pf_of(draft, "gpu01", "rail-1").vfs) == (3, 4)


def test_a_port_in_question_drains_its_node_and_one_of_all_nodes_drains_none() -> None:
    one = drafted(one_pf(bare(4, 2), "gpu02", 1, addresses=address("10.12.0.99/16")))
    inventory = each_pf(bare(4, 3), lambda _, k, pf: replace(pf, pci=pci_of(2)[:-1] + "1") if k == 3 else pf)
    every = drafted(inventory)

    assert [node for node, state in states(one).items() if state == "drained"] == ["gpu02"]
    assert set(states(every).values()) == {"active"}
    assert [rail.name for rail in every.lab.rails] == ["rail-1"] if every.lab else False


# what cannot be drafted


def test_rails_of_one_subnet_are_refused_with_the_rails_named() -> None:
    inventory = each_pf(bare(3, 2), lambda n, k, pf: replace(pf, addresses=address(f"10.9.{k}.{n}/16")))

    draft = drafted(inventory)

    assert (draft.text, draft.lab) == ("", None)
    assert codes(draft.questions) == ["one-subnet"]
    assert draft.questions[0].evidence[0] == "gpu01: ens1np0 10.9.1.1/16, ens2np0 10.9.2.1/16"
    assert [rail.name for rail in draft.rails] == ["rail-1", "rail-2"], "they are known all the same"


def test_ports_of_one_subnet_without_other_evidence_hear_first_that_they_need_subnets() -> None:
    inventory = each_pf(each_pf(bare(6, 2), without("gpu", "leaf")), one_subnet)

    draft = drafted(inventory)

    assert codes(draft.questions) == ["one-subnet", "too-little", "too-little"]
    assert draft.questions[0].nodes == ("gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "gpu06")
    assert any("2 more" in line for line in draft.questions[0].evidence)


def one_subnet(n: int, k: int, pf: Pf) -> Pf:
    return replace(pf, addresses=address(f"10.9.{k}.{n}/16"))


def test_ports_that_are_down_get_what_the_answer_gives_them_and_their_nodes_are_active(tmp_path: Path) -> None:
    down = {"up": known(value=False, source="sysfs"), "carrier": unknown("it is down"), "addresses": known((), "ip")}
    inventory = each_pf(bare(3, 2), lambda _n, _k, pf: replace(pf, **down))
    ports = {"gpu[01-03]": {"ens1np0": "rail-1", "ens2np0": "rail-2"}}
    subnets = {f"rail-{k}": IPv4Network(f"10.10.{k}.0/24") for k in (1, 2)}

    lab = loaded(drafted(inventory, Answers(ports=ports, host_subnets=subnets, cluster="leave")), tmp_path)

    assert {node.state for node in lab.nodes} == {"active"}
    assert str(lab.nodes[2].pf_on("rail-2").address) == "10.10.2.13/24"


def test_addresses_that_could_not_be_read_are_not_taken_for_none() -> None:
    inventory = each_pf(bare(3, 2), lambda _n, _k, pf: replace(pf, addresses=unknown("ip did not end within 10 s")))

    asked = drafted(inventory)

    assert codes(asked.questions) == ["no-address", "no-address"]
    assert {question.answer for question in asked.questions} == {""}, "another look helps, and nothing else"
    assert "addresses unknown" in asked.questions[0].evidence[0]
    with pytest.raises(LabError, check=stating("host_subnets.rail-1", "gpu01, gpu02, gpu03", "rocelab look")):
        drafted(inventory, Answers(host_subnets={"rail-1": IPv4Network("10.10.1.0/24")}, cluster="leave"))


def test_hosts_without_any_port_for_a_rail_are_a_question() -> None:
    inventory = each_pf(bare(3, 2), lambda _n, _k, pf: replace(pf, rdma=known((), "/sys")))

    draft = drafted(inventory)

    assert (draft.text, codes(draft.questions)) == ("", ["no-port"])
    assert set(codes(draft.notices)) == {"no-rdma", "no-rail"}


def test_in_a_virtual_lab_a_nic_has_the_soft_rdma_device_that_the_first_up_makes(tmp_path: Path) -> None:
    """The simulator's nodes before anybody has configured them."""
    inventory = each_pf(bare(2, 2), lambda _n, _k, pf: replace(pf, driver=known("igb", "/sys"), rdma=known((), "/sys")))
    hosts = tuple(replace(host, address=f"127.0.12.{n}") for n, host in enumerate(inventory.hosts, 1))

    lab = loaded(drafted(replace(inventory, hosts=hosts)), tmp_path)

    assert (lab.kind, [pf.rdma_device for pf in lab.nodes[1].pfs]) == ("virtual", ["rxe0", "rxe1"])
    plan = plan_of(lab)
    assert plan is not None
    assert plan.estimate_s < 120, "emulated nodes measure what they can"


def test_rails_without_any_address_are_asked_about_and_get_theirs_from_the_answer(tmp_path: Path) -> None:
    inventory = each_pf(bare(3, 2), lambda _n, _k, pf: replace(pf, addresses=known((), "ip")))
    asked = drafted(inventory)
    answers = Answers(
        host_subnets={"rail-1": IPv4Network("10.10.1.0/24"), "rail-2": IPv4Network("10.10.2.0/29")}, cluster="leave"
    )

    lab = loaded(drafted(inventory, answers), tmp_path)

    assert (asked.text, codes(asked.questions)) == ("", ["no-address", "no-address"])
    assert asked.questions[0].answer == "host_subnets:\n  rail-1: SUBNET"
    assert [[str(pf.address) for pf in node.pfs] for node in lab.nodes] == [
        ["10.10.1.11/24", "10.10.2.1/29"],
        ["10.10.1.12/24", "10.10.2.2/29"],
        ["10.10.1.13/24", "10.10.2.3/29"],
    ]
    assert {node.state for node in lab.nodes} == {"active"}


@pytest.mark.parametrize(("addressed", "subnet"), [(True, "10.10.1.0/24"), (False, "10.10.1.0/30")])
def test_a_subnet_for_a_rail_with_addresses_or_one_that_is_too_small_is_refused(addressed: bool, subnet: str) -> None:
    inventory = bare(3, 2)
    if not addressed:
        inventory = each_pf(inventory, lambda _n, _k, pf: replace(pf, addresses=known((), "ip")))

    with pytest.raises(LabError, match=r"host_subnets\.rail-1"):
        drafted(inventory, Answers(host_subnets={"rail-1": IPv4Network(subnet)}))


def test_a_host_that_was_not_read_is_left_out_and_reported() -> None:
    silent = Host(name="gpu02", address="198.18.0.2", unread="refuses the login of ops")
    inventory = changed(bare(3, 2), "gpu02", lambda _: silent)

    draft = drafted(inventory)

    assert set(states(draft)) == {"gpu01", "gpu03"}
    assert draft.unread == (f"gpu02: {silent.unread}",)
    assert "## Not read" in as_markdown("pod1", draft.questions, draft.notices, draft.unread)


def test_an_answer_for_a_host_that_was_not_read_waits_for_the_next_look() -> None:
    silent = Host(name="gpu02", address="198.18.0.2", unread="refuses the login of ops")
    answers = Answers(ports={"gpu[01-03]": {"ens1np0": "none"}}, cluster="leave")

    draft = drafted(changed(fabricate(3, 2, switches=False), "gpu02", lambda _: silent), answers)

    assert {rail.name for rail in draft.rails} == {"rail-1"}
    with pytest.raises(LabError, check=stating("gpu04", "questions.md")):
        drafted(fabricate(3, 2), Answers(ports={"gpu04": {"ens1np0": "none"}}))


def test_a_host_whose_management_interface_is_unknown_is_left_out_and_asked_about() -> None:
    nothing = unknown("no SSH_CONNECTION")
    inventory = changed(
        bare(3, 2),
        "gpu02",
        lambda host: replace(host, carriers=replace(host.carriers, ssh=nothing, default_route=nothing)),
    )

    draft = drafted(inventory)

    assert set(states(draft)) == {"gpu01", "gpu03"}
    assert [(question.code, question.nodes) for question in draft.questions] == [("no-node", ("gpu02",))]


@pytest.mark.parametrize(
    "values",
    [
        {"addresses": known(("10.11.0.2/16", "nonsense"), "ip")},
        {"interfaces": known(("a name that is no name",), "sysfs")},
        {"rdma": known((RdmaPort(device="Mlx 5!"),), "sysfs")},
    ],
)
def test_a_host_that_lies_costs_its_own_values_only(values: dict[str, Any], tmp_path: Path) -> None:
    draft = drafted(one_pf(bare(3, 2), "gpu02", 1, **values))

    assert loaded(draft, tmp_path) == draft.lab
    assert {"gpu01", "gpu03"} <= set(states(draft))


@pytest.mark.parametrize("change", ["silent", "no vlan", "no port"])
def test_switches_are_left_out_as_a_whole_when_one_cable_or_vlan_is_unknown(change: str) -> None:
    inventory = fabricate(3, 2)

    def spoilt(switch: Switch) -> Switch:
        if change == "silent":
            return replace(switch, unread="no answer")
        ports = tuple(replace(port, native_vlan=UNREAD) for port in switch.ports.or_else(()))
        return replace(switch, ports=known(ports[1:] if change == "no port" else ports, "show"))

    draft = drafted(replace(inventory, switches=(inventory.switches[0], spoilt(inventory.switches[1]))))

    assert draft.lab is not None
    assert draft.lab.switches == ()
    assert codes(draft.notices) == ["no-switches"]
    assert "leaf2" in draft.notices[0].text


def test_what_the_loader_refuses_is_left_out_with_the_loaders_words() -> None:
    inventory = fabricate(3, 2)
    leaves = tuple(replace(switch, address="198.18.0.1") for switch in inventory.switches)

    draft = drafted(replace(inventory, switches=leaves))

    assert draft.lab is not None
    assert draft.lab.switches == ()
    assert codes(draft.questions) == ["refused"]
    assert any("198.18.0.1" in line for line in draft.questions[0].evidence)


def test_the_ssh_port_of_switches_is_drafted(tmp_path: Path) -> None:
    inventory = fabricate(3, 3)
    leaves = tuple(replace(switch, ssh_port=2222) for switch in inventory.switches)

    draft = drafted(replace(inventory, switches=leaves))

    assert {switch.ssh_port for switch in loaded(draft, tmp_path).switches} == {2222}


# routed fabrics


def links(order: str) -> Inventory:
    def link(n: int, k: int, pf: Pf) -> Pf:
        number = 3 * (n - 1) + k - 1 if order == "rail" else n - 1
        network = "10.200.0" if order == "rail" else f"172.16.{k}"
        host = 2 * number + (1 if order == "rail" else 0)
        return replace(pf, addresses=address(f"{network}.{host}/31"))

    return each_pf(bare(8, 3), link)


@pytest.mark.parametrize("order", ["node", "rail"])
def test_links_are_drafted_with_their_routers(order: str, tmp_path: Path) -> None:
    draft = drafted(links(order))

    assert loaded(draft, tmp_path) == draft.lab
    pf = pf_of(draft, "gpu02", "rail-3")
    if order == "node":
        assert (str(pf.address), pf.gateway) == ("172.16.3.2/31", IPv4Address("172.16.3.3"))
    else:
        assert (str(pf.address), pf.gateway) == ("10.200.0.11/31", IPv4Address("10.200.0.10"))


def segmented(routes: bool = True) -> Inventory:
    def segment(n: int, k: int, pf: Pf) -> Pf:
        block = (n - 1) // 3
        return replace(
            pf, lldp=leaf(f"leaf{k}{'ab'[block]}"), addresses=address(f"10.10.{k}.{64 * block + 11 + (n - 1) % 3}/26")
        )

    def routed(n: int, host: Host) -> Host:
        block = (n - 1) // 3
        ways = tuple(
            Route(destination=f"10.10.{k}.0/25", gateway=f"10.10.{k}.{64 * block + 1}", interface=f"ens{k}np0")
            for k in (1, 2, 3)
        )
        return replace(host, network=replace(host.network, routes=known(ways, "ip -j route")))

    inventory = each_pf(bare(6, 3), segment)
    if not routes:
        return inventory
    return replace(inventory, hosts=tuple(routed(n, host) for n, host in enumerate(inventory.hosts, 1)))


def test_a_subnet_per_leaf_is_spelled_out_with_its_routers(tmp_path: Path) -> None:
    draft = drafted(segmented())

    assert loaded(draft, tmp_path) == draft.lab
    ports = [pf_of(draft, node, "rail-2") for node in ("gpu03", "gpu04")]
    assert [(str(pf.address), str(pf.gateway)) for pf in ports] == [
        ("10.10.2.13/26", "10.10.2.1"),
        ("10.10.2.75/26", "10.10.2.65"),
    ]


def test_a_subnet_per_leaf_without_known_routers_is_a_question() -> None:
    draft = drafted(segmented(routes=False))

    assert (draft.text, codes(draft.questions)) == ("", ["no-gateway"] * 3)


# groups


def test_nodes_fold_around_gaps_and_those_that_differ(tmp_path: Path) -> None:
    inventory = bare(40, 4)
    inventory = one_pf(inventory, "gpu17", 3, interfaces=known(("enp91s0np0",), "sysfs"))
    inventory = one_pf(inventory, "gpu23", 1, addresses=address("10.11.7.7/16"))
    inventory = changed(inventory, "gpu31", lambda host: replace(host, address="198.18.9.9"))
    inventory = replace(inventory, hosts=tuple(host for host in inventory.hosts if host.name != "gpu05"))

    draft = drafted(inventory)

    assert loaded(draft, tmp_path) == draft.lab
    assert [node.get("names") or node["name"] for node in written(draft)["nodes"]] == [
        "gpu[01-04]",
        "gpu[06-16]",
        "gpu17",
        "gpu[18-22]",
        "gpu23",
        "gpu[24-30]",
        "gpu31",
        "gpu[32-40]",
    ]
    assert len(written(draft)["node_classes"]) == 1


def test_two_server_models_are_a_class_each(tmp_path: Path) -> None:
    inventory = bare(6, 2)
    for node in ("gpu04", "gpu05", "gpu06"):
        inventory = moved(inventory, node, bus=80, product="DGX H100")

    draft = drafted(inventory)

    assert loaded(draft, tmp_path) == draft.lab
    assert set(written(draft)["node_classes"]) == {"poweredge-xe9680", "dgx-h100"}
    assert pf_of(draft, "gpu05", "rail-2").pci == "0000:52:00.0"


def test_addresses_in_no_order_are_spelled_out(tmp_path: Path) -> None:
    order = [7, 3, 9, 1, 8]
    inventory = bare(5, 3)
    inventory = replace(
        inventory,
        hosts=tuple(
            replace(host, address=f"198.18.0.{last}") for host, last in zip(inventory.hosts, order, strict=True)
        ),
    )

    draft = drafted(inventory)

    assert loaded(draft, tmp_path) == draft.lab
    assert [node["name"] for node in written(draft)["nodes"]] == [f"gpu0{n}" for n in range(1, 6)]


# the cluster


def test_a_cluster_is_a_question_until_you_say_what_to_do_with_it() -> None:
    draft = drafted(fabricate(3, 2), Answers())

    assert draft.lab is not None
    assert draft.lab.cluster is None
    assert codes(draft.questions) == ["cluster"]


def with_networks(vlan: bool = True) -> Inventory:
    inventory = fabricate(3, 2)
    assert inventory.cluster is not None
    networks = tuple(
        Attachment(
            namespace="jobs",
            name=f"rdma{k}",
            resource_name=f"nvidia.com/rdma_{k}",
            config={
                "cniVersion": "1.0.0",
                "name": f"rdma{k}",
                "plugins": [
                    {"type": "sriov", "vlan": 110 + k, "ipam": {"type": "nv-ipam", "poolName": f"pool{k}"}},
                    {"type": "tuning"},
                ],
            },
        )
        for k in (1, 2)
    )
    pools = tuple(
        CustomObject(
            namespace="kube-system",
            name=f"pool{k}",
            spec={
                "subnet": f"10.20.{k}.0/24",
                "perNodeBlockSize": 8,
                "exclusions": [
                    {"startIP": f"10.20.{k}.1", "endIP": f"10.20.{k}.8"},
                    {"startIP": f"10.20.{k}.249", "endIP": f"10.20.{k}.254"},
                ],
            },
        )
        for k in (1, 2)
    )
    leaves = tuple(
        replace(
            switch,
            ports=switch.ports.map(
                lambda ports, k=k: tuple(replace(p, vlans=known((10 + k, 110 + k), "c")) for p in ports)
            ),
        )
        for k, switch in enumerate(inventory.switches, 1)
    )
    cluster = replace(inventory.cluster, attachments=known(networks, "GET"), ip_pools=known(pools, "GET"))
    return replace(inventory, cluster=cluster, switches=leaves if vlan else inventory.switches)


def test_an_adopted_cluster_has_the_networks_that_the_switches_carry_on_each_rail(tmp_path: Path) -> None:
    lab = loaded(drafted(with_networks(), ADOPT), tmp_path)

    rail = lab.rails[1]
    assert rail.pod is not None
    assert (rail.resource, rail.network_name, rail.pod.vlan_id) == ("nvidia.com/rdma_2", "rdma2", 112)
    assert (str(rail.pod.subnet), rail.pod.addresses_per_node) == ("10.20.2.0/24", 8)
    assert (str(rail.pod.first_address), str(rail.pod.last_address)) == ("10.20.2.9", "10.20.2.248")
    assert lab.cluster is not None
    assert (str(lab.cluster.pod_subnet), str(lab.cluster.service_subnet)) == ("10.128.0.0/22", "172.20.0.0/16")
    assert (lab.cluster.namespaces, lab.cluster.delivery.profile) == (("jobs",), "sriov_plain")


def test_networks_that_nothing_ties_to_a_rail_are_asked_about_and_answered(tmp_path: Path) -> None:
    inventory = with_networks(vlan=False)
    asked = drafted(inventory, ADOPT)
    answers = Answers(cluster="adopt", networks={"rail-1": "jobs/rdma2", "rail-2": "jobs/rdma1"})

    lab = loaded(drafted(inventory, answers), tmp_path)

    assert "network" in codes(asked.questions)
    assert [rail.network_name for rail in lab.rails] == ["rdma2", "rdma1"]


def test_a_cluster_whose_subnets_cannot_be_read_is_asked_about_and_answered(tmp_path: Path) -> None:
    inventory = with_networks()
    assert inventory.cluster is not None
    nodes = inventory.cluster.nodes.map(lambda found: tuple(replace(node, pod_cidrs=()) for node in found))
    inventory = replace(inventory, cluster=replace(inventory.cluster, nodes=nodes))
    asked = drafted(inventory, ADOPT)
    file = tmp_path / "answers.yaml"
    file.write_text(asked.questions[0].answer.replace("SUBNET", "10.244.0.0/16"))

    lab = loaded(drafted(inventory, read_answers(file)), tmp_path)

    assert codes(asked.questions) == ["cluster"]
    assert lab.cluster is not None
    assert str(lab.cluster.pod_subnet) == "10.244.0.0/16"


def test_hosts_that_another_stack_configures_are_named() -> None:
    owner = known("lab old of stack old", "/var/lib/rocelab/owner")
    inventory = changed(
        bare(3, 2), "gpu02", lambda host: replace(host, system=replace(host.system, rocelab_owner=owner))
    )

    found = [(notice.code, notice.nodes) for notice in drafted(inventory).notices]

    assert found == [("owned", ("gpu02",))]


def test_an_answer_for_no_network_is_refused() -> None:
    with pytest.raises(LabError, check=stating("networks.rail-1", "jobs/nothing")):
        drafted(with_networks(), Answers(cluster="adopt", networks={"rail-1": "jobs/nothing"}))


def test_an_adopted_operator_owns_the_vfs(tmp_path: Path) -> None:
    inventory = with_networks()
    assert inventory.cluster is not None
    state = CustomObject(namespace="nvidia-network-operator", name="gpu01")
    policies = tuple(
        CustomObject(
            namespace="nvidia-network-operator",
            name=f"p{k}",
            spec={"resourceName": f"rdma_{k}", "nicSelector": {"pfNames": [f"ens{k}np0"]}},
        )
        for k in (1, 2)
    )
    cluster = replace(
        inventory.cluster, sriov_node_states=known((state,), "GET"), sriov_policies=known(policies, "GET")
    )

    lab = loaded(drafted(replace(inventory, cluster=cluster), ADOPT), tmp_path)

    assert lab.cluster is not None
    delivery = lab.cluster.delivery
    assert delivery.model_dump(include={"profile", "vfs", "resource_prefix"}) == {
        "profile": "sriov_operator",
        "vfs": 4,
        "resource_prefix": "nvidia.com",
    }
    assert {pf.vfs for node in lab.nodes for pf in node.pfs} == {0}


def with_operator(*nodes: str, **spec: Any) -> Inventory:
    """The networks, with VFs on the first NIC of these nodes made by the SR-IOV operator."""
    inventory = with_networks()
    assert inventory.cluster is not None
    interface = {"pciAddress": pci_of(1), "numVfs": 4, **spec}
    states = tuple(CustomObject(namespace="operator", name=name, spec={"interfaces": [interface]}) for name in nodes)
    policy = CustomObject(namespace="operator", name="rails", spec={"numVfs": 4})
    cluster = replace(inventory.cluster, sriov_node_states=known(states, "GET"), sriov_policies=known((policy,), "GET"))
    return replace(inventory, cluster=cluster)


def test_nodes_on_which_an_operator_makes_vfs_too_are_drained_and_asked_about() -> None:
    draft = drafted(with_operator("gpu01", "gpu03"))

    assert states(draft) == {"gpu01": "drained", "gpu02": "active", "gpu03": "drained"}
    [question] = draft.questions
    assert (question.code, question.nodes) == ("vf-owners", ("gpu01", "gpu03"))
    assert question.evidence[:2] == ("gpu[01,03]: ens1np0 has 4 VFs", "policies: rails")
    assert question.answer.startswith("cluster: adopt")


@pytest.mark.parametrize(
    "inventory", [with_operator(), with_operator("gpu01", numVfs=0), with_operator("gpu01", externallyManaged=True)]
)
def test_an_operator_that_makes_no_vfs_is_no_question(inventory: Inventory) -> None:
    draft = drafted(inventory)

    assert (draft.questions, set(states(draft).values())) == ((), {"active"})


def test_a_driver_from_a_container_and_an_unknown_operator_are_noticed() -> None:
    inventory = with_operator()
    assert inventory.cluster is not None
    policy = CustomObject(namespace="", name="nic-cluster-policy", spec={"ofedDriver": {"version": "25.04"}})
    cluster = replace(
        inventory.cluster, nic_cluster_policies=known((policy,), "GET"), sriov_node_states=unknown("403 Forbidden")
    )

    draft = drafted(replace(inventory, cluster=cluster))

    assert codes(draft.notices) == ["driver-owner", "vf-owners"]


def test_nodes_are_called_as_the_cluster_calls_them() -> None:
    inventory = fabricate(2, 2)
    assert inventory.cluster is not None
    nodes = tuple(KubeNode(name=f"worker-{n}", internal_ips=(f"198.18.0.{n}",)) for n in (1, 2))

    draft = drafted(replace(inventory, cluster=replace(inventory.cluster, nodes=known(nodes, "GET"))))

    assert set(states(draft)) == {"worker-1", "worker-2"}
    assert draft.known_hosts.splitlines()[0] == "198.18.0.1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFabricated"


# answers and questions


def test_answers_are_read_with_sets_of_nodes(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text('ports:\n  "gpu[01-02]": {ens1np0: rail-7, "0000:0c:00.0": none}\ncluster: leave\n')

    answers = read_answers(file)

    assert answers.by_port() == {
        ("gpu01", "ens1np0"): "rail-7",
        ("gpu01", "0000:0c:00.0"): "none",
        ("gpu02", "ens1np0"): "rail-7",
        ("gpu02", "0000:0c:00.0"): "none",
    }


@pytest.mark.parametrize("text", ["ports: [", "port: {}", "ports: {gpu01: {ens1np0: Rail 1}}", "cluster: maybe"])
def test_invalid_answers_are_refused_with_their_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text(text)

    with pytest.raises(LabError, match=r"answers\.yaml"):
        read_answers(file)


def test_an_answer_without_prefix_length_says_what_to_write(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text("host_subnets: {rail-1: 10.10.11.0}\n")

    with pytest.raises(LabError, check=stating("host_subnets.rail-1", "no prefix length", "10.10.11.0/24")):
        read_answers(file)


def test_the_lines_that_a_question_shows_answer_it(tmp_path: Path) -> None:
    inventory = each_pf(bare(4, 3), lambda _, k, pf: replace(pf, pci=pci_of(2)[:-1] + "1") if k == 3 else pf)
    asked = drafted(inventory)
    file = tmp_path / "answers.yaml"
    file.write_text(asked.questions[0].answer.replace("rail-N", "rail-2", 1).replace("rail-N", "none"))

    answered = drafted(inventory, read_answers(file))

    assert asked.questions[0].answer in as_markdown("pod1", asked.questions, asked.notices)
    assert answered.questions == ()
    assert answered.lab is not None
    assert [rail.name for rail in answered.lab.rails] == ["rail-1", "rail-2"]


# size

SIZED = """
import resource, sys, time
from components.discovery.draft import draft_of
from components.discovery.questions import Answers
from components.inventory.document import load
from pathlib import Path
begun = time.process_time()
draft = draft_of(load(Path(sys.argv[1])), "pod1", "known_hosts", Answers(cluster="leave"))
print(time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(draft.text.splitlines()))
"""


@pytest.mark.whole
def test_512_hosts_are_drafted_in_seconds(tmp_path: Path) -> None:
    file = tmp_path / "inventory.json"
    file.write_bytes(dump(fabricate(512, 8)))

    done = subprocess.run(
        [sys.executable, "-c", SIZED, str(file)], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )

    cpu_s, kib, lines = done.stdout.split()
    assert float(cpu_s) < 15, "5 s on two quiet cores"
    assert int(kib) < 500 * 1024
    assert int(lines) <= 512 * 8 + 100, "a line for each cable"
