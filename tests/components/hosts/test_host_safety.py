"""What the program on the host must never do, and how it comes back from what it did."""

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.hosts.program.carriers import default_routes
from components.hosts.program.lock import locked
from components.hosts.program.machine import Done, Machine
from components.hosts.program.main import _out_of_time, perform
from components.hosts.program.places import (
    BASELINE_FILE,
    BOOT_RUN_WAIT_S,
    DOCUMENT_FILE,
    LOCK_FILE,
    LOCK_WAIT_S,
    REVERT_FILE,
    UNCONFIRMED_FILE,
)
from components.hosts.program.revert import revert
from components.hosts.program.step import value_or_reason
from tests.components.hosts.host_runs import made, run
from tests.components.hosts.kernel import PFS, FakeHost, addresses, done, link
from tests.messages import states


def is_default_route(machine: FakeHost) -> None:
    routes = [{"dst": "default", "gateway": "192.168.1.1", "dev": "enp5s0", "protocol": "dhcp", "metric": 100}]
    machine.answers["ip -j -4 route show table all"] = done(json.dumps(routes))


def is_default_route_of_ipv6(machine: FakeHost) -> None:
    hops = [{"gateway": "fe80::1", "dev": "enp0s3", "flags": []}, {"gateway": "fe80::2", "dev": "enp5s0", "flags": []}]
    routes = [
        {"type": "unreachable", "dst": "default", "dev": "lo", "metric": 4294967295, "flags": []},
        {"dst": "default", "protocol": "ra", "metric": 1024, "flags": [], "nexthops": hops},
    ]
    machine.answers["ip -j -6 route show table all"] = done(json.dumps(routes))


def carries_the_session(machine: FakeHost) -> None:
    machine.links["enp5s0"] = link(["10.9.9.9/24"])
    os.environ["SSH_CONNECTION"] = "10.9.9.1 4711 10.9.9.9 22"


def is_below_the_management_bond(machine: FakeHost) -> None:
    for name in ("lower_enp5s0", "lower_enp0s3"):
        machine.file(f"/sys/class/net/bond0/{name}", "")
    machine.file("/sys/class/net/enp0s3/upper_bond0", "")


def carries_a_mounted_filesystem(machine: FakeHost) -> None:
    machine.file("/proc/mounts", "filer:/data /data nfs4 rw,vers=4.2,addr=10.9.9.2,clientaddr=10.9.9.9 0 0")
    answer = machine.run

    def routed(*words: str, **options: Any) -> Done:
        if words[:3] == ("ip", "route", "get"):
            return Done(0, f"{words[3]} dev enp5s0 src 10.9.9.9 uid 0\n", "")
        return answer(*words, **options)

    machine.run = routed  # type: ignore[method-assign]  # one more answer of the same program


CARRIERS = [
    is_default_route,
    is_default_route_of_ipv6,
    carries_the_session,
    is_below_the_management_bond,
    carries_a_mounted_filesystem,
]


@pytest.mark.parametrize("carry", CARRIERS, ids=lambda carry: carry.__name__)
def test_a_pf_that_carries_the_host_is_refused_untouched(machine, document, carry, monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "")
    carry(machine)

    result = run("apply", machine, document)

    assert result["failed"]["step"] == "link"
    assert states(result["failed"]["reason"], "enp5s0", "refused")
    assert "name another NIC" in result["failed"]["hint"]
    assert result["changed"] == []
    assert machine.written == []
    assert not machine.exists(BASELINE_FILE)


def test_a_rail_with_a_default_route_in_a_table_of_its_own_is_no_carrier(machine, document, monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "")
    routes = [{"dst": "default", "gateway": "10.10.11.254", "dev": "enp5s0", "table": "100", "protocol": "114"}]
    machine.answers["ip -j -4 route show table all"] = done(json.dumps(routes))

    assert run("apply", machine, document)["failed"] is None
    assert default_routes(machine) == []


def test_the_management_interface_is_refused_even_when_the_document_names_it(machine, document):
    result = run("apply", machine, {**document, "management_interface": "enp5s0"})

    assert result["failed"]["step"] == "link"
    assert states(result["failed"]["reason"], "enp5s0", "management")
    assert machine.written == []


