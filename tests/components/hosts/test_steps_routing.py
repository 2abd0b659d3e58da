"""Routed rails: a table and a rule per PF, kept apart from what others put there."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.hosts.document import host_document
from components.hosts.program.host import Host
from components.hosts.program.steps.routing import PROTOCOL, Routing
from components.hosts.records import target_fields
from stacks.lab import Lab
from tests.components.hosts.host_runs import differing, made, run
from tests.components.hosts.router import Router, routed
from tests.messages import states, stating

RECORDED = Path(__file__).with_name("recorded")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Router:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return Router(tmp_path)


def document_of(lab: Lab) -> dict[str, Any]:
    return host_document(lab, lab.nodes[0])


def test_each_routed_pf_gets_a_table_and_a_rule_of_its_own(machine: Router, lab: Lab) -> None:
    made(machine, document_of(routed(lab, "10.10.11.1", "10.10.12.1")))

    ours = [route for route in machine.routes if route.get("protocol") == PROTOCOL]
    assert [(route["dst"], route["dev"], route["table"]) for route in ours] == [
        ("10.10.11.0/24", "enp5s0", "100"),
        ("default", "enp5s0", "100"),
        ("10.10.12.0/24", "enp132s0", "101"),
        ("default", "enp132s0", "101"),
    ]
    assert [(rule["src"], rule["table"]) for rule in machine.rules[1:]] == [
        ("10.10.11.11", "100"),
        ("10.10.12.11", "101"),
    ]


def test_a_rail_without_router_has_no_rules_read(machine: Router, lab: Lab) -> None:
    made(machine, document_of(lab))

    assert not [line for line in machine.commands if "rule" in line or line.startswith("ip -N -4 -j route")]
    assert "routing" not in json.dumps(document_of(lab))


def test_a_table_to_which_the_host_gives_a_name_is_known_by_its_number(machine: Router, lab: Lab) -> None:
    """As iproute2 6.1 prints it after `echo "100 rail0" >> /etc/iproute2/rt_tables`."""
    machine.table_names = {"100": "rail0"}

    made(machine, document_of(routed(lab, "10.10.11.1", "10.10.12.1")))


@pytest.mark.parametrize(
    "drift",
    [
        lambda m: m.rules.pop(),
        lambda m: m.routes.pop(),
        lambda m: m.routes[-1].update(gateway="10.10.12.9"),
        lambda m: m.routes.append({"dst": "10.9.0.0/16", "dev": "enp132s0", "table": "101", "protocol": PROTOCOL}),
        lambda m: [m.routes.pop(), m.routes.pop()],  # the link was down for a moment
    ],
)
def test_what_has_changed_is_seen_and_put_back(machine: Router, lab: Lab, drift) -> None:
    document = document_of(routed(lab, "10.10.11.1", "10.10.12.1"))
    made(machine, document)
    drift(machine)

    assert set(differing(machine, document)) == {"enp132s0.routing"}

    made(machine, document)
    assert run("apply", machine, document)["changed"] == []


def test_undo_takes_ours_and_leaves_everybody_elses(machine: Router, lab: Lab) -> None:
    machine.routes.append(
        {"dst": "default", "gateway": "10.0.0.1", "dev": "eth9", "table": "200", "protocol": "static"}
    )
    before = json.dumps([machine.routes, machine.rules])
    document = document_of(routed(lab, "10.10.11.1"))
    made(machine, document)

    assert run("undo", machine, document)["failed"] is None

    assert json.dumps([machine.routes, machine.rules]) == before


def test_a_rail_that_is_no_longer_routed_loses_its_table(machine: Router, lab: Lab) -> None:
    before = json.dumps([machine.routes, machine.rules])
    made(machine, document_of(routed(lab, "10.10.11.1", "10.10.12.1")))

    made(machine, document_of(routed(lab, "10.10.11.1", None)))
    assert {route["table"] for route in machine.routes if "table" in route} == {"100"}
    made(machine, document_of(lab))

    assert json.dumps([machine.routes, machine.rules]) == before


def test_a_table_with_foreign_routes_is_refused(machine: Router, lab: Lab) -> None:
    machine.routes.append({"dst": "10.0.0.0/8", "dev": "eth9", "table": "100", "protocol": "static"})

    failed = run("apply", machine, document_of(routed(lab, "10.10.11.1")))["failed"]

    assert failed["step"] == "routing"
    assert states(failed["reason"], "table 100", "10.0.0.0/8 dev eth9")


def test_a_changed_router_shows_as_a_link_field(lab: Lab) -> None:
    target = target_fields(document_of(routed(lab, "10.10.11.1")))

    assert target["enp5s0.routing"] == (
        "10.10.11.0/24 dev enp5s0 table 100; default via 10.10.11.1 dev enp5s0 table 100; from 10.10.11.11 lookup 100"
    )
    assert target["enp132s0.routing"] == "none", "the other rail is looked at too: it may have been routed before"


@pytest.mark.parametrize(
    ("gateway", "said"),
    [
        ("10.10.12.1", ["host_subnet 10.10.11.0/24"]),
        ("10.10.11.255", ["host_subnet 10.10.11.0/24"]),
        ("10.10.11.11", ["host_gateway", "rail-a"]),
    ],
)
def test_a_router_that_cannot_be_one_is_refused(lab: Lab, gateway: str, said: list[str]) -> None:
    with pytest.raises(ValidationError, check=stating(gateway, *said)):
        routed(lab, gateway)


def linked(lab: Lab) -> Lab:
    """The reference lab with a router behind each cable, as two rails of the template for Slurm have it."""
    given = lab.model_dump(mode="json")
    for k, rail in enumerate(given["rails"]):
        rail["host_subnet"] = f"172.16.{k}.0/24"
        for number, node in enumerate(given["nodes"]):
            low = 2 * number
            node["pfs"][k].update(address=f"172.16.{k}.{low}/31", gateway=f"172.16.{k}.{low + 1}")
    return Lab.model_validate(given)


def test_a_pf_behind_a_router_of_its_own_reaches_the_whole_range_through_it(machine: Router, lab: Lab) -> None:
    before = json.dumps([machine.routes, machine.rules])
    document = document_of(linked(lab))
    made(machine, document)

    ours = [route for route in machine.routes if route.get("protocol") == PROTOCOL]
    assert [(route["dst"], route.get("gateway"), route.get("table", "main")) for route in ours[:3]] == [
        ("172.16.0.0/24", "172.16.0.1", "main"),
        ("172.16.0.0/31", None, "100"),
        ("default", "172.16.0.1", "100"),
    ], "what does not bind its source has the main table alone"
    assert [route["metric"] for route in ours if "metric" in route] == [100, 101], "two rails may have one range"

    machine.routes = [route for route in machine.routes if "metric" not in route]
    assert set(differing(machine, document)) == {"enp5s0.routing", "enp132s0.routing"}
    made(machine, document)
    assert run("undo", machine, document)["failed"] is None
    assert json.dumps([machine.routes, machine.rules]) == before


def test_what_ip_prints_of_links_is_understood(machine: Router, lab: Lab) -> None:
    document = document_of(linked(lab))
    for pf, name in zip(document["pfs"], ("ens1f0np0", "ens2f0np0"), strict=True):
        pf["interface"] = name
    machine.routes = json.loads((RECORDED / "ip-route-links.json").read_text())
    machine.rules = json.loads((RECORDED / "ip-rule-links.json").read_text())

    assert Routing().observed(Host(machine, document, b"")) == Routing().target(document)


def test_what_ip_prints_is_understood(machine: Router, lab: Lab) -> None:
    lab = routed(lab, "10.10.11.1", "10.10.12.1")
    document = host_document(lab, lab.nodes[1])
    machine.routes = json.loads((RECORDED / "ip-route.json").read_text())
    machine.rules = json.loads((RECORDED / "ip-rule.json").read_text())

    assert Routing().observed(Host(machine, document, b"")) == Routing().target(document)
