"""VMs of somebody else in the simulated vCenter, without an engine in between: found, given what is asked, and back."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyVmomi import vim

from components.fabric.vcenter.client import VCenter, session
from components.fabric.vms.existing import ExistingVm, by_instance, by_name
from components.fabric.vms.lending import Terms, changed_lines, give, give_back, refusal, take_over
from simulator.vcenter.control import SOCKET, Control
from stacks.base import LabError
from tests.integration.conftest import ENGINE
from tests.integration.vcenter import HOSTS, a_machine, an_rdma_switch, done, machine_named, running
from tests.messages import lines_naming, stating

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(not (ENGINE / "vcenter").exists(), reason="SIM LANE NOT RUN: run make setup"),
]

HOST = "DC0_C0_H0"
VGPU = "grid_v100d-8c"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[VCenter, Control, str]]:
    """A vCenter, how to make it go wrong, and the port group of a rail."""
    folder = tmp_path_factory.mktemp("lending")
    with running(folder, f"-control={folder / SOCKET}") as endpoint, session(endpoint) as vcenter:
        yield (
            vcenter,
            Control(folder / SOCKET),
            an_rdma_switch(vcenter, "corp", HOSTS),
        )


@pytest.fixture
def vcenter(place: tuple[VCenter, Control, str]) -> VCenter:
    return place[0]


@pytest.fixture
def terms(place: tuple[VCenter, Control, str], request: pytest.FixtureRequest) -> Terms:
    """PVRDMA on a machine of the test's own, which runs and may not be stopped."""
    vcenter, _, group = place
    name = request.node.name
    a_machine(vcenter.host(HOST), name)
    wanted = {"adapter.rail-a": True, "roce_version.rail-a": "rocev2", "memory_reservation_mbytes": "all"}
    theirs = by_name(vcenter, f"DC0/{name}")
    return Terms(
        path=f"DC0/{name}",
        wanted=wanted,
        before=theirs.read(wanted, {"rail-a": group}),
        networks={"rail-a": group},
        allow_power_off=False,
        hosts=(HOST,),
        host="",
        least_hardware=13,
        needs="PVRDMA works",
        several_pvrdma=False,
        guest_s=0,
    )


def seen(vcenter: VCenter, terms: Terms) -> ExistingVm:
    return by_name(vcenter, terms.path)


def has(vcenter: VCenter, terms: Terms) -> dict[str, object]:
    return seen(vcenter, terms).read(terms.wanted, terms.networks)


def allowed(terms: Terms, **more: Any) -> Terms:
    return replace(terms, allow_power_off=True, **more)


def test_a_machine_that_runs_is_not_stopped_without_the_word(vcenter: VCenter, terms: Terms) -> None:
    said = refusal(vcenter, seen(vcenter, terms), terms)

    assert lines_naming(said, terms.path, "adapter.rail-a", "roce_version.rail-a", "machine.allow_power_off: true")
    assert "memory_reservation_mbytes" not in said, "it may run for that"
    with pytest.raises(LabError, check=stating(terms.path, "adapter.rail-a", "machine.allow_power_off: true")):
        give(vcenter, seen(vcenter, terms), terms, {}, refuse=True)
    assert has(vcenter, terms) == terms.before
    assert seen(vcenter, terms).on


def test_what_a_machine_takes_while_it_runs_needs_no_word(vcenter: VCenter, terms: Terms) -> None:
    only = replace(terms, wanted={"memory_reservation_mbytes": "all"})

    assert refusal(vcenter, seen(vcenter, only), only) == ""
    assert [line.rpartition(": ")[2] for line in changed_lines(seen(vcenter, only), only)] == ["no disruption"]
    assert give(vcenter, seen(vcenter, only), only, {}, refuse=True).now == only.wanted