@pytest.mark.row("A 20a")
def test_a_member_of_a_bond_is_refused_untouched_although_the_bond_carries_nothing(machine, document):
    machine.file("/sys/class/net/enp132s0/bonding_slave/state", "active")
    Path(machine.path("/sys/class/net/enp132s0/master")).symlink_to("../bond7")

    result = run("apply", machine, document)

    assert result["failed"]["step"] == "link"
    assert states(result["failed"]["reason"], "enp132s0", "bond7")
    assert states(result["failed"]["hint"], "bond7")
    assert machine.written == []


@pytest.mark.parametrize("master", ["br0", "team0", "ovs-system"])
def test_a_port_of_a_bridge_or_a_team_is_refused_untouched(machine, document, master):
    """The internal port that has the host's address under Open vSwitch is in no way above the NIC:
    `netdev_master_upper_dev_link` in the kernel's net/openvswitch/vport-netdev.c links the NIC to `ovs-system`.
    """
    machine.symlink("/sys/class/net/enp132s0/master", machine.folder / f"sys/class/net/{master}")
    machine.file(f"/sys/class/net/{master}/uevent", "DEVTYPE=bridge" if master == "br0" else "")

    result = run("apply", machine, document)

    assert result["failed"]["step"] == "link"
    assert states(result["failed"]["reason"], "enp132s0", master)
    assert machine.written == []


def test_a_member_of_a_vrf_keeps_its_frames_and_may_be_a_rail(machine, document):
    machine.symlink("/sys/class/net/enp132s0/master", machine.folder / "sys/class/net/rdma")
    machine.file("/sys/class/net/rdma/uevent", "DEVTYPE=vrf\nINTERFACE=rdma")

    assert run("apply", machine, document)["failed"] is None


def test_another_driver_than_the_lab_says_is_refused(machine, document):
    first, *rest = document["pfs"]
    result = run("apply", machine, {**document, "pfs": [{**first, "driver": "mlx5_core"}, *rest]})

    assert result["failed"]["step"] == "link"
    assert states(result["failed"]["reason"], "enp5s0", "igb", "mlx5_core")


def test_a_revert_is_armed_before_the_first_network_step(machine, document):
    run("apply", machine, document)

    armed = next(i for i, line in enumerate(machine.commands) if line.startswith("systemd-run"))
    changed = next(i for i, line in enumerate(machine.commands) if line.startswith("link set"))
    assert armed < changed
    assert "--on-active=120" in machine.commands[armed]


def test_without_a_word_from_a_new_connection_the_host_goes_back(machine, document):
    run("apply", machine, document)

    revert(machine)

    assert machine.clock_s >= 1000 + 120
    assert machine.links["enp5s0"]["mtu"] == 1500
    assert addresses(machine.links["enp5s0"]) == []
    assert run("probe", machine, document)["facts"]["reverted"] == ["enp132s0", "enp5s0"]


@pytest.mark.parametrize("gone", ["enp5s0", "enp132s0"])
def test_a_pf_that_is_gone_does_not_keep_the_other_from_being_reverted(machine, document, gone):
    stays = next(pf for pf in PFS if pf != gone)
    run("apply", machine, document)
    link_of_gone = machine.links.pop(gone)

    assert revert(machine) == 1

    assert machine.links[stays]["mtu"] == 1500
    assert addresses(machine.links[stays]) == []
    assert not machine.exists(REVERT_FILE), "or the boot unit would wait for a confirmation, and a run would give it"
    assert not machine.exists(UNCONFIRMED_FILE)
    facts = run("confirm", machine, document)["facts"]
    assert facts["reverted"] == [stays]
    [warning] = facts["warnings"]
    assert states(warning, gone, "could not be reverted", f'Cannot find device "{gone}"')

    machine.links[gone] = link_of_gone
    run("apply", machine, document)
    assert [warning] == run("confirm", machine, document)["facts"]["warnings"], "its unconfirmed change is still there"

    machine.links[gone]["mtu"] = 1500
    machine.links[gone]["flags"].remove("UP")
    machine.links[gone]["addr_info"].clear()
    assert "warnings" not in run("probe", machine, document)["facts"]


def test_a_setting_that_a_pf_refuses_does_not_keep_its_other_settings_from_being_reverted(
    machine, document, monkeypatch
):
    run("apply", machine, document)
    ip = machine._ip_batch

    def refusing(lines: str, *, force: bool) -> Done:
        kept = [line for line in lines.splitlines() if "mtu" not in line]
        done = ip("\n".join(kept if force else []), force=force)
        return Done(1, done.out, "Error: mtu less than device minimum.\nCommand failed -:2\n")

    monkeypatch.setattr(machine, "_ip_batch", refusing)

    revert(machine)

    assert addresses(machine.links["enp5s0"]) == addresses(machine.links["enp132s0"]) == []
    facts = run("probe", machine, document)["facts"]
    assert facts["reverted"] == []
    assert all("device minimum" in warning for warning in facts["warnings"])
    assert len(facts["warnings"]) == len(PFS)


