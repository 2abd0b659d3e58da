"""The port matrix: what it says of labs, how small it stays, and that a check sees a way that is blocked."""

import ast
import asyncio
import json
import shlex
import socket
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.cli.app import main
from components.ports import connect
from components.ports.check import COMMAND, UNASKED, Answer, faults, table, tried
from components.ports.matrix import PVRDMA_PORTS, PortRow, as_json, as_markdown, output_lines, port_matrix
from components.ports.targets import Probe, Unproven, probes, server_of, thinned
from components.ssh.credentials import Login
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.fabric.ova import KEYS
from tests.conftest import ROOT
from tests.labs import lab_of, made_here, section_of
from tests.messages import states

PVRDMA = section_of("Pulumi.lab-pvrdma.yaml")


def ways(lab: Lab) -> set[tuple[str, str, str, str]]:
    return {(row.source, row.target, row.protocol, row.ports) for row in port_matrix(lab)}


@pytest.mark.row("B 152-160")
def test_the_guide_s_four_ports_are_in_the_matrix_of_its_lab():
    """The RDG, lines 152-160: Kubernetes, Calico's 179, the licence server's 7070, and the first of PVRDMA's."""
    licence = {"kind": "legacy", "server": "172.16.7.9"}
    lab = lab_of(PVRDMA, licence=licence, ports={"pod_network": "calico_bgp"})

    assert {
        ("node", "api", "tcp", "6443"),
        ("node", "node", "tcp", "179"),
        ("worker", "licence", "tcp", "7070"),
        ("esxi", "esxi", "tcp", "28250-28761"),
        ("worker", "worker", "udp", "4791"),
        ("admin", "vcenter", "tcp", "8989"),
        ("admin", "node", "tcp", "2222"),
    } <= ways(lab)
    assert PVRDMA_PORTS[1] - PVRDMA_PORTS[0] == 511


def test_a_cluster_that_is_made_here_has_etcd_among_three_control_planes_only():
    three, one = lab_of(made_here(planes=3)), lab_of(made_here(planes=1))

    assert ("control_plane", "control_plane", "tcp", "2379-2380") in ways(three)
    assert ("control_plane", "control_plane", "tcp", "2379-2380") not in ways(one)
    assert {("node", "node", "udp", "8472"), ("control_plane", "node", "tcp", "10250")} <= ways(one)


def test_nccl_over_pvrdma_runs_in_the_machine_s_network_and_says_so():
    benchmarks = {**PVRDMA["benchmarks"], "nccl": {"image": "registry/nccl:1"}}

    found = ways(lab_of(PVRDMA, benchmarks=benchmarks))

    assert {("worker", "worker", "tcp", "2222"), ("worker", "worker", "tcp", "32768-60999")} <= found


def test_training_alone_runs_in_the_machine_s_network_as_nccl_does():
    benchmarks = {key: value for key, value in PVRDMA["benchmarks"].items() if key not in ("nccl", "comparison")}
    asked = {
        "benchmarks": {**benchmarks, "application": {}},
        "images": {"training": {"image": "registry/tf:1", "verbs": "distribution"}},
    }
    lab = lab_of(PVRDMA, **asked)

    assert lab.benchmarks
    assert lab.benchmarks.nccl is None
    assert {("worker", "worker", "tcp", "2222"), ("worker", "worker", "tcp", "32768-60999")} <= ways(lab)


def with_bitfusion_servers(tmp_path: Path) -> Lab:
    def server(number: int, host: str) -> dict[str, Any]:
        adapter = {"rail": "pvrdma", "address": f"192.168.0.{230 + number}/24"}
        place = {"host": host, "datastore": "LocalDS_0", "address": f"172.16.7.{20 + number}/24", "adapters": [adapter]}
        return {"name": f"bf{number}", "cpus": 4, "memory_mbytes": 16384, **place}

    bitfusion = {
        "ova": str(tmp_path / "none.ova"),
        "management_network": "VM Network",
        "keys": dict(KEYS),
        "servers": [server(1, "DC0_C0_H0"), server(2, "DC0_C0_H0"), server(3, "DC0_C0_H1")],
    }
    return lab_of(PVRDMA, bitfusion=bitfusion)


