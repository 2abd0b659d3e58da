"""The uplink of a host that stands: what changed about it, and when it may change."""

import asyncio
from contextlib import contextmanager

import pytest
from pyVmomi import vim

from components.fabric import login
from components.fabric.uplink import Uplink, UplinkInputs, UplinkState, lost, refusal
from components.fabric.vcenter import client
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.nics import Nic
from components.provider.base import ProviderConfig
from stacks.base import LabError
from tests.messages import states

FOURTH = Nic(name="vmnic4", mac="ec:0d:9a:00:00:00", driver="nmlx5_core", speed_mbit=100_000, rdma_device="vmrdma0")
FIFTH = Nic(name="vmnic5", mac="ec:0d:9a:00:00:01", driver="nmlx5_core", speed_mbit=100_000, rdma_device="vmrdma1")
DECLARED = {"host": "esx1", "switch": "rails", "rdma": True}
ASKED = UplinkInputs.model_validate({**DECLARED, "choice": {"rdma_device": "vmrdma0"}})
OTHER = UplinkInputs.model_validate({**DECLARED, "choice": {"rdma_device": "vmrdma1"}})
STANDS = UplinkState(**dict(ASKED), device="vmnic4", mac=FOURTH.mac)


class Answering:
    """A vCenter with one host, whose NICs are on the switch as told."""

    def __init__(self, *on_switch, running=(), nics=(FOURTH, FIFTH)):
        self.on_switch, self.running, self.there = on_switch, running, nics

    def host(self, name):
        return name

    def nics(self, _host):
        return list(self.there)

    def uplinks(self, host, switch):
        return self.on_switch if (host, switch) == ("esx1", "rails") else ()

    def running_pvrdma_vms(self, _host):
        return list(self.running)


def uplink(monkeypatch, there):
    @contextmanager
    def entered(_config):
        yield there

    monkeypatch.setattr(login, "configured_session", entered)
    return Uplink(ProviderConfig({}))


def read(monkeypatch, there):
    return asyncio.run(uplink(monkeypatch, there).read(STANDS))


@pytest.mark.parametrize("on_switch", [("vmnic4",), ()])
def test_an_uplink_that_is_where_it_belongs_or_on_no_switch_yet_is_kept(on_switch):
    assert lost(Answering(*on_switch), STANDS) == ""


@pytest.mark.parametrize(
    ("on_switch", "said"),
    [(("vmnic5",), "vmnic5"), (("vmnic4", "vmnic5"), "vmnic4, vmnic5")],
)
def test_a_nic_that_another_user_replaced_is_drift(monkeypatch, on_switch, said):
    state = read(monkeypatch, Answering(*on_switch))

    assert states(state.lost, "rails", said)
    assert state == STANDS.model_copy(update={"lost": state.lost}), "the answer that stands is kept"


def test_a_nic_with_another_address_is_seen():
    assert states(
        lost(Answering("vmnic4"), STANDS.model_copy(update={"mac": "ec:0d:9a:00:00:99"})), "vmnic4", FOURTH.mac
    )


def test_a_nic_that_went_to_another_switch_is_seen(monkeypatch):
    taken = Nic(**{key: getattr(FOURTH, key) for key in FOURTH.__slots__} | {"switch": "vSwitch0"})

    state = read(monkeypatch, Answering("vmnic5", nics=(taken, FIFTH)))

    assert states(state.lost, "vmnic4", "vSwitch0", "in use")


def test_a_nic_that_was_moved_by_hand_stays_under_running_vms(monkeypatch):
    moved = Answering("vmnic5", running=("gpu01",))
    state = read(monkeypatch, moved)

    with pytest.raises(LabError) as error:
        asyncio.run(uplink(monkeypatch, moved).diff(state, ASKED))

    assert states(str(error.value), "esx1", "rails", "vmnic5", "gpu01", "PVRDMA", "power them off", "vmnic4")
    assert asyncio.run(uplink(monkeypatch, Answering("vmnic5")).diff(state, ASKED)) == ["lost"], "nobody runs over it"


def test_a_lab_that_takes_over_what_was_moved_by_hand_changes_nothing_under_running_machines():
    assert refusal(Answering("vmnic5", running=("gpu01",)), STANDS, OTHER) == ""


def test_another_choice_is_refused_under_running_machines_and_so_is_one_whose_switch_is_not_found():
    for on_switch in (("vmnic4",), ()):
        said = refusal(Answering(*on_switch, running=("gpu01",)), STANDS, OTHER)

        assert states(said, "rails", "vmnic4", "gpu01")


def test_another_host_is_another_uplink():
    assert refusal(Answering("vmnic4", running=("gpu01",)), STANDS, OTHER.model_copy(update={"host": "esx2"})) == ""


def test_the_nics_of_a_host_are_read_from_the_switch_of_that_name_alone(monkeypatch):
    host, other = vim.HostSystem("host-1"), vim.HostSystem("host-2")
    rails, nvme = vim.DistributedVirtualSwitch("dvs-1"), vim.DistributedVirtualSwitch("dvs-2")
    hosts = {
        rails: [a_member(host, "vmnic4", "vmnic5"), a_member(other, "vmnic6")],
        nvme: [a_member(host, "vmnic7")],
    }
    rows = [
        (rails, {"name": "rails", "config.host": hosts[rails]}),
        (nvme, {"name": "nvme", "config.host": hosts[nvme]}),
    ]
    monkeypatch.setattr(client, "collect_all", lambda *_: rows)

    class Told(VCenter):
        def __init__(self):
            self.content = None

    assert Told().uplinks(host, "rails") == ("vmnic4", "vmnic5")
    assert Told().uplinks(host, "none") == ()


def a_member(host, *nics):
    backing = vim.dvs.HostMember.PnicBacking(pnicSpec=[vim.dvs.HostMember.PnicSpec(pnicDevice=one) for one in nics])
    return vim.dvs.HostMember(config=vim.dvs.HostMember.ConfigInfo(host=host, backing=backing))