def test_a_file_that_cannot_be_put_back_does_not_keep_links_from_being_reverted(machine, document):
    run("apply", machine, document)
    pending = json.loads(machine.read(REVERT_FILE))
    machine.file("/etc/netplan", "not a folder")
    pending["tools"] = [{"files": {"/etc/netplan/90.yaml": "network: {}\n"}, "stop": [], "start": []}]
    machine.file(REVERT_FILE, json.dumps(pending))

    revert(machine)

    facts = run("probe", machine, document)["facts"]
    assert facts["reverted"] == ["enp132s0", "enp5s0"]
    assert states(facts["warnings"][0], "/etc/netplan/90.yaml", "could not be reverted")


def test_a_link_that_is_changed_again_is_no_longer_reported(machine, document):
    run("apply", machine, document)
    enp5s0 = machine.links.pop("enp5s0")
    revert(machine)
    machine.links["enp5s0"] = enp5s0

    assert run("probe", machine, document)["facts"]["warnings"]
    run("apply", machine, {**document, "pfs": [{**pf, "mtu_bytes": 4200} for pf in document["pfs"]]})

    assert "warnings" not in run("confirm", machine, document)["facts"]


def test_a_confirmed_network_stays(machine, document):
    made(machine, document)

    revert(machine)

    assert machine.links["enp5s0"]["mtu"] == 9000


def test_an_unconfirmed_network_does_not_come_back_at_boot(machine, document):
    run("apply", machine, document)

    assert not machine.exists(DOCUMENT_FILE)
    run("confirm", machine, document)
    assert json.loads(machine.read(DOCUMENT_FILE)) == document


def test_while_a_revert_is_pending_the_proven_values_are_the_older_ones(machine, document):
    run("apply", machine, document)
    run("apply", machine, {**document, "pfs": [{**pf, "mtu_bytes": 4200} for pf in document["pfs"]]})

    revert(machine)

    assert machine.links["enp5s0"]["mtu"] == 1500


def test_a_boot_arms_nothing_since_its_document_was_confirmed(machine, document):
    made(machine, document)
    machine.links["enp5s0"]["mtu"] = 1500
    machine.commands.clear()

    assert run("boot", machine, document)["failed"] is None
    assert machine.links["enp5s0"]["mtu"] == 9000
    assert not [line for line in machine.commands if line.startswith("systemd-run")]


def test_a_second_run_waits_and_then_names_the_run_that_holds_the_lock(machine, document):
    machine.file(LOCK_FILE, "")
    machine.file(f"/proc/{os.getpid()}/comm", "python3")
    with locked(machine, "undo"):
        machine.clock_s += 95
        result = run("apply", machine, document)

    waited_s = 95 + LOCK_WAIT_S
    assert states(result["failed"]["reason"], "/run/rocelab.lock", os.getpid(), "undo", waited_s)
    assert machine.written == []


def test_a_lock_is_not_blamed_on_a_process_that_has_ended(machine, document):
    machine.file(LOCK_FILE, "4711 apply 12\n")
    with Path(machine.path(LOCK_FILE)).open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        reason = run("apply", machine, document)["failed"]["reason"]

    assert states(reason, "/run/rocelab.lock")
    assert "4711" not in reason


@pytest.mark.parametrize(
    "told", ["Job=312\nActiveState=inactive\n", "Job=312\nActiveState=activating\n", "ActiveState=activating\n"]
)
def test_a_host_that_is_starting_is_looked_at_when_its_unit_is_done(machine, document, monkeypatch, told):
    made(machine, document)
    run("confirm", machine, document)
    machine.links["enp5s0"]["mtu"] = 1500
    machine.clock_s = 9.0
    answers = [told, told, "ActiveState=active\n"]

    def systemctl(*words: str, **options: Any) -> Done:
        if words[:2] != ("systemctl", "show"):
            return FakeHost.run(machine, *words, **options)
        if len(answers) == 1:
            machine.links["enp5s0"]["mtu"] = 9000  # by the unit
        return Done(0, answers.pop(0), "")

    monkeypatch.setattr(machine, "run", systemctl)

    assert run("probe", machine, document)["fields"]["enp5s0.mtu_bytes"] == 9000
    assert answers == []