def test_bitfusion_servers_and_the_vcenter_reach_each_other(tmp_path):
    lab = with_bitfusion_servers(tmp_path)

    assert {("bitfusion", "vcenter", "tcp", "8989"), ("vcenter", "bitfusion", "tcp", "56001")} <= ways(lab)
    _, left = probes(lab)
    assert [states(one.why, "bitfusion") for one in left if one.row.source == "bitfusion"] == [True]


def test_who_deploys_an_ova_reaches_the_hosts_that_its_disks_go_to(tmp_path):
    lab = with_bitfusion_servers(tmp_path)
    way = ("admin", "esxi", "tcp", "443")

    assert way in ways(lab)
    assert way not in ways(lab_of(PVRDMA)), "a clone's disks stay with vCenter and hosts"
    some, _ = probes(lab.model_copy(update={"kind": "hardware"}))
    assert [(one.source, one.address, one.port) for one in some if one.row.target == "esxi"] == [
        ("", "DC0_C0_H0", 443),
        ("", "DC0_C0_H1", 443),
    ]
    _, left = probes(lab)
    assert any("have no address" in one.why for one in left if one.row.source == "admin")


def test_bitfusion_and_further_servers_are_asked_for_by_who_needs_them():
    package = {"url": "https://mirror/b.deb", "sha256": "0" * 64}
    client = {"nodes": ["gpu02"], "package": package, "servers": ["192.168.0.60"]}
    lab = lab_of(PVRDMA, bitfusion_client=client, ports={"extra_servers": ["registry.site:5000"]})

    assert {("client", "bitfusion", "tcp", "56001"), ("node", "server", "tcp", "5000")} <= ways(lab)
    tried = [probe for probe in probes(lab)[0] if probe.row.target == "bitfusion"]
    assert [(probe.source, probe.address, probe.port) for probe in tried] == [("gpu02", "192.168.0.60", 56001)]


def test_the_output_is_as_short_for_256_nodes_as_for_two():
    lab = lab_of(made_here())
    many = lab.model_copy(update={"nodes": (*lab.nodes, *(lab.nodes[-1],) * 254)})

    assert output_lines(many) == output_lines(lab)
    assert len(json.dumps(output_lines(many))) < 2000


def test_the_document_names_every_role_that_it_uses():
    text = as_markdown(lab_of(PVRDMA))

    assert "| esxi | esxi | tcp | 28250-28761 | rail |" in text
    assert "- **esxi**: ESXi hosts of the fabric" in text
    assert "- **switch**" not in text
    assert len(json.loads(as_json(lab_of(PVRDMA)))["rows"]) == len(port_matrix(lab_of(PVRDMA)))


def test_an_unknown_pod_network_is_refused():
    with pytest.raises(LabError, match=r"ports\.pod_network"):
        lab_of(PVRDMA, ports={"pod_network": "weave"})


# -- what is tried


def tries(lab: Lab) -> set[tuple[str, str, int]]:
    return {(probe.source, probe.target, probe.port) for probe in probes(lab)[0]}


def many_workers(count: int) -> Lab:
    """The lab of three control planes, with that many workers of its first worker's kind."""
    lab = lab_of(made_here(planes=3), ports={"extra_servers": ["registry.site:5000"]})
    worker = lab.nodes[-1]
    named = (worker.model_copy(update={"name": f"w{number:03}"}) for number in range(count))
    return lab.model_copy(update={"nodes": (*lab.nodes[:3], *named)})


