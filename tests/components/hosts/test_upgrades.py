"""Versions that changed under hosts at work."""

import pytest

from components.hosts.changes import upgrades_refused
from components.hosts.program.step import Step
from components.hosts.program.steps import STEPS
from components.hosts.records import HostRecord
from tests.components.hosts.fleet_hosts import FleetRun, inputs, record
from tests.messages import states

PFS = ("enp5s0", "enp132s0")
DRIVER = {"source": "doca_ofed", "in_use": True, "packages": ["doca-ofed"]}
SECTIONS = {
    "driver.version": lambda version: {"driver": {**DRIVER, "version": version}},
    "gpu.driver.version": lambda version: {"gpu": {"driver": {"source": "packaged", "version": version}}},
    "cluster.bootstrap.version": lambda version: {"kubernetes": {"version": version, "repository": {"url": "u"}}},
    "firmware.version": lambda version: {"firmware_versions": {"enp5s0": version, "enp132s0": version}},
}


def host(name: str, sections: dict[str, object], state: str = "active", **fields: object) -> HostRecord:
    one = record(name, 1, state)
    return one.model_copy(update={"document": {**one.document, **sections}, "fields": {**one.fields, **fields}})


REPORTED = {
    "driver.version": ("driver",),
    "gpu.driver.version": ("gpu_driver",),
    "cluster.bootstrap.version": ("kubernetes_packages",),
    "firmware.version": tuple(f"{pf}.firmware_version" for pf in PFS),
}


def reports(setting: str, version: str) -> dict[str, object]:
    """What a host says that runs this version."""
    return dict.fromkeys(REPORTED[setting], version)


def refused(old: HostRecord, new: HostRecord) -> list[str]:
    return list(upgrades_refused({"gpu01": old}, {"gpu01": new}))


@pytest.mark.parametrize("setting", SECTIONS)
def test_a_changed_version_is_refused_with_the_steps_to_take(setting):
    section = SECTIONS[setting]

    text = refused(host("gpu01", section("1.34.1")), host("gpu01", section("1.35.0"), **reports(setting, "1.35.0")))

    assert len(text) == 1
    assert states(text[0], "gpu01", setting, "1.34.1 => 1.35.0", "refused", "pulumi up --refresh")
    assert "kubectl drain it" in text[0]


@pytest.mark.parametrize("setting", SECTIONS)
def test_a_host_that_was_upgraded_by_hand_and_read_since_continues(setting):
    section, seen = SECTIONS[setting], reports(setting, "1.35.0")

    assert refused(host("gpu01", section("1.34.1"), **seen), host("gpu01", section("1.35.0"), **seen)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (host("gpu01", {"driver": {**DRIVER, "version": "25.07"}}), host("gpu01", {})),
        (host("gpu01", {}), host("gpu01", {"driver": {**DRIVER, "version": "25.07"}}, driver="25.07")),
        (
            host("gpu01", {"driver": {"source": "keep", "version": "24.10"}}, driver="24.10"),
            host("gpu01", {"driver": {"source": "keep", "version": "25.07"}}, driver="25.07"),
        ),
        (
            host("gpu01", {"driver": {"source": "keep", "version": "24.10"}}, driver="24.10"),
            host("gpu01", {"driver": {**DRIVER, "version": "25.07"}}, driver="25.07"),
        ),
    ],
    ids=["no longer asked for", "asked for the first time", "only verified", "first installed by rocelab"],
)
def test_what_is_no_upgrade_under_a_host_at_work_is_allowed(old, new):
    assert refused(old, new) == []


def test_every_step_that_names_a_version_says_which_field_and_how_to_upgrade():
    named = {step.version_setting for step in STEPS if type(step).versions is not Step.versions}

    assert named == SECTIONS.keys()
    assert all(step.upgrade for step in STEPS if step.version_setting)


def test_of_two_rails_only_the_one_with_another_firmware_is_refused():
    old = host("gpu01", {"firmware_versions": {"enp5s0": "16.35.4030", "enp132s0": "20.38.1900"}})
    target = {"enp5s0": "16.35.4030", "enp132s0": "20.39.1002"}
    new = host("gpu01", {"firmware_versions": target}, **{f"{pf}.firmware_version": target[pf] for pf in PFS})

    texts = refused(old, new)

    assert len(texts) == 1
    assert states(texts[0], "gpu01", "firmware.version", "20.38.1900 => 20.39.1002", "refused")
    assert "mstflint -i IMAGE burn" in texts[0]


def test_many_hosts_make_one_text():
    names = [f"gpu{i:03}" for i in range(256)]
    olds = {name: host(name, SECTIONS["cluster.bootstrap.version"]("1.34.1")) for name in names}
    news = {
        name: host(name, SECTIONS["cluster.bootstrap.version"]("1.35.0"), kubernetes_packages="1.35.0 held")
        for name in names
    }

    texts = list(upgrades_refused(olds, news))

    assert len(texts) == 1
    assert states(texts[0], "gpu000, gpu001, gpu002", "253 more", "cluster.bootstrap.version", "1.34.1 => 1.35.0")


def test_the_preview_refuses_it(monkeypatch):
    async def nobody_is_silent(_records: object) -> list[str]:
        return []

    monkeypatch.setattr("components.hosts.fleet._silent", nobody_is_silent)
    old = inputs(host("gpu01", SECTIONS["driver.version"]("24.10")))
    new = inputs(host("gpu01", SECTIONS["driver.version"]("25.07"), driver="25.07"))

    failure, *_ = FleetRun().check(old, new)

    assert failure.property == "versions"
    assert states(failure.reason, "gpu01", "driver.version", "24.10 => 25.07")


def test_a_host_that_comes_back_from_being_drained_is_upgraded_by_hand_too():
    old = host("gpu01", {"driver": {**DRIVER, "version": "24.10"}}, "drained")

    assert refused(old, host("gpu01", {"driver": {**DRIVER, "version": "25.07"}}, driver="25.07"))
