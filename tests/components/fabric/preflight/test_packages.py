"""What a host said of its packages holds until it restarts, gets another build or goes into maintenance mode."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from pyVmomi import vim, vmodl

from components.fabric.inspection import InspectionInputs, look
from components.fabric.preflight import survey as preflight
from components.fabric.preflight.facts import FabricFacts, HostFacts, HostPackages
from components.fabric.preflight.survey import packages_of
from stacks.base import LabError
from tests.labs import lab_of, section_of

BOOTED = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
BEFORE = HostPackages(driver="NVIDIA-driver 535.1", build="22380479", booted=BOOTED.isoformat())
THERE = [
    SimpleNamespace(vendor="VMW", name="nmlx5-core", version="4.23"),
    SimpleNamespace(vendor="NVIDIA", name="nmlx5-rdma", version="4.23"),
    SimpleNamespace(vendor="NVD", name="NVIDIA-driver", version="535.2"),
]


class Images:
    """An image manager that counts who asks it."""

    def __init__(self, answer=THERE):
        self.answer, self.asked = answer, 0

    def FetchSoftwarePackages(self):  # noqa: N802  # the API's name
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def a_host(images, *, build="22380479", booted=BOOTED, maintenance=False):
    return {
        "config.product": SimpleNamespace(build=build),
        "runtime.bootTime": booted,
        "runtime.inMaintenanceMode": maintenance,
        "configManager.imageConfigManager": images,
    }


@pytest.mark.parametrize("seconds", [0, 59, -59])
def test_a_host_that_runs_on_is_not_asked_again_and_what_is_kept_stays_to_the_letter(seconds):
    images = Images()

    found = packages_of(None, "esx1", a_host(images, booted=BOOTED + timedelta(seconds=seconds)), BEFORE)

    assert (found, images.asked) == (BEFORE, 0)


@pytest.mark.parametrize(
    ("changed", "before"),
    [
        ({}, None),
        ({"booted": BOOTED + timedelta(minutes=3)}, BEFORE),
        ({"booted": None}, BEFORE),
        ({"build": "22380480"}, BEFORE),
        ({"maintenance": True}, BEFORE),
        ({}, replace(BEFORE, driver="")),
        ({}, replace(BEFORE, booted="")),
        ({}, replace(BEFORE, booted="yesterday")),
        ({}, replace(BEFORE, booted="2026-11-20T08:00:00")),
    ],
)
def test_a_host_is_asked_where_its_packages_may_be_others(changed, before):
    images = Images()

    found = packages_of(None, "esx1", a_host(images, **changed), before)

    assert (found.driver, images.asked) == ("NVIDIA-driver 535.2", 1)


@pytest.mark.parametrize("answer", [[], vim.fault.NoPermission(), TimeoutError()])
def test_no_driver_and_no_answer_are_not_kept(monkeypatch, answer):
    def refused(*_):
        raise LabError("esx1: no privilege")

    monkeypatch.setattr(preflight, "esxcli", refused)

    assert not packages_of(None, "esx1", a_host(Images(answer)), None).lasting


def test_without_the_privilege_esxcli_lists_them(monkeypatch):
    rows = [{"Vendor": "NVIDIA", "Name": "NVIDIA-driver", "Version": "535.3"}, {"Vendor": "VMW", "Name": "x"}]
    monkeypatch.setattr(preflight, "esxcli", lambda *_: rows)

    found = packages_of(None, "esx1", a_host(Images(vmodl.MethodFault())), None)

    assert (found.driver, found.lasting) == ("NVIDIA-driver 535.3", True)


def test_what_is_kept_of_many_hosts_is_small() -> None:
    driver = packages_of(None, "esx1", a_host(Images([replaced(THERE[2], "v" * 5000)])), None)
    state = InspectionInputs(datacenter="dc", cluster="c", packages={f"esx{number}": driver for number in range(64)})

    assert len(json.dumps(state.plain())) < 64 * 400


def replaced(package, version):
    return SimpleNamespace(vendor=package.vendor, name=package.name, version=version)


def test_a_run_keeps_what_it_read_and_gives_it_to_the_next(monkeypatch):
    content = section_of("Pulumi.lab-pvrdma.yaml")
    lab = lab_of(content)
    seen = []

    def survey(_vcenter, scope):
        seen.append(scope.packages)
        hosts = {name: HostFacts(name=name, connected=False, packages=BEFORE) for name in scope.hosts[:1]}
        return FabricFacts(
            hosts=hosts | {"other": HostFacts(name="other", packages=HostPackages(driver=""))}, switches={}
        )

    monkeypatch.setattr("components.fabric.inspection.survey", survey)
    first = look(lab, lab.fabric, None, InspectionInputs(datacenter="dc", cluster="c"))
    look(lab, lab.fabric, None, first)

    assert seen[0] == {}
    assert list(seen[1].values()) == [BEFORE]
    assert first.packages.keys() == seen[1].keys()
