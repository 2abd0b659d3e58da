"""What a driver reload takes away comes back by itself: udev starts the unit, and the unit can start again.

systemd starts a unit that a device wants when the device appears and the unit is not active (systemd.device(5),
SYSTEMD_WANTS; `device_set_state` and retroactive starts in systemd's src/core). That a real udev and systemd do it with
these very files, for igb and soft-RoCE, is tests/integration/test_driver_reload.py.
"""

import asyncio
import re
from typing import Any

import pytest

from components.hosts.program import verbs
from components.hosts.program.host import Host
from components.hosts.program.identity import devices_are_there
from components.hosts.program.places import NICS_FILE, REVERT_FILE, UDEV_FILE, UNIT_FILE
from components.hosts.program.revert import revert
from components.hosts.roll import Roll
from tests.components.hosts.host_runs import PROGRAM, differing, made, run
from tests.components.hosts.kernel import PFS
from tests.components.hosts.nics import NicHost, hardware


def other_mtu(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "pfs": [{**pf, "mtu_bytes": 4200} for pf in document["pfs"]]}


def test_the_unit_can_start_again_and_as_often_as_devices_come(machine, document):
    made(machine, document)

    unit = machine.read(UNIT_FILE).splitlines()
    assert "RemainAfterExit=yes" not in unit, "systemd starts nothing that is still active"
    assert "StartLimitIntervalSec=0" in unit, "eight NICs come one after the other, and the last one counts too"


def test_udev_starts_the_unit_for_each_pf_its_rdma_device_and_soft_roce_and_for_no_vf(machine, document):
    made(machine, document)

    rules = [line for line in machine.read(UDEV_FILE).splitlines() if not line.startswith("#")]
    assert len(rules) == 3
    for rule in rules:
        assert rule.startswith('ACTION!="remove", ')
        assert rule.endswith(', TAG+="systemd", ENV{SYSTEMD_WANTS}+="rocelab-rdma.service"')
    assert [re.findall('KERNELS?=="(.*?)"', rule) for rule in rules] == [
        ["0000:05:00.0"],
        ["0000:84:00.0"],
        ["rdma_rxe"],
    ]


def test_a_nic_of_its_own_has_no_module_to_wait_for(tmp_path, lab):
    nic = NicHost(tmp_path, "dcb")
    made(nic, hardware(lab))

    assert "rdma_rxe" not in nic.read(UDEV_FILE)


def test_a_pf_whose_driver_is_away_keeps_its_rule(machine, document):
    made(machine, document)
    before = machine.read(UDEV_FILE)
    del machine.links["enp5s0"]
    (machine.folder / "sys/class/net/enp5s0/device").unlink()

    run("boot", machine, document)

    assert machine.read(UDEV_FILE) == before


def test_a_run_of_the_unit_waits_for_the_confirmation_of_another_run_and_does_what_was_confirmed(machine, document):
    made(machine, document)
    changed = other_mtu(document)
    run("apply", machine, changed)
    assert machine.exists(REVERT_FILE)
    pause = machine.pause

    def confirmed_after_a_while(seconds: float) -> None:
        pause(seconds)
        if machine.clock_s > 1020 and machine.exists(REVERT_FILE):
            verbs.confirm(Host(machine, changed, PROGRAM))

    machine.pause = confirmed_after_a_while  # type: ignore[method-assign]

    assert run("boot", machine, document)["failed"] is None

    assert machine.links["enp5s0"]["mtu"] == 4200
    assert differing(machine, changed) == {}


def test_a_run_of_the_unit_sets_the_older_values_once_the_newer_stay_unconfirmed(machine, document):
    made(machine, document)
    run("apply", machine, other_mtu(document))
    pause = machine.pause

    def reverted_after_a_while(seconds: float) -> None:
        pause(seconds)
        if machine.clock_s > 1150 and machine.exists(REVERT_FILE):
            machine.pause = pause  # type: ignore[method-assign]
            revert(machine)

    machine.pause = reverted_after_a_while  # type: ignore[method-assign]

    assert run("boot", machine, document)["failed"] is None
    assert machine.links["enp5s0"]["mtu"] == 9000


def test_a_run_that_confirms_does_not_wait_for_a_unit_that_waits_for_it(machine, document):
    made(machine, document)
    run("apply", machine, other_mtu(document))
    machine.clock_s = 9.0
    machine.commands.clear()

    run("confirm", machine, other_mtu(document))

    assert not [line for line in machine.commands if line.startswith("systemctl show")]


def test_the_unit_waits_for_the_rdma_device_that_comes_after_its_netdev(tmp_path, lab):
    """mlx5_ib is a driver of its own whose device comes later; its event finds the unit running and is lost."""
    nic = NicHost(tmp_path, "dcb")
    document = hardware(lab)
    made(nic, document)
    (tmp_path / "sys/class/infiniband/mlx5_1").rmdir()
    host = Host(nic, document, b"")

    assert not devices_are_there(host)
    (tmp_path / "sys/class/infiniband/mlx5_1").mkdir()
    assert devices_are_there(host)


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        ("ActiveState=inactive\nExecMainExitTimestampMonotonic=0\n", False),
        ("ActiveState=activating\nExecMainExitTimestampMonotonic=0\n", False),
        ("ActiveState=activating\nExecMainExitTimestampMonotonic=8153217\n", False),
        ("ActiveState=inactive\nExecMainExitTimestampMonotonic=8153217\n", True),
        ("ActiveState=failed\nExecMainExitTimestampMonotonic=8153217\n", True),
        ("", False),
    ],
)
def test_a_unit_that_does_not_stay_active_has_ended_once_it_has_run(said: str, ended: bool) -> None:
    """The form is that of systemctl(1), `show -p`; the time stands in org.freedesktop.systemd1(5)."""

    class Crew:
        hosts: Any

        async def run(self, *_: object, **__: object) -> str:
            return said

    crew: Any = Crew()
    crew.hosts = crew
    roll = Roll(crew=crew, records={}, drainer=None)

    assert asyncio.run(roll._unit_has_ended(None)) is ended  # type: ignore[arg-type]


def test_every_pf_is_written_down_by_slot_and_mac(machine, document):
    made(machine, document)

    written = machine.read(NICS_FILE)
    for pf, bus in PFS.items():
        assert f'"{pf}": ["{bus}:00.0", "{machine.links[pf]["address"]}"]' in written