def test_it_is_given_what_is_asked_and_runs_again_and_gets_all_of_it_back(vcenter: VCenter, terms: Terms) -> None:
    terms = allowed(terms, wanted={**terms.wanted, "cpus": 4, "memory_mbytes": 2048, "option.pciPassthru.x": "TRUE"})
    terms = replace(terms, before=has(vcenter, terms))
    lines = list(changed_lines(seen(vcenter, terms), terms))

    given = give(vcenter, seen(vcenter, terms), terms, {}, refuse=True)

    assert lines_naming("\n".join(lines), terms.path, "adapter.rail-a", "False => True")
    (while_on,) = [line for line in lines if line.endswith(": no disruption")]
    assert "memory_reservation_mbytes" in while_on, "all other fields need it powered off"
    assert (given.now, given.left) == (terms.wanted, "")
    assert seen(vcenter, terms).on
    assert give_back(vcenter, seen(vcenter, terms), terms) == []
    assert has(vcenter, terms) == terms.before
    assert seen(vcenter, terms).on


def test_a_vgpu_is_given_where_its_host_offers_it_and_the_firmware_maps_it(vcenter: VCenter, terms: Terms) -> None:
    terms = allowed(terms, wanted={"vgpus": VGPU}, before={"vgpus": ""})
    assert lines_naming(refusal(vcenter, seen(vcenter, terms), terms), terms.path, "vGPU", "bios", "efi")
    machine = seen(vcenter, terms).machine
    done(machine.PowerOffVM_Task())
    done(machine.ReconfigVM_Task(vim.vm.ConfigSpec(firmware="efi")))

    lacking = replace(terms, wanted={"vgpus": "grid_t4-16q"})
    assert lines_naming(refusal(vcenter, seen(vcenter, terms), lacking), terms.path, HOST, "grid_t4-16q", VGPU)
    assert refusal(vcenter, seen(vcenter, terms), terms) == ""
    give(vcenter, seen(vcenter, terms), terms, {}, refuse=True)

    assert has(vcenter, terms) == {"vgpus": VGPU}
    assert not seen(vcenter, terms).on, "a machine that was off stays off"


def test_a_refused_change_leaves_it_running(place: tuple[VCenter, Control, str], terms: Terms) -> None:
    vcenter, control, _ = place
    control.fault("refuse", method="ReconfigVM_Task", privilege="VirtualMachine.Config.AddRemoveDevice", times=1)

    with pytest.raises(LabError, check=stating("fabric.user", "VirtualMachine.Config.AddRemoveDevice")):
        give(vcenter, seen(vcenter, terms), allowed(terms), {}, refuse=True)

    control.clear()
    assert seen(vcenter, terms).on


def test_a_run_that_was_killed_while_it_was_off_starts_it_again(vcenter: VCenter, terms: Terms) -> None:
    done(seen(vcenter, terms).machine.PowerOffVM_Task())

    given = take_over(vcenter, seen(vcenter, terms), allowed(terms), was_on=True)

    assert given.now == terms.wanted
    assert seen(vcenter, terms).on


def test_a_vm_that_its_owner_powered_off_for_it_is_not_started(vcenter: VCenter, terms: Terms) -> None:
    done(seen(vcenter, terms).machine.PowerOffVM_Task())

    given = take_over(vcenter, seen(vcenter, terms), terms, was_on=True)

    assert given.now == terms.wanted, "as the refusal had advised"
    assert not seen(vcenter, terms).on


def test_drift_that_needs_it_off_is_reported_and_the_rest_is_repaired(vcenter: VCenter, terms: Terms) -> None:
    given = give(vcenter, seen(vcenter, terms), terms, {}, refuse=False)

    assert lines_naming(given.left, terms.path, "adapter.rail-a", "machine.allow_power_off: true")
    assert given.now == {**terms.before, "memory_reservation_mbytes": "all"}


def test_a_field_that_is_declared_no_more_gets_its_old_value(vcenter: VCenter, terms: Terms) -> None:
    terms = allowed(terms)
    give(vcenter, seen(vcenter, terms), terms, {}, refuse=True)
    less = replace(terms, wanted={"memory_reservation_mbytes": "all"})
    returned = {key: value for key, value in terms.before.items() if key not in less.wanted}

    give(vcenter, seen(vcenter, terms), less, returned, refuse=True)

    assert has(vcenter, terms) == {**terms.before, "memory_reservation_mbytes": "all"}


