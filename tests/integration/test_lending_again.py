"""A VM of somebody else in the simulated vCenter by its providers, as the engine drives them: later runs of a lab."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from pyVmomi import vim

from components.fabric import login
from components.fabric.adopt_machine import AdoptedMachineProvider
from components.fabric.machine_baseline import MachineBaselineProvider
from components.fabric.vcenter.client import VCenter, session
from components.fabric.vms import existing
from components.fabric.vms.existing import MARK, ExistingVm, by_instance, by_name
from simulator.vcenter.control import SOCKET, Control
from stacks.base import LabError
from tests.integration.conftest import ENGINE
from tests.integration.vcenter import HOSTS, a_machine, an_rdma_switch, done, running
from tests.messages import lines_naming, stating

pytestmark = [
    pytest.mark.sim,
    pytest.mark.whole,
    pytest.mark.skipif(not (ENGINE / "vcenter").exists(), reason="SIM LANE NOT RUN: run make setup"),
]

HOST = HOSTS[0]
Props = dict[str, Any]
REAL_TURN_OFF = existing.turn_off


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[VCenter, Control]]:
    folder = tmp_path_factory.mktemp("again")
    with running(folder, f"-control={folder / SOCKET}") as endpoint, session(endpoint) as vcenter:
        yield vcenter, Control(folder / SOCKET)


@pytest.fixture
def vcenter(place: tuple[VCenter, Control]) -> VCenter:
    return place[0]


@pytest.fixture(scope="module")
def rails(place: tuple[VCenter, Control]) -> dict[str, str]:
    """Managed object ids of three port groups on one switch."""
    vcenter, _ = place
    first = an_rdma_switch(vcenter, "corp", HOSTS)
    network = vcenter.host(HOST).parent.parent.parent.networkFolder
    switch = next(one for one in network.childEntity if one.name == "corp")
    names = ("rail-b", "new-a")
    groups = [vim.dvs.DistributedVirtualPortgroup.ConfigSpec(name=n, type="earlyBinding", numPorts=8) for n in names]
    done(switch.AddDVPortgroup_Task(groups))
    return {"rail-a": first, **{one.name: str(one._GetMoId()) for one in switch.portgroup if one.name in names}}


class Lent:
    """One VM, its baseline and what it is given: each method is a step that the engine takes."""

    def __init__(self, vcenter: VCenter, path: str, networks: dict[str, str]) -> None:
        self.vcenter, self.networks = vcenter, networks
        self.baselines, self.provider = MachineBaselineProvider(), AdoptedMachineProvider()
        self.baselines._setting = self.provider._setting = lambda _key: None
        self.path, self.allow_power_off = path, True
        self.terms: Props = {"hosts": [HOST], "several_pvrdma": True}
        self.wanted: Props = {f"adapter.{rail}": True for rail in networks}
        self.baseline: Props = {}
        self.state: Props = {}

    @property
    def theirs(self) -> ExistingVm:
        found = by_instance(self.vcenter, self.baseline["instance"])
        assert found is not None
        return found

    def asked(self) -> Props:
        fields: Props = {"path": self.path, "fields": sorted(self.wanted), "networks": self.networks}
        if not self.baseline:
            self.baseline = self.baselines.create(fields).outs or {}
        elif self.baselines.diff("", self.baseline, fields).changes:
            assert not self.baselines.diff("", self.baseline, fields).replaces
            self.baseline = self.baselines.update("", self.baseline, fields).outs or {}
        own = {
            "path": self.path,
            "wanted": dict(self.wanted),
            "networks": dict(self.networks),
            "terms": dict(self.terms),
        }
        known = {key: self.baseline[key] for key in ("instance", "was_on")}
        return {**own, **known, "before": self.baseline["found"], "allow_power_off": self.allow_power_off}

    def refused(self) -> list[str]:
        """What a preview says."""
        return [one.reason for one in self.provider.check(self.state, self.asked()).failures]

    def up(self) -> None:
        news = self.asked()
        if not self.state:
            self.state = self.provider.create(news).outs or {}
            return
        found = self.provider.diff("", self.state, news)
        assert not found.replaces
        if found.changes:
            self.state = self.provider.update("", self.state, news).outs or {}

    def refresh(self) -> None:
        self.state = self.provider.read("id", self.state).outs or {}

    def adapters(self, group: str) -> int:
        return len(self.theirs.adapters(group))


@pytest.fixture
def lent(
    vcenter: VCenter, rails: dict[str, str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Lent:
    """A VM of the test's own that runs, with PVRDMA on two rails."""
    monkeypatch.setattr(login, "configured_session", lambda _setting: nullcontext(vcenter))
    name = request.node.name
    a_machine(vcenter.host(HOST), name)
    lent = Lent(vcenter, f"DC0/{name}", {rail: rails[rail] for rail in ("rail-a", "rail-b")})
    lent.up()
    return lent


def test_a_machine_that_was_renamed_keeps_its_baseline_when_the_lab_follows(vcenter: VCenter, lent: Lent) -> None:
    before = lent.baseline
    done(lent.theirs.machine.Rename_Task("renamed"))
    lent.wanted["cpus"] = 2

    assert lent.refused() == [], "it is known by what it is, and not by its name"
    lent.path = "DC0/renamed"
    assert lent.refused() == []
    lent.up()

    assert by_name(vcenter, "DC0/renamed").instance == before["instance"] == lent.state["instance"]
    assert lent.baseline["found"] == {**before["found"], "cpus": 1}, "what it had before us, and not what we gave"
    assert lent.theirs.read(lent.wanted, lent.networks) == lent.wanted
    assert lent.theirs.on


