"""vGPUs, RoCE versions and hosts of machines in the simulated vCenter, without an engine in between."""

from collections.abc import Iterator

import pytest
from pyVmomi import vim

from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.power import is_on
from components.fabric.vms.hardware import Hardware, HardwareChange, find, observe, put, refuse_unknown_profiles
from components.fabric.vms.spread import drs_refusal, faults_of, places_of
from stacks.base import LabError
from tests.integration.conftest import ENGINE
from tests.integration.vcenter import HOSTS, done, machine_named, running
from tests.messages import lines_naming, stating

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(not (ENGINE / "vcenter").exists(), reason="SIM LANE NOT RUN: run make setup"),
]

NEW = HardwareChange(new=True, may_restart=False, guest_s=0)
IN_USE = HardwareChange(new=False, may_restart=False, guest_s=0)
ALLOWED = HardwareChange(new=False, may_restart=True, guest_s=0)
NONE = Hardware(vgpus=(), roce_version="")


@pytest.fixture(scope="module")
def vcenter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VCenter]:
    with running(tmp_path_factory.mktemp("vcenter")) as endpoint, session(endpoint) as found:
        yield found


@pytest.fixture
def worker(vcenter: VCenter, request: pytest.FixtureRequest) -> str:
    """UUID of a running machine with a PVRDMA adapter."""
    host = vcenter.host(HOSTS[0])
    folder = host.parent.parent.parent.vmFolder
    backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(deviceName="VM Network")
    adapter = vim.vm.device.VirtualVmxnet3Vrdma(key=-1, backing=backing)
    spec = vim.vm.ConfigSpec(
        name=request.node.name,
        guestId="debian12_64Guest",
        files=vim.vm.FileInfo(vmPathName="[LocalDS_0]"),
        deviceChange=[vim.vm.device.VirtualDeviceSpec(operation="add", device=adapter)],
    )
    done(folder.CreateVM_Task(spec, host.parent.resourcePool, host))
    machine = machine_named(host, request.node.name)
    done(machine.PowerOnVM_Task())
    return str(machine.config.uuid)


def runs(vcenter: VCenter, uuid: str) -> bool:
    machine = find(vcenter, uuid)
    return machine is not None and is_on(vcenter, machine)


@pytest.mark.row("B 39a")
def test_a_new_machine_gets_its_vgpus_and_is_on_again(vcenter: VCenter, worker: str) -> None:
    wanted = Hardware(vgpus=("grid_v100d-32c", "grid_v100d-32c"), roce_version="rocev2")

    put(vcenter, worker, "gpu01", wanted, NEW)

    assert observe(vcenter, worker) == wanted
    assert runs(vcenter, worker)


def test_a_machine_in_use_is_not_restarted_unless_that_is_allowed(vcenter: VCenter, worker: str) -> None:
    wanted = Hardware(vgpus=("grid_v100d-8c",), roce_version="")

    with pytest.raises(LabError, check=stating("gpu01", "1 x grid_v100d-8c", "hosts.reboot: roll")):
        put(vcenter, worker, "gpu01", wanted, IN_USE)
    assert observe(vcenter, worker) == NONE
    put(vcenter, worker, "gpu01", wanted, ALLOWED)

    found = observe(vcenter, worker)
    assert found is not None
    assert found.vgpus == wanted.vgpus
    assert runs(vcenter, worker)


def test_another_profile_takes_the_place_of_the_first_and_none_takes_all_away(vcenter: VCenter, worker: str) -> None:
    first, second = ("grid_v100d-4c", "grid_v100d-8c"), ("grid_v100d-8c",)

    put(vcenter, worker, "gpu01", Hardware(vgpus=first, roce_version=""), NEW)
    put(vcenter, worker, "gpu01", Hardware(vgpus=second, roce_version=""), ALLOWED)
    kept = observe(vcenter, worker)
    put(vcenter, worker, "gpu01", NONE, ALLOWED)

    assert kept == Hardware(vgpus=second, roce_version="")
    assert observe(vcenter, worker) == NONE