def test_a_unit_that_hangs_does_not_prevent_a_reading(machine, document, monkeypatch):
    made(machine, document)
    run("confirm", machine, document)
    monkeypatch.setattr(machine, "run", lambda *words, **options: (
        Done(0, "ActiveState=activating\n", "") if words[0] == "systemctl" else FakeHost.run(machine, *words, **options)
    ))  # fmt: skip
    machine.clock_s = 9.0

    assert run("probe", machine, document)["failed"] is None
    assert BOOT_RUN_WAIT_S <= machine.now_s() - 9 < BOOT_RUN_WAIT_S + 1


def test_a_lock_that_an_undo_has_removed_excludes_no_run(machine, document):
    made(machine, document)
    run("undo", machine, document)

    made(machine, document)


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"schema": 2, "pfs": []}', '{"schema": 1}'])
def test_an_invalid_document_is_data_and_no_crash(machine, text):
    result = perform("apply", machine, text, "")

    assert result["failed"]["step"] == "apply"
    assert states(result["failed"]["reason"], "stdin", "document", "schema 1")


def test_a_fault_of_the_program_itself_is_data_too(machine, document, monkeypatch, capsys):
    monkeypatch.setattr(machine, "run", lambda *words, **_: Done(0, "no json", ""))

    result = run("probe", machine, document)

    assert result["failed"]["reason"].startswith("JSONDecodeError")
    assert "Traceback" in capsys.readouterr().err


def test_a_program_that_hangs_is_ended_and_named(tmp_path: Path) -> None:
    done = Machine(str(tmp_path)).run("sleep", "5", timeout_s=0.05)

    assert done.code == 124
    assert "did not end" in done.err


@pytest.mark.parametrize(
    ("hang", "awaited"),
    [
        (lambda machine: machine.run("sh", "-c", "sleep 7 & wait"), "`sh -c sleep 7 & wait`"),
        (lambda machine: machine.read("/fifo"), "`/fifo`"),
        (lambda machine: value_or_reason(lambda: machine.read("/fifo")), "`/fifo`"),
    ],
    ids=["a program", "a file", "a file that a step reports as unreadable"],
)
def test_a_run_that_takes_too_long_ends_and_names_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hang: Callable[[Machine], object], awaited: str
) -> None:
    monkeypatch.setattr("components.hosts.program.main.PROBE_S", 1)
    monkeypatch.setattr("components.hosts.program.main.wait_for_boot", hang)
    os.mkfifo(tmp_path / "fifo")
    machine = Machine(str(tmp_path))
    before = signal.signal(signal.SIGALRM, lambda *_: _out_of_time(machine))
    begun_s = time.monotonic()
    try:
        failed = perform("probe", machine, json.dumps({"schema": 1, "host": "gpu01", "pfs": []}), b"")["failed"]
    finally:
        signal.signal(signal.SIGALRM, before)

    assert time.monotonic() - begun_s < 5
    assert failed["step"] == "probe"
    assert states(failed["reason"], awaited)


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/etc/x/y.conf", "a\n")
    machine.put("/etc/x/y.conf", "b\n", mode=0o600)

    assert (tmp_path / "etc/x/y.conf").read_text() == "b\n"
    assert (tmp_path / "etc/x/y.conf").stat().st_mode & 0o777 == 0o600
    assert machine.names("/etc/x") == ["y.conf"]


def test_undo_stops_what_systemd_runs_for_us(machine, document):
    made(machine, document)
    machine.file("/run/systemd/units/invocation:rocelab-rdma.service", "")
    machine.commands.clear()

    run("undo", machine, document)

    assert "systemctl stop rocelab-rdma.service rocelab-revert-*.timer" in machine.commands


def test_an_interface_that_is_another_nic_than_the_lab_means_is_left_alone(machine, document):
    """Names move with drivers and kernels; slots do not."""
    document["pfs"][0]["pci"] = "0000:19:00.0"

    failed = run("apply", machine, document)["failed"]

    assert failed["step"] == "preflight"
    assert states(failed["reason"], "enp5s0", "0000:05:00.0", "0000:19:00.0")
    assert "/sys/bus/pci/devices/0000:19:00.0/net" in failed["hint"]
    document["pfs"][0]["pci"] = "0000:05:00.0"
    made(machine, document)