def test_a_rail_that_leaves_takes_its_adapter_with_it(lent: Lent, rails: dict[str, str]) -> None:
    del lent.networks["rail-b"], lent.wanted["adapter.rail-b"]
    lent.allow_power_off = False
    (said,) = lent.refused()
    assert lines_naming(said, lent.path, "adapter.rail-b", "machine.allow_power_off: true")
    assert "adapter.rail-a" not in said
    lent.allow_power_off = True
    assert lent.refused() == []

    lent.up()

    assert (lent.adapters(rails["rail-a"]), lent.adapters(rails["rail-b"])) == (1, 0)
    assert lent.theirs.on


def test_an_adapter_moves_to_the_port_group_that_its_rail_has_now(
    lent: Lent, rails: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lent.networks["rail-a"] = rails["new-a"]
    lent.allow_power_off = False
    held = (lent.path, "adapter.rail-a", "machine.allow_power_off: true")
    assert lines_naming("\n".join(lent.refused()), *held)
    with pytest.raises(LabError, check=stating(*held)):
        lent.up()
    lent.allow_power_off = True
    lent.up()

    assert (lent.adapters(rails["rail-a"]), lent.adapters(rails["new-a"])) == (0, 1)
    monkeypatch.setattr(lent.provider, "_allowed", lambda _props: True)
    lent.provider.delete("", lent.state)
    assert [lent.adapters(group) for group in rails.values()] == [0, 0, 0]


def test_an_unknown_port_group_counts_as_the_old_one(lent: Lent) -> None:
    lent.networks.clear()  # as a preview hands them over
    lent.allow_power_off = False

    assert lent.refused() == []


def test_a_field_that_is_no_longer_declared_stays_if_another_user_changed_it(lent: Lent) -> None:
    lent.wanted["cpus"] = 4
    lent.up()
    done(lent.theirs.machine.PowerOffVM_Task())
    done(lent.theirs.machine.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=8)))
    del lent.wanted["cpus"]

    lent.up()

    assert lent.theirs.read(["cpus"], {}) == {"cpus": 8}


def test_other_terms_are_asked_about_and_drift_refuses_nothing(lent: Lent) -> None:
    lent.allow_power_off = False
    theirs = lent.theirs
    done(theirs.machine.PowerOffVM_Task())
    spec = vim.vm.device.VirtualDeviceSpec(operation="remove", device=theirs.adapters(lent.networks["rail-a"])[0])
    done(theirs.machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[spec])))
    done(theirs.machine.PowerOnVM_Task())
    lent.terms["guest_s"] = 1
    assert lent.refused() == [], "drift is told and left"
    lent.terms["host"] = "DC0_C0_H1"
    assert lines_naming("\n".join(lent.refused()), lent.path, HOST, "machine.host", "DC0_C0_H1")


class KilledError(BaseException):
    """In place of the end of a process."""


def test_a_run_that_is_killed_while_it_is_off_is_made_good_by_the_next_one(
    lent: Lent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> list[str]:
        raise KilledError

    lent.wanted["cpus"] = 2
    with monkeypatch.context() as patch:
        patch.setattr(existing, "_runs_again", killed)
        with pytest.raises(KilledError):
            lent.up()
    assert not lent.theirs.on

    lent.up()

    assert lent.theirs.on
    assert not lent.theirs.marked


def test_a_refresh_sees_a_machine_that_a_killed_run_has_left_off(lent: Lent) -> None:
    mark = vim.vm.ConfigSpec(extraConfig=[vim.option.OptionValue(key=MARK, value="true")])
    done(lent.theirs.machine.ReconfigVM_Task(mark))
    done(lent.theirs.machine.PowerOffVM_Task())

    lent.refresh()
    lent.up()

    assert lent.theirs.on
    lent.refresh()
    assert "held_off" not in lent.state


def test_a_vm_that_another_user_powers_off_stays_off(lent: Lent) -> None:
    assert not lent.theirs.marked
    done(lent.theirs.machine.PowerOffVM_Task())
    lent.wanted["cpus"] = 2

    lent.refresh()
    lent.up()

    assert lent.theirs.read(["cpus"], {}) == {"cpus": 2}
    assert not lent.theirs.on


def test_the_error_says_why_a_change_was_refused_and_why_the_vm_does_not_start(
    place: tuple[VCenter, Control], lent: Lent, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent.wanted["cpus"] = 2
    control = place[1]
    control.fault("refuse", method="PowerOnVM_Task", privilege="VirtualMachine.Interact.PowerOn", times=1)

    def off_and_refused(*given: Any) -> None:
        REAL_TURN_OFF(*given)
        raise LabError("other plans")

    monkeypatch.setattr(existing, "turn_off", off_and_refused)
    with pytest.raises(LabError) as said:
        lent.up()

    control.clear()
    assert "other plans" in str(said.value)
    assert lines_naming(str(said.value), "fabric.user", "VirtualMachine.Interact.PowerOn")
    assert lent.theirs.marked, "the next run starts it"
