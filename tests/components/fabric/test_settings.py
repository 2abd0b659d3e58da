"""What may be set on a host, by a vCenter that answers as it is told."""

import pytest
from pulumi.dynamic import ConfigureRequest

from components.fabric import login, settings
from components.fabric.settings import SettingsProvider, refusal, warning


class Host:
    name = "esx1"


class Answering:
    """A vCenter with one host."""

    option_value = ""
    running: tuple[str, ...] = ()

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
    return {"host": "esx1", "vmknic": vmknic, **others}


def test_an_adapter_that_is_not_there_is_refused_with_those_that_are():
    assert refusal(Answering(), wanted("vmk9")) == "esx1 has no vmkernel adapter vmk9; it has vmk0, vmk3"


def test_a_management_adapter_is_allowed_with_a_warning_unless_the_lab_knows_of_it():
    assert refusal(Answering(), wanted("vmk0")) == ""
    assert "vmk0 carries management too" in warning(Answering(), wanted("vmk0"))
    assert warning(Answering(), wanted("vmk0", allow_management=True)) == ""
    assert warning(Answering(), wanted("vmk3")) == ""


def test_the_adapter_of_running_machines_is_not_changed():
    vcenter = Answering()
    vcenter.option_value, vcenter.running = "vmk0", ("gpu01",)

    assert "gpu01 run with PVRDMA over it: power them off before it becomes vmk3" in refusal(vcenter, wanted("vmk3"))
    vcenter.running = ()
    assert refusal(vcenter, wanted("vmk3")) == "", "nobody runs over it"


def test_a_run_warns_once_and_not_at_each_of_its_steps(monkeypatch):
    said = []

    class Entered:
        def __enter__(self):
            return Answering()

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(login, "configured_session", lambda _setting: Entered())
    monkeypatch.setattr(settings.pulumi.log, "warn", said.append)
    provider = SettingsProvider()
    provider.configure(ConfigureRequest(type("Config", (), {"get": staticmethod({}.get)})()))

    answer = provider.check({}, wanted("vmk0", firewall_open=False))
    with pytest.raises(AttributeError, match="set_option"):  # it goes on to set, which this vCenter cannot
        provider.update("id", {}, wanted("vmk0", firewall_open=False))

    assert (answer.failures, len(said)) == ([], 1)