def test_each_way_is_tried_from_every_machine_of_its_role_to_all_others():
    _, left = probes(lab_of(made_here(planes=3)))

    found = tries(lab_of(made_here(planes=3)))
    planes = ["cp01", "cp02", "cp03"]
    assert {("", "cp01", 22), ("", "gpu02", 22)} <= found
    assert {(one, other, 2379) for one in planes for other in planes if one != other} <= found
    assert {(node, plane, 6443) for node in ("gpu01", "gpu02") for plane in planes} <= found
    assert {(plane, node, 10250) for plane in planes for node in ("gpu01", "gpu02")} <= found
    assert {("gpu01", "gpu02 enp5s0", 18515), ("gpu02", "gpu01 enp5s0", 18515)} <= found
    assert {one.row.protocol for one in left} == {"udp"}, "an unanswered datagram proves nothing"


@pytest.mark.parametrize(("kind", "port"), [("legacy", 7070), ("nls", 443)])
def test_every_worker_tries_the_licence_service(kind, port):
    """The RDG's 7070: a firewall that lets the first worker through alone is no open port."""
    lab = lab_of(PVRDMA, licence={"kind": kind, "server": "172.16.7.9"}).model_copy(update={"kind": "hardware"})

    assert {(node.name, "the license service", port) for node in lab.nodes if node.role == "worker"} <= tries(lab)


@pytest.mark.row("B 152-160")
def test_every_node_is_both_ends_of_calico_s_179():
    lab = lab_of(PVRDMA, ports={"pod_network": "calico_bgp"}).model_copy(update={"kind": "hardware"})
    names = [node.name for node in lab.nodes]

    assert {(one, other, 179) for one in names for other in names if one != other} <= tries(lab)
    assert len(names) > 1


def test_of_many_nodes_each_is_both_ends_and_each_server_is_tried_from_all():
    lab = many_workers(200)
    workers = {node.name for node in lab.nodes if node.role == "worker"}
    found = tries(lab)

    between = [(one, other.split()[0]) for one, other, port in found if port == 18515]
    assert {one for one, _ in between} == {other for _, other in between} == workers
    assert len(set(between)) == 200 * 8, "1, 2, 4 ... 128 places further on"
    assert all(one != other for one, other in between)
    assert {one for one, _, port in found if port == 5000} == {node.name for node in lab.nodes}
    assert len(found) < 40 * 203, "some dozens of each, not some hundreds"
    (line,) = thinned(lab)
    assert states(line, "worker -> worker", "tcp 18515-18516", 200, 8, 199)
    assert thinned(many_workers(16)) == []
    assert len([1 for _, _, port in tries(many_workers(16)) if port == 18515]) == 16 * 15 * 2, "two rails"


def test_a_connection_from_a_foreign_host_is_named_and_not_claimed():
    some, left = probes(lab_of(PVRDMA))

    assert {(one.row.source, one.row.target) for one in left} >= {("esxi", "esxi"), ("vcenter", "esxi")}
    assert all(
        "nc -z" in one.why for one in left if one.row.source in ("esxi", "vcenter") and one.row.protocol == "tcp"
    )
    assert ("", "the vCenter", 8989) in {(probe.source, probe.target, probe.port) for probe in some}


def kubeconfig(server: str, **cluster: str) -> str:
    clusters = [{"name": "other", "cluster": {"server": "https://other:1"}}]
    clusters.append({"name": "lab", "cluster": {"server": server, **cluster}})
    contexts = [{"name": "of-lab", "context": {"cluster": "lab", "user": "admin"}}]
    return yaml.safe_dump({"current-context": "of-lab", "contexts": contexts, "clusters": clusters})


