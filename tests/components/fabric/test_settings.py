"""What may be set on a host, by a vCenter that answers as it is told."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from components.fabric import login, settings
from components.fabric.baseline import Baseline, BaselineState, look, unrestored
from components.fabric.settings import HostSettings, SettingsInputs, refusal, restore, warning
from components.fabric.vcenter import client
from components.fabric.vcenter.client import RULESET, Ruleset, VCenter
from components.provider.base import UNKNOWN, ProviderConfig
from stacks.base import LabError
from tests.messages import states, stating


class Host:
    name = "esx1"


class Answering:
    """A vCenter with one host."""

    option_value = ""
    running: tuple[str, ...] = ()
    instance_uuid = "vcenter-1"

    def host(self, _name):
        return Host()

    def vmkernel_names(self, _host):
        return {"vmk0": "10.0.0.1", "vmk3": "192.168.0.24"}

    def management_vmkernels(self, _host):
        return {"vmk0"}

    def option(self, _host, _key):
        return self.option_value

    def running_pvrdma_vms(self, _host):
        return list(self.running)


def wanted(vmknic, **others):
    values = {"firewall_open": False, "vmknic_before": "", "firewall_open_before": False, "allow_management": False}
    return SettingsInputs.model_validate({"host": "esx1", "vmknic": vmknic, **values, **others})


def test_an_adapter_that_is_not_there_is_refused_with_those_that_are():
    assert states(refusal(Answering(), wanted("vmk9")), "esx1", "vmk9", "vmk0, vmk3")


def test_a_management_adapter_is_allowed_with_a_warning_unless_the_lab_knows_of_it():
    assert refusal(Answering(), wanted("vmk0")) == ""
    assert states(warning(Answering(), wanted("vmk0")), "esx1", "vmk0", "management")
    assert warning(Answering(), wanted("vmk0", allow_management=True)) == ""
    assert warning(Answering(), wanted("vmk3")) == ""


def test_the_adapter_of_running_machines_is_not_changed():
    vcenter = Answering()
    vcenter.option_value, vcenter.running = "vmk0", ("gpu01",)

    assert states(refusal(vcenter, wanted("vmk3")), "esx1", "gpu01", "PVRDMA", "power them off", "vmk3")
    vcenter.running = ()
    assert refusal(vcenter, wanted("vmk3")) == "", "nobody runs over it"


class Settable(Answering):
    """One whose settings can be changed, with what was called."""

    def __init__(self, option_value="", *, is_open=True, running=()):
        self.option_value, self.is_open, self.running, self.calls = option_value, is_open, running, []

    def set_option(self, _host, _key, value):
        self.calls.append(("option", value))

    def ruleset(self, _host, _key):
        return Ruleset(enabled=self.is_open, locked=False)

    def set_ruleset(self, _host, _key, *, enabled):
        self.calls.append(("ruleset", enabled))


OURS = wanted("vmk3", firewall_open=True, vmknic_before="", firewall_open_before=False)


def test_what_was_found_is_given_back_the_option_before_the_ruleset():
    vcenter = Settable("vmk3")

    restore(vcenter, OURS)

    assert vcenter.calls == [("option", ""), ("ruleset", False)]


@pytest.mark.parametrize(
    ("props", "said"),
    [
        (OURS, ["Net.PVRDMAVmknic", "''", "close ruleset pvrdma"]),
        (OURS.model_copy(update={"firewall_open_before": True}), ["Net.PVRDMAVmknic", "''"]),
        (OURS.model_copy(update={"vmknic_before": "vmk3"}), ["close ruleset pvrdma"]),
    ],
)
def test_nothing_is_restored_under_another_owner_s_running_vms(props, said):
    vcenter = Settable("vmk3", running=("theirs",))

    with pytest.raises(LabError) as error:
        restore(vcenter, props)

    assert states(str(error.value), "theirs", "PVRDMA", "power them off", *said)
    assert vcenter.calls == []


def test_running_machines_are_no_hindrance_where_nothing_changes_for_them():
    kept = Settable("vmk3", running=("theirs",))
    closed = Settable("vmk3", is_open=False, running=("theirs",))

    restore(kept, OURS.model_copy(update={"vmknic_before": "vmk3", "firewall_open_before": True}))
    restore(closed, OURS.model_copy(update={"vmknic_before": "vmk3"}))

    assert ("option", "") not in kept.calls + closed.calls
    assert kept.calls == []


def test_an_option_that_another_user_changed_since_is_not_restored(monkeypatch):
    warned = []
    monkeypatch.setattr(settings.log, "warn", warned.append)
    vcenter = Settable("vmk7", is_open=False, running=("theirs",))

    restore(vcenter, OURS)

    assert [one for one in vcenter.calls if one[0] == "option"] == []
    assert states(warned[0], "Net.PVRDMAVmknic", "vmk7", "vmk3")


@pytest.mark.parametrize(
    ("option", "is_open", "said"),
    [
        ("vmk3", True, ["Net.PVRDMAVmknic", "'vmk3'", "''", "ruleset pvrdma", "open", "closed"]),
        ("vmk3", False, ["Net.PVRDMAVmknic", "'vmk3'", "''"]),
        ("", False, []),
    ],
)
def test_what_a_host_keeps_of_an_unrecorded_run_is_named(option, is_open, said):
    before = BaselineState(host="esx1", vcenter="vcenter-1", vmknic="", firewall_open=False)

    found = unrestored(before, look(Settable(option, is_open=is_open), "esx1"))

    assert states(found, *said)
    assert ("pvrdma" in found) == is_open
    assert bool(found) == bool(said)


def test_a_baseline_goes_without_a_vcenter_that_could_be_asked(monkeypatch):
    def refused(_config):
        raise LabError("the stack's lab has no fabric")

    monkeypatch.setattr(login, "configured_session", refused)
    before = BaselineState(host="esx1", vcenter="vcenter-1", vmknic="", firewall_open=False)

    asyncio.run(Baseline(ProviderConfig({})).delete(before))


def settings_of(vcenter, monkeypatch):
    monkeypatch.setattr(login, "configured_session", lambda _config: nullcontext(vcenter))
    return HostSettings(ProviderConfig({}))


@pytest.mark.parametrize(
    ("option", "running", "olds", "refused"),
    [
        ("vmk3", ("theirs",), None, True),
        ("vmk3", (), None, False),
        ("", ("theirs",), None, False),
        ("vmk3", ("ours",), wanted("vmk3"), False),
    ],
)
def test_an_adapter_that_is_still_to_be_made_is_refused_where_machines_run_over_another(
    option, running, olds, refused, monkeypatch
):
    resource = settings_of(Settable(option, running=running), monkeypatch)

    failures = asyncio.run(resource.check(olds, wanted(UNKNOWN)))

    assert bool(failures) == refused
    if refused:
        assert states(failures[0].reason, "theirs", "PVRDMA", "power them off", "vmkernel: {existing: vmk3}")


@pytest.mark.parametrize(
    ("found", "asked", "refused"),
    [
        (Ruleset(enabled=False, locked=True), True, True),
        (Ruleset(enabled=False, locked=True), False, False),
        (Ruleset(enabled=True, locked=True), True, False),
        (Ruleset(enabled=False, locked=False), True, False),
    ],
)
def test_a_ruleset_that_the_host_keeps_closed_is_refused_in_the_preview(found, asked, refused, monkeypatch):
    vcenter = Settable("vmk3")
    monkeypatch.setattr(vcenter, "ruleset", lambda _host, _key: found)
    resource = settings_of(vcenter, monkeypatch)

    for vmknic in ("vmk3", UNKNOWN):  # known, and not yet
        failures = asyncio.run(resource.check(None, wanted(vmknic, firewall_open=asked)))

        assert [one.property for one in failures] == (["firewall_open"] if refused else [])
        assert all(states(one.reason, "esx1", "ruleset pvrdma", "closed", "locked") for one in failures)


@pytest.mark.parametrize(("required", "controllable"), [(False, False), (True, True), (True, None)])
def test_a_ruleset_that_the_host_fixes_is_never_tried(required, controllable, monkeypatch):
    rulesets = [SimpleNamespace(key=RULESET, enabled=False, required=required, userControllable=controllable)]
    monkeypatch.setattr(client, "known", lambda _host, _path: rulesets)
    vcenter = VCenter.__new__(VCenter)

    with pytest.raises(LabError, check=stating("esx1", "ruleset pvrdma", "closed")):
        vcenter.set_ruleset(Host(), RULESET, enabled=True)
    vcenter.set_ruleset(Host(), RULESET, enabled=False)  # it is so already


@pytest.mark.parametrize(("name", "found"), [("10.0.0.1", {"vmk0"}), ("esx1", set())])
def test_an_adapter_at_which_the_vcenter_reaches_its_host_carries_management(name, found, monkeypatch):
    told = SimpleNamespace(netConfig=[], vnic=[an_adapter("vmk0", "10.0.0.1"), an_adapter("vmk3", "192.168.0.24")])
    monkeypatch.setattr(client, "known", lambda _host, _path: told)

    assert VCenter.__new__(VCenter).management_vmkernels(SimpleNamespace(name=name)) == found


def an_adapter(device, address):
    return SimpleNamespace(device=device, spec=SimpleNamespace(ip=SimpleNamespace(ipAddress=address)))


def test_a_run_warns_once_and_not_at_each_of_its_steps(monkeypatch):
    said = []
    monkeypatch.setattr(settings.log, "warn", said.append)
    resource = settings_of(Answering(), monkeypatch)

    failures = asyncio.run(resource.check(None, wanted("vmk0")))
    with pytest.raises(AttributeError, match="set_option"):  # it goes on to set, which this vCenter cannot
        asyncio.run(resource.update(wanted("vmk3"), wanted("vmk0")))

    assert (failures, len(said)) == ([], 1)
