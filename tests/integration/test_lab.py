"""The life of the reference lab on the real engine, in the order of a life: each test begins where the last ended.

What happens to a lab whose speed nobody asks for is in tests/integration/standing.
"""

import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.hosts.changes import WORDS
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.conftest import ROOT
from tests.integration.conftest import sim
from tests.integration.stack import (
    Stack,
    announce_by_lldp,
    assert_nothing_secret_was_left,
    environment,
    nodes_named,
    on_node,
)
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

UNIT = "rocelab-rdma.service"
PF = "/sys/class/net/enp5s0"


@pytest.fixture(scope="module")
def made(stack: Stack) -> Iterator[Stack]:
    """The lab as the first test makes it and the last takes it away, also in a lane that leaves those two out."""
    if not stack.outputs():
        stack.up().succeeded()
    yield stack
    if stack.outputs():
        try:
            assert_nothing_secret_was_left(stack)
        finally:
            stack.pulumi("destroy").succeeded()


@pytest.mark.row("A 17", "A 33-37", "A 63", "A 72-82", "A 212-215", "A 239-242", "A 274-276", "B 424-432", "B 460-490")
def test_a_lab_comes_up_and_works(stack: Stack) -> None:
    stack.up().succeeded()

    validation = stack.outputs()["validation"]
    assert validation["function"] == "pass", json.dumps(validation)[:3000]
    assert validation["performance"].startswith("not rated"), "the simulator's speed says nothing about hardware"
    rows = {(row["test"], row.get("shape", "one_way"), row.get("rail")): row for row in validation["tests"]}
    for test, rail in product(("ib_write_bw", "ib_write_lat"), ("rail-a", "rail-b")):
        row = rows[test, "one_way", rail]
        assert (row["function"], row["measured"], row["failed"], row["skipped"]) == ("pass", 2, 0, 0), "both directions"
    assert rows["nccl_all_reduce", "", None]["function"] == "replayed", "a recording is no measurement"
    in_pods = rows["pod_rails", "", None]
    assert (in_pods["function"], "kwok" in in_pods["because"]) == ("not run", True), "no pod of this lab is real"
    assert rows["gpu_memory", "", None]["function"] == "not run", "no simulated node has a GPU"
    for node in ("gpu01", "gpu02"):
        assert on_node(node, f"cat {PF}/device/sriov_numvfs {PF}/mtu").split() == ["4", "9000"]
        assert on_node(node, f"systemctl is-enabled {UNIT}") == "enabled"
    ping = "ping -c1 -W5 -M do -s 8972 10.10.12.12 > /dev/null"
    assert on_node("gpu01", f"for i in 1 2 3 4; do {ping} && echo answers && break; done") == "answers"


@pytest.mark.row("A 55")
def test_the_switch_has_the_guides_line_and_the_nodes_mark_as_it_sorts(stack: Stack) -> None:
    switch = stack.outputs()["switches"]["sn2700"]
    ports = json.loads((ROOT / ".sim/switch/front.json").read_text())["ports"]

    assert (switch["applied"], switch["ports"]) == (True, 4)
    assert (ROOT / ".sim/backups" / switch["backup"]).is_file()
    assert set(ports) == {"1/1", "1/2", "1/5", "1/6"}
    assert all(port["ecn"] == {"3": [150, 1500]} for port in ports.values()), ports
    for node in ("gpu01", "gpu02"):
        tos = on_node(node, "cat /sys/kernel/config/rdma_cm/rxe0/ports/1/default_roce_tos")
        assert int(tos) >> 2 == 26


def test_the_output_is_small_typed_and_complete(stack: Stack) -> None:
    outputs = stack.outputs()

    parts = {"hosts", "switches", "cluster", "attachments", "validation"}
    assert set(outputs) == {"lab", "kubeconfig", "ports", "topology", *parts}
    assert outputs["cluster"] == {"faults": {}}
    assert len(json.dumps(outputs)) < 16_384
    assert outputs["kubeconfig"] == "[secret]"
    assert outputs["lab"]["simulated"] is True
    assert outputs["attachments"]["rail-a"]["resource"] == "intel.com/sriov_111"