@pytest.fixture
def no_proxy(monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_proxy")
def test_a_proxy_of_the_environment_counts_unless_it_is_bypassed(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.site:3128")
    with pytest.raises(LabError, match="sets a proxy"):
        server_of(kubeconfig("https://api.site"))
    monkeypatch.setenv("NO_PROXY", "api.site")
    monkeypatch.setenv("no_proxy", "api.site")

    assert server_of(kubeconfig("https://api.site")) == ("api.site", 443)


@pytest.mark.usefixtures("no_proxy")
def test_the_api_server_is_where_the_kubeconfig_s_current_context_says():
    assert server_of(kubeconfig("https://10.1.2.3:6443")) == ("10.1.2.3", 6443)
    assert server_of(kubeconfig("https://api.site")) == ("api.site", 443)
    for wrong in (
        "",
        "a: [",
        "[]",
        kubeconfig(""),
        kubeconfig("https://a:port"),
        kubeconfig("https://a", **{"proxy-url": "b"}),
        kubeconfig("https://a", **{"proxy-url": "http://b:3128"}),
    ):
        with pytest.raises(LabError, match="kubeconfig"):
            server_of(wrong)


def test_the_api_of_a_cluster_that_exists_is_tried_from_here_and_from_every_node():
    lab = lab_of(PVRDMA).model_copy(update={"kind": "hardware"})

    some, left = probes(lab, ("10.1.2.3", 8443))

    ours = {(one.source, one.address, one.port) for one in some if one.row.target == "api"}
    assert ours == {(source, "10.1.2.3", 8443) for source in ("", *(node.name for node in lab.nodes))}
    assert [one.row.ports for one in left if "api" in (one.row.source, one.row.target)] == ["10250"]


def test_an_api_at_a_tunnel_s_end_is_tried_from_here_alone():
    lab = lab_of(PVRDMA).model_copy(update={"kind": "hardware"})

    for place in (("127.0.0.1", 6443), ("localhost", 6443)):
        some, left = probes(lab, place)
        assert [one.source for one in some if one.row.target == "api"] == [""]
        assert any(states(one.why, place[0], "kubectl get nodes") for one in left)


def test_a_missing_kubeconfig_is_the_reason(capsys, monkeypatch, tmp_path):
    def none_to_try(_lab: Lab, api: object) -> tuple[list[Probe], list[Unproven]]:
        return [], [Unproven(row=probe(1).row, why=str(api))]

    monkeypatch.setattr("components.ports.check.login_to", lambda *_: Login(private_key=None, endpoints={}))
    monkeypatch.setattr("components.ports.check.probes", none_to_try)
    monkeypatch.chdir(tmp_path)

    assert main(["ports", "--config-file", str(ROOT / "Pulumi.lab-pvrdma.yaml"), "--check"]) == 4

    out = capsys.readouterr().out
    assert states(out, "not checkable", "cluster.kubeconfig_file", ".sim/kubeconfig")


# -- the check itself, on sockets


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def probe(port: int, *, address: str = "127.0.0.1", listens: Any = "always", source: str = "") -> Probe:
    row = PortRow(source="admin", target="node", protocol="tcp", first=port, last=port, why="a test", listens=listens)
    return Probe(row=row, source=source, target="gpu01", address=address, port=port)


def test_a_missing_service_is_a_fault_and_one_on_demand_is_not(listening):
    gone = free_port()
    some = [probe(listening), probe(gone), probe(gone, listens="on demand")]

    answers = asyncio.run(tried(some, {}, []))

    assert [answer.result for answer in answers] == [connect.OPEN, connect.REFUSED, connect.REFUSED]
    [fault] = faults(answers)
    assert states(str(fault), "here -> gpu01", f"tcp {gone}", "a test", "listens", "service")
    assert f"here -> gpu01 tcp {gone}: {answers[2].summary}" in table(answers, [])
    assert answers[2].summary != connect.OPEN


def test_a_way_that_is_blocked_is_named_with_from_to_and_port(monkeypatch):
    """A listener whose queue is full drops what comes, as a firewall does."""
    monkeypatch.setattr(connect, "TRY_S", 0.3)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        answers = asyncio.run(tried([probe(port, listens="on demand")], {}, []))
        for filler in fillers:
            filler.close()

    assert answers[0].result == connect.SILENT
    [fault] = faults(answers)
    assert states(str(fault), "here -> gpu01", f"tcp {port}", "a test", connect.SILENT, "firewalls", "127.0.0.1")


def test_a_node_that_cannot_be_asked_says_nothing_of_the_way():
    answer = Answer(probe=probe(6443, source="gpu02"), result=f"{UNASKED}: gpu02 did not answer within 120 s")

    [fault] = faults([answer])
    assert states(str(fault), "gpu02 -> gpu01", "tcp 6443", "a test", answer.result)


def test_machines_that_find_the_same_are_named_in_one_line():
    blocked = [Answer(probe=probe(443, source=f"gpu{i:02}"), result=connect.SILENT) for i in range(2, 13)]
    unasked = [Answer(probe=probe(port, source="gpu20"), result=f"{UNASKED}: gpu20 is down") for port in range(5)]

    one, two = faults([Answer(probe=probe(443, source="gpu01"), result=connect.OPEN), *blocked, *unasked])

    names = "gpu02, gpu03, gpu04, gpu05, gpu06, gpu07, gpu08, gpu09 and 3 more"
    assert states(str(one), f"{names} -> gpu01", "tcp 443", "a test", connect.SILENT)
    assert states(str(two), "gpu20 -> gpu01", "tcp 0", "gpu01 tcp 1", "2 more", UNASKED)


def test_many_good_ways_are_a_line_that_counts_them():
    row = probe(443).row
    some = [Probe(row=row, source=f"w{i}", target="licence", address="127.0.0.1", port=443) for i in range(30)]
    answers = [Answer(probe=one, result=connect.OPEN) for one in some[:-1]]

    lines = table([*answers, Answer(probe=some[-1], result=connect.SILENT)], []).splitlines()

    assert lines[0] == f"w29 -> licence tcp 443: {connect.SILENT}"
    assert len(lines) == 2
    assert states(lines[1], "admin -> node", "tcp 443", "29 of 30")


def test_what_is_sent_to_nodes_runs_by_itself_and_answers_in_order(listening):
    gone = free_port()
    words = COMMAND.replace("exec python3", f"exec {shlex.quote(sys.executable)}", 1)

    async def run() -> bytes:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(words, stdin=pipe, stdout=pipe)
        out, _ = await process.communicate(json.dumps([["127.0.0.1", gone], ["127.0.0.1", listening]]).encode())
        return out

    assert json.loads(asyncio.run(run())) == [connect.REFUSED, connect.OPEN]


def test_a_silent_way_is_seen_by_a_python_whose_timeout_is_a_class_of_its_own(monkeypatch):
    """Before Python 3.11, as on Ubuntu 20.04 and 22.04, asyncio's is not the builtin one."""

    class OwnError(Exception):
        pass

    async def times_out(connecting: Coroutine[Any, Any, Any], _timeout_s: float) -> None:
        connecting.close()
        raise OwnError

    monkeypatch.setattr(asyncio, "TimeoutError", OwnError)
    monkeypatch.setattr(asyncio, "wait_for", times_out)

    assert asyncio.run(connect.results([("127.0.0.1", 1)])) == [connect.SILENT]


def test_what_is_sent_to_nodes_has_no_annotation_that_python_3_8_cannot_read():
    """It has no list[str] yet; in quotes nobody reads it there."""
    tree = ast.parse(Path(connect.__file__).read_text(), feature_version=(3, 8))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    notes = [note for one in functions for note in (one.returns, *(arg.annotation for arg in one.args.args)) if note]

    assert len(notes) > 3
    assert not [ast.unparse(note) for note in notes if isinstance(note, ast.Subscript | ast.BinOp)]


def test_the_command_prints_the_matrix_of_any_stack_file(capsys):
    assert main(["ports", "--config-file", str(ROOT / "examples/deepops/Pulumi.deepops.yaml")]) == 0
    assert "| admin | control_plane | tcp | 6443 | management | Kubernetes API |" in capsys.readouterr().out