def test_what_is_there_already_costs_no_restart(vcenter: VCenter, worker: str) -> None:
    wanted = Hardware(vgpus=("grid_v100d-16c",), roce_version="rocev2")
    put(vcenter, worker, "gpu01", wanted, NEW)

    put(vcenter, worker, "gpu01", wanted, IN_USE)  # would be refused if anything had to change


def test_a_vm_that_another_user_turned_off_is_changed_and_stays_off(vcenter: VCenter, worker: str) -> None:
    machine = find(vcenter, worker)
    assert machine is not None
    done(machine.PowerOffVM_Task())

    put(vcenter, worker, "gpu01", Hardware(vgpus=("grid_v100d-4c",), roce_version=""), IN_USE)

    assert not runs(vcenter, worker)


def test_a_profile_that_the_host_lacks_is_refused_with_its_list(vcenter: VCenter) -> None:
    said = refuse_unknown_profiles(vcenter, "gpu01", ["grid_t4-16q"], HOSTS[:2])

    assert lines_naming(said, "gpu01:", "DC0_C0_H0", "grid_t4-16q", "grid_v100d-16c", "grid_v100d-32c")
    assert refuse_unknown_profiles(vcenter, "gpu01", ["grid_v100d-32c"], HOSTS) == ""


def test_the_vcenter_itself_refuses_a_profile_that_it_does_not_have(vcenter: VCenter, worker: str) -> None:
    with pytest.raises(LabError, check=stating("gpu01:", "1 x grid_t4-16q")):
        put(vcenter, worker, "gpu01", Hardware(vgpus=("grid_t4-16q",), roce_version=""), NEW)


def test_a_missing_machine_is_reported(vcenter: VCenter) -> None:
    gone = "00000000-0000-0000-0000-000000000000"

    assert observe(vcenter, gone) is None
    with pytest.raises(LabError, check=stating("gpu09:", "--refresh")):
        put(vcenter, gone, "gpu09", NONE, NEW)


def test_two_workers_on_one_host_are_found_wherever_they_were_put(vcenter: VCenter, worker: str) -> None:
    machines = {"gpu01": worker, "gpu02": str(machine_named(vcenter.host(HOSTS[0]), "DC0_C0_RP0_VM0").config.uuid)}
    second = find(vcenter, machines["gpu02"])
    assert second is not None

    done(second.RelocateVM_Task(vim.vm.RelocateSpec(host=vcenter.host(HOSTS[0]))))
    together = places_of(vcenter, machines)
    done(second.RelocateVM_Task(vim.vm.RelocateSpec(host=vcenter.host(HOSTS[1]))))
    separate = places_of(vcenter, machines)

    assert faults_of(together, list(machines), list(machines), {}) != []
    assert separate == {"gpu01": HOSTS[0], "gpu02": HOSTS[1]}
    assert faults_of(separate, list(machines), list(machines), {"gpu02": HOSTS[1]}) == []


def test_nothing_keeps_vms_apart_if_drs_is_off_or_only_advises(vcenter: VCenter) -> None:
    cluster = vcenter.host(HOSTS[0]).parent

    def configure(**drs: object) -> None:
        spec = vim.cluster.ConfigSpecEx(drsConfig=vim.cluster.DrsConfigInfo(**drs))
        done(cluster.ReconfigureComputeResource_Task(spec, True))

    configure(enabled=False)
    off = drs_refusal(vcenter, "DC0_C0", ["gpu01", "gpu02"])
    configure(enabled=True, defaultVmBehavior="manual")
    manual = drs_refusal(vcenter, "DC0_C0", ["gpu01", "gpu02"])
    configure(enabled=True, defaultVmBehavior="fullyAutomated")

    assert lines_naming(off, "DRS", "off", "DC0_C0", "gpu01", "gpu02", "machine.host")
    assert lines_naming(manual, "DRS", "manual", "DC0_C0", "gpu01", "gpu02", "machine.host")
    assert drs_refusal(vcenter, "DC0_C0", ["gpu01", "gpu02"]) == ""