@pytest.mark.row("C 233-234, 246-247")
def test_discovery_drafts_the_lab_from_its_own_nodes_switch_and_cluster(made: Stack, tmp_path: Path) -> None:
    answers = tmp_path / "answers.yaml"  # what neither nodes nor switch nor cluster tell
    answers.write_text(yaml.safe_dump({"cluster": "adopt", "pod_subnet": "10.244.0.0/16"}))
    hosts = ("--hosts", "gpu[01-02]=127.0.12.[1-2]", "--port", "2222", "--user", "nvidia")
    switch = ("--switch", "sn2700=onyx@127.0.12.250:2222")
    for node in ("gpu01", "gpu02"):
        announce_by_lldp(node, "enp5s0", "enp132s0")
    keys = ("--known-hosts", ".sim/nodes/known_hosts", "--key", ".sim/nodes/id_ed25519")
    kube = ("--kubeconfig", ".sim/kubeconfig", "--answers", str(answers))

    made.run(
        "rocelab", "discover", "--name", "lab", *hosts, *switch, *keys, *kube, "--folder", str(tmp_path / "out")
    ).succeeded()

    lab = read_stack_file(ROOT / "Pulumi.lab.yaml")
    found = read_stack_file(tmp_path / "out" / "Pulumi.lab.yaml")
    rail_of = {one.name: other.name for one, other in zip(found.rails, lab.rails, strict=True)}
    assert told(found, rail_of) == told(lab, {rail.name: rail.name for rail in lab.rails})
    page = (tmp_path / "out" / "first-up.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if "| files " not in row] == [], "only the draft's own document differs"


def told(lab: Lab, rail_of: dict[str, str]) -> dict[str, Any]:
    """What a lab tells: not how you call a rail, where in its pool whole blocks begin, or whether a switch is yours."""
    assert lab.cluster is not None
    access = lab.access.model_dump(include={"user", "identity", "key_file"})
    cluster = lab.cluster.model_dump(exclude={"kubeconfig", "kubeconfig_file"})
    nodes = [node.model_dump(exclude={"pfs"}) for node in lab.nodes]
    pfs = [{**pf.model_dump(exclude={"pci"}), "rail": rail_of[pf.rail]} for node in lab.nodes for pf in node.pfs]
    rails = [rail.model_dump(exclude={"name": True, "pod": {"first_address", "last_address"}}) for rail in lab.rails]
    blocks = [list(rail.pod.outside_blocks()) for rail in lab.rails if rail.pod]
    switches = [switch.model_dump(exclude={"apply", "native_vlans"}) for switch in lab.switches]
    vlans = [{rail_of[rail]: vlan for rail, vlan in switch.native_vlans.items()} for switch in lab.switches]
    parts = {"access": access, "cluster": cluster, "nodes": nodes, "pfs": pfs, "rails": rails}
    return {**parts, "blocks": blocks, "switches": switches, "vlans": vlans}


@pytest.mark.row("A 123-155")
def test_each_node_answers_by_its_own_name_at_the_address_of_the_lab(made: Stack, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.json"

    made.run("rocelab", "look", "--config-file", str(made.file), "--out", str(inventory)).succeeded()

    hosts = json.loads(inventory.read_text())["hosts"]
    lab = read_stack_file(made.file)
    assert len(hosts) == len(lab.nodes)
    for host, node in zip(hosts, lab.nodes, strict=True):
        assert (host["address"], host["system"]["hostname"]["value"]) == (str(node.address), node.name)


@pytest.mark.row("A 10c", "A 20b")
@pytest.mark.usefixtures("made")
def test_each_rail_is_a_subnet_of_its_own_and_management_stays_off_them() -> None:
    lab = read_stack_file(ROOT / "Pulumi.lab.yaml")
    for node, peer in permutations(lab.nodes, 2):
        rails = {str(pf.address.ip): pf.interface for pf in peer.pfs}
        assert len(rails) == len(lab.rails)
        for address, interface in rails.items():
            [route] = json.loads(on_node(node.name, f"ip -j route get {address}"))
            assert (route["dev"], route.get("gateway")) == (interface, None)
        [to_us] = json.loads(on_node(node.name, "ip -j route get ${SSH_CONNECTION%% *}"))
        assert to_us["dev"] == node.management_interface
        default = json.loads(on_node(node.name, "ip -j route show default"))
        assert {route["dev"] for route in default} <= {node.management_interface}


def test_a_second_up_changes_nothing(stack: Stack) -> None:
    stack.unchanged()


DRIFTS = {
    "enp132s0.vfs": "echo 0 | sudo tee /sys/class/net/enp132s0/device/sriov_numvfs",
    "enp132s0.mtu_bytes": "sudo ip link set enp132s0 mtu 1500",
    "enp132s0.address": "sudo ip address del 10.10.12.12/24 dev enp132s0",
    "unit": f"sudo systemctl disable {UNIT}",
    "modules": "sudo modprobe -r ib_umad",
}


def test_what_drifted_is_shown_by_field_for_its_host_alone_and_repaired_at_once(stack: Stack) -> None:
    for break_it in DRIFTS.values():
        on_node("gpu02", break_it)

    drift = stack.drift()
    repaired = stack.repair().succeeded()
    clean = stack.drift()

    assert [field for field in DRIFTS if f"gpu02: {field} " not in drift.text] == [], drift.text[-4000:]
    assert nodes_named(drift) == {"gpu02"}, drift.text[-4000:]
    assert "gpu02" in repaired.text
    assert nodes_named(clean) == set(), clean.text[-4000:]


def test_preview_shows_the_effect_of_a_changed_mtu(stack: Stack) -> None:
    def smaller(lab: dict[str, Any]) -> None:
        lab["rails"][0]["mtu_bytes"] = 4200

    with stack.edited(smaller):
        seen = stack.pulumi("preview", "--diff").succeeded()

    assert lines_naming(seen.text, "gpu01:", "enp5s0.mtu_bytes", "9000 => 4200", WORDS["link"]), seen.text[-4000:]


def test_each_nic_of_one_node_alone_writes_to_itself(made: Stack) -> None:
    done = made.run("rocelab", "measure", "--config-file", str(made.file), "--node", "gpu01", "--json").succeeded()

    document, _ = json.JSONDecoder().raw_decode(done.text[done.text.index('{"record"') :])
    loopbacks = document["record"]["alone"]["loopbacks"]
    assert [(one["node"], one["rail"], one["outcome"]) for one in loopbacks] == [
        ("gpu01", "rail-a", "measured"),
        ("gpu01", "rail-b", "measured"),
    ]
    assert all(one["gbit_s"] > 0 for one in loopbacks)
    assert document["record"]["transfers"] == []
    assert document["record"]["simulated"]


@pytest.mark.row("A 72-82", "A 349c", "C 338-341")
@pytest.mark.whole
def test_sends_over_the_connection_manager_are_measured_as_often_as_the_lab_asks(made: Stack) -> None:
    """The Bitfusion article's `ib_send_bw` and `ib_send_lat`, and `-R` of the DeepOps guide."""

    def sends(lab: dict[str, Any]) -> None:
        lab["benchmarks"]["repeats"] = 2
        lab["benchmarks"]["verbs"] |= {"tests": ["ib_send_bw", "ib_send_lat"], "rdma_cm": True, "sizes": []}
        lab["benchmarks"].pop("nccl")

    with made.edited(sends):
        made.up().succeeded()
    validation = made.outputs()["validation"]

    assert validation["function"] == "pass", json.dumps(validation)[:3000]
    rows = {(row["test"], row.get("rail")): row for row in validation["tests"]}
    for row in (rows[place] for place in product(("ib_send_bw", "ib_send_lat"), ("rail-a", "rail-b"))):
        assert (row["function"], row["measured"], row["failed"]) == ("pass", 2, 0), row
    stored = ROOT / f".sim/runs/lab/{validation['run_id']}.run.json.gz"
    transfers = json.loads(gzip.decompress(stored.read_bytes()))["record"]["transfers"]
    assert {len(transfer["samples"]) for transfer in transfers} == {2}


@pytest.mark.whole
def test_a_host_that_fails_a_step_is_left_out_and_the_next_run_starts_there(made: Stack) -> None:
    written = "/etc/sysctl.d/60-rocelab.conf"
    on_node("gpu02", f"sudo rm {written} && sudo mkdir -p {written}/in-the-way")

    made.repair()

    outputs = made.outputs()
    failed = outputs["hosts"]["gpu02"]
    assert (outputs["hosts"]["gpu01"]["status"], failed["status"]) == ("ready", "failed")
    assert failed["step"], failed
    assert failed["hint"], failed
    assert written in failed["reason"]
    assert outputs["validation"]["function"] == "partial", json.dumps(outputs["validation"])[:3000]
    assert list(outputs["validation"]["quarantined"]) == ["gpu02"]

    on_node("gpu02", f"sudo rm -r {written}")
    made.repair().succeeded()

    outputs = made.outputs()
    assert outputs["hosts"]["gpu02"]["status"] == "ready"
    assert outputs["validation"]["function"] == "pass", json.dumps(outputs["validation"])[:3000]


def test_a_wrong_host_key_sends_nothing_and_is_named(stack: Stack) -> None:
    known = ROOT / ".sim/nodes/known_hosts"
    before = known.read_text()
    first, second = (line.split()[2] for line in before.splitlines()[:2])
    known.write_text(before.replace(first, "?").replace(second, first).replace("?", second))

    def change(lab: dict[str, Any]) -> None:
        lab["hosts"] = {"revert_after_s": 119}

    try:
        with stack.edited(change):
            refused = stack.up().failed()
    finally:
        known.write_text(before)

    assert re.search(r"gpu01.*host key", refused.text), refused.text[-4000:]
    assert "Traceback" not in refused.text
    stack.up().succeeded()


@pytest.mark.row("A 178-182")
@pytest.mark.whole
def test_a_host_that_does_not_answer_is_named_with_its_remedy(made: Stack) -> None:
    def unreachable(lab: dict[str, Any]) -> None:
        lab["nodes"][1]["ssh_port"] = 2223

    known = ROOT / ".sim/nodes/known_hosts"
    before = known.read_text()
    known.write_text(before + before.splitlines()[1].replace(":2222", ":2223") + "\n")
    try:
        with made.edited(unreachable):
            refused = made.up().failed()
    finally:
        known.write_text(before)

    assert re.search(r"gpu02.*2223", refused.text), refused.text[-4000:]
    assert "state: drained" in refused.text
    assert "Traceback" not in refused.text
    made.up().succeeded()


@pytest.mark.whole
def test_another_address_of_the_cluster_changes_no_object(made: Stack) -> None:
    path = ROOT / ".sim/kubeconfig"
    before = path.read_text()
    path.write_text(before.replace("name: ", "name: other-", 1).replace("127.0.12.200", "localhost-rocelab"))
    try:
        seen = made.pulumi("preview").text
    finally:
        path.write_text(before)

    assert not re.search(r"kubernetes:\S+ +\S+ +(replace|delete|create)", seen), seen[-4000:]


@pytest.mark.kills
def test_an_engine_killed_while_it_measures_is_recovered(made: Stack) -> None:
    """Killed at other moments: tests/integration/standing/test_changes.py."""

    def change(lab: dict[str, Any]) -> None:
        lab["rails"][0]["mtu_bytes"] = 4200

    with made.edited(change):
        made.killed(re.compile(r"validation:Measurement .*(creating|updating|replacing)"))
        recovered = made.run("python", "-m", "engine.recover", made.name, str(made.folder / "state")).succeeded()
        assert lines_naming(recovered.text, "cleared", "lock")
        made.up().succeeded()
        made.unchanged()


@pytest.mark.kills
def test_a_destroy_fails_while_a_host_hangs_and_the_next_one_ends(made: Stack) -> None:
    """The probe has two minutes, which it spends on a pipe that nobody writes into."""
    file = "/run/rocelab/reverted.json"
    on_node("gpu01", f"sudo mkdir -p /run/rocelab && sudo mkfifo {file}")
    try:
        failed = made.pulumi("destroy").failed()
    finally:
        on_node("gpu01", f"sudo rm {file}")

    assert lines_naming(failed.text, "gpu01", "time limit", f"`{file}`"), failed.text[-4000:]
    assert on_node("gpu01", f"cat {PF}/device/sriov_numvfs") == "4"
    made.pulumi("destroy").succeeded()
    assert on_node("gpu01", f"cat {PF}/device/sriov_numvfs") == "0"


def test_nothing_secret_is_in_state_output_or_logs(stack: Stack) -> None:
    assert_nothing_secret_was_left(stack)


def test_destroy_leaves_nothing_behind(stack: Stack) -> None:
    from kubernetes import client, config  # noqa: PLC0415  # 200 modules, for simulator tests only

    stack.pulumi("destroy").succeeded()

    for node in ("gpu01", "gpu02"):
        assert on_node(node, f"cat {PF}/device/sriov_numvfs {PF}/mtu").split() == ["0", "1500"]
        found = on_node(node, "sudo find /etc /usr/local /var/lib /run -iname '*rocelab*' 2>/dev/null || true").split()
        # lock and lease are empty and in memory; removing one that somebody holds would let two runs in
        assert set(found) <= {"/run/rocelab.lock", "/run/rocelab-bench.lease"}
        assert on_node(node, "sudo rdma link") == ""
    config.load_kube_config_from_dict(yaml.safe_load((ROOT / ".sim/kubeconfig").read_text()))
    kinds = client.ApiextensionsV1Api().list_custom_resource_definition().items
    assert [kind.metadata.name for kind in kinds if "kwok" not in kind.metadata.name] == []
    assert client.AppsV1Api().list_daemon_set_for_all_namespaces().items == []
    names = {item.metadata.name for item in client.CoreV1Api().list_namespace().items}
    assert names <= {"default", "kube-system", "kube-public", "kube-node-lease"}


def test_the_checkout_stays_clean(stack: Stack) -> None:
    printed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)

    assert [line for line in printed.stdout.splitlines() if "Pulumi" in line] == []
    del stack


def test_down_leaves_no_process_and_no_port(simulator: object) -> None:
    env = environment("lab")
    files = [file for file in (ROOT / ".sim").rglob("*.pid") if started(*file.read_text().split())]
    before = {str(file.relative_to(ROOT)): file.read_text().split() for file in files}
    assert len(before) >= 8, f"two nodes, the switch, the control plane: {sorted(before)}"
    ours = {place for place, pids in listening().items() if pids & {pid for pid, _ in before.values()}}
    assert len(ours) >= 4, f"two nodes, the switch, the API server: {sorted(ours)}"

    assert sim(env, "down").returncode == 0

    assert {name: pid for name, (pid, born) in before.items() if started(pid, born)} == {}
    assert ours.isdisjoint(listening())
    assert sim(env, "up").returncode == 0
    del simulator


def listening() -> dict[str, set[str]]:
    """Addresses with ports that this machine listens on, and the processes that do."""
    shown = subprocess.run(["ss", "-ltnupH"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[4]: set(re.findall(r"pid=(\d+)", line)) for line in shown.splitlines()}


def started(pid: str, born: str) -> bool:
    """Whether the very process of a pid file runs; one that ended and that nobody has waited for does not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] not in "ZX" and fields[19] == born