def test_what_another_user_changed_since_stays(vcenter: VCenter, terms: Terms) -> None:
    terms = allowed(terms, wanted={**terms.wanted, "cpus": 4}, before={**terms.before, "cpus": 1})
    give(vcenter, seen(vcenter, terms), terms, {}, refuse=True)
    machine = seen(vcenter, terms).machine
    done(machine.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=8)))

    (said,) = give_back(vcenter, seen(vcenter, terms), terms)

    assert lines_naming(said, terms.path, "cpus", "8", "4")
    assert has(vcenter, terms) == {**terms.before, "cpus": 8}


def test_nothing_is_given_back_while_it_runs_without_the_word_and_the_error_says_so(
    vcenter: VCenter, terms: Terms
) -> None:
    give(vcenter, seen(vcenter, terms), allowed(terms), {}, refuse=True)

    with pytest.raises(LabError, check=stating(terms.path, "adapter.rail-a", "machine.allow_power_off: true")):
        give_back(vcenter, seen(vcenter, terms), terms)

    assert has(vcenter, terms) == terms.wanted


def test_a_name_that_two_machines_have_is_refused_with_where_they_are(vcenter: VCenter, terms: Terms) -> None:
    name = terms.path.partition("/")[2]
    folder = vcenter.host(HOST).parent.parent.parent.vmFolder.CreateFolder("elsewhere")
    a_machine(vcenter.host(HOST), name, folder=folder, directory="another")

    with pytest.raises(
        LabError, check=stating(terms.path, "2 VMs", f"elsewhere on {HOST}", f"vm on {HOST}", "machine.existing")
    ):
        by_name(vcenter, terms.path)


def test_a_name_that_no_machine_has_is_refused_with_what_is_near(vcenter: VCenter, terms: Terms) -> None:
    with pytest.raises(LabError, check=stating(f"{terms.path}x", terms.path.partition("/")[2], "machine.existing")):
        by_name(vcenter, f"{terms.path}x")


def test_a_machine_is_the_same_under_another_name_and_none_when_it_is_gone(vcenter: VCenter, terms: Terms) -> None:
    theirs = seen(vcenter, terms)
    done(theirs.machine.Rename_Task("renamed"))

    found = by_instance(vcenter, theirs.instance)

    assert found is not None
    assert found.name == "renamed"
    done(theirs.machine.PowerOffVM_Task())
    done(theirs.machine.Destroy_Task())
    assert by_instance(vcenter, theirs.instance) is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"least_hardware": 99, "needs": "something is there"}, ("something is there", "99")),
        ({"hosts": ("DC0_C0_H2",)}, (HOST, "rails", "DC0_C0_H2")),
        ({"host": "DC0_C0_H1"}, (HOST, "machine.host", "DC0_C0_H1")),
    ],
    ids=["hardware", "rails", "host"],
)
def test_a_machine_that_does_not_fit_is_refused(
    vcenter: VCenter, terms: Terms, change: dict[str, Any], named: tuple[str, ...]
) -> None:
    assert lines_naming(refusal(vcenter, seen(vcenter, terms), allowed(terms, **change)), terms.path, *named)


def test_a_second_pvrdma_adapter_and_a_template_are_refused(place: tuple[VCenter, Control, str], terms: Terms) -> None:
    vcenter, _, _ = place
    other = allowed(terms, networks={"rail-a": an_rdma_switch(vcenter, "second", (HOST,))})
    give(vcenter, seen(vcenter, terms), allowed(terms), {}, refuse=True)

    assert lines_naming(
        refusal(vcenter, seen(vcenter, terms), other), terms.path, "1 PVRDMA", "machine.several_pvrdma: true"
    )
    assert refusal(vcenter, seen(vcenter, terms), replace(other, several_pvrdma=True)) == ""
    done(seen(vcenter, terms).machine.PowerOffVM_Task())
    machine_named(vcenter.host(HOST), seen(vcenter, terms).name).MarkAsTemplate()
    assert lines_naming(refusal(vcenter, seen(vcenter, terms), allowed(terms)), terms.path, "machine.template")
