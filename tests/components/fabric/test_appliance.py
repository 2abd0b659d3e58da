"""Bitfusion servers: what they are told, what their OVA would not take, and how they are placed."""

import copy
import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.cli.app import main
from components.fabric import appliances
from components.fabric.appliances import checked_descriptor, faults_of, properties_of, spelled_out
from components.fabric.fabric import VsphereFabric, VsphereFabricArgs
from components.fabric.ovf import Descriptor, parse_descriptor, read_descriptor
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.fabric.lookups import CANARY, LOOKUPS
from tests.components.fabric.ova import a_bitfusion, descriptor, stub_ova
from tests.conftest import ROOT
from tests.engine import Engine, Recorded
from tests.labs import lab_of, section_of
from tests.messages import states, stating

Edit = Callable[[dict[str, Any]], object]
LAB = section_of("Pulumi.lab-pvrdma.yaml")


def lab_with(ova: Path, *edits: Edit) -> Lab:
    content = copy.deepcopy(LAB)
    content["bitfusion"] = a_bitfusion(ova)
    for edit in edits:
        edit(content["bitfusion"])
    return lab_of(content)


@pytest.fixture(scope="module")
def ova(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub_ova(tmp_path_factory.mktemp("ova") / "stub.ova")


@pytest.fixture
def lab(ova: Path) -> Lab:
    return lab_with(ova)


def told(lab: Lab, number: int) -> dict[str, str]:
    assert lab.bitfusion is not None
    assert lab.fabric is not None
    return properties_of(lab.bitfusion, lab.bitfusion.servers[number], lab.fabric)


@pytest.mark.row("C 171-181")
def test_the_first_server_gets_static_addresses_and_the_vcenter(lab: Lab) -> None:
    assert told(lab, 0) == {
        "licence": "True",
        "hostname": "bitfusion01",
        "adapter1.ip": "172.16.7.21",
        "adapter1.prefix": "24",
        "adapter2.ip": "192.168.0.231",
        "adapter2.prefix": "24",
        "adapter2.mtu": "9000",
        "gateway": "172.16.7.1",
        "dns": "172.16.7.2,172.16.7.3",
        "vcenter.address": "127.0.12.201",
        "vcenter.user": "rocelab",
    }


@pytest.mark.row("C 168, 185")
def test_later_servers_join_the_first_and_know_no_account(lab: Lab) -> None:
    later = told(lab, 1)

    assert later["join"] == "172.16.7.21"
    assert not [key for key in later if key.startswith("vcenter")]


def test_an_ova_that_takes_addresses_with_their_prefix_gets_them_so(ova: Path) -> None:
    lab = lab_with(ova, lambda one: one["keys"].pop("prefix_length"))

    assert told(lab, 0)["adapter2.ip"] == "192.168.0.231/24"


def test_the_stub_accepts_every_argument(lab: Lab, ova: Path) -> None:
    for number in (0, 1):
        assert list(faults_of(told(lab, number), "vcenter.password", read_descriptor(ova))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"colour": "red"}, ["colour", "adapter1.ip"]),
        ({"version": "9"}, ["version", "fixed"]),
        ({"gateway": "router"}, ["gateway", "'router'", "IPv4"]),
        ({"licence": "yes"}, ["licence", "'yes'", "True", "False"]),
        ({"adapter2.mtu": "jumbo"}, ["adapter2.mtu", "'jumbo'", "uint16"]),
        ({"hostname": ""}, ["hostname", "bitfusion.keys", "bitfusion.properties"]),
    ],
)
def test_what_the_ova_would_not_take_is_named_before_it_is_deployed(lab: Lab, ova: Path, change, said) -> None:
    faults = list(faults_of({**told(lab, 0), **change}, None, read_descriptor(ova)))

    assert len(faults) == 1
    assert states(faults[0], *said)


def test_an_ova_with_several_networks_is_refused_because_their_order_is_unknown(lab: Lab) -> None:
    several = parse_descriptor(descriptor(("Management", "Data")).encode(), "x.ovf")

    [fault] = faults_of(told(lab, 0), None, several)
    assert states(fault, "2 networks", "Management, Data")


def hardware_of(systems: str, guest: str) -> Descriptor:
    """Of the stub with another hardware, and with its guest in vSphere's words."""
    section = f'<OperatingSystemSection ovf:id="1" xmlns:vmw="http://www.vmware.com/schema/ovf" vmw:osType="{guest}">'
    text = descriptor().replace("vmx-17", systems).replace('<OperatingSystemSection ovf:id="101">', section)
    return parse_descriptor(text.encode(), "x.ovf")


@pytest.mark.parametrize(
    ("systems", "guest", "said"),
    [
        ("vmx-11", "ubuntu64Guest", ["hardware 11", "PVRDMA", 13]),
        ("vmx-13", "windows9Server64Guest", ["windows9Server64Guest", "PVRDMA", "64-bit Linux"]),
        ("vmx-13", "ubuntuGuest", ["ubuntuGuest", "PVRDMA", "64-bit Linux"]),
    ],
)
def test_an_ova_that_could_have_no_pvrdma_is_refused_in_the_preview(
    lab: Lab, systems: str, guest: str, said: list[str]
) -> None:
    faults = list(faults_of(told(lab, 0), None, hardware_of(systems, guest)))

    assert len(faults) == 1
    assert states(faults[0], *said)


@pytest.mark.parametrize(
    ("systems", "guest"),
    [("vmx-10 vmx-13", "vmwarePhoton64Guest"), ("virtualbox-2.2", ""), ("vmx-19", "debian10_64Guest")],
)
def test_an_ova_that_could_have_pvrdma_or_does_not_report_it_passes(lab: Lab, systems: str, guest: str) -> None:
    assert list(faults_of(told(lab, 0), None, hardware_of(systems, guest))) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<a", "is not XML"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "is not XML: unknown encoding"),
        (b'<?xml version="1.0" encoding="gb2312"?><a/>', "is not XML: multi-byte encodings"),
        (b"<a/>", "not an OVF 1.x envelope"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "defines XML entities"),
    ],
)
def test_what_is_no_descriptor_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.ovf").write_bytes(content)

    with pytest.raises(LabError, match=said):
        read_descriptor(tmp_path / "x.ovf")


def test_what_is_no_ova_and_another_file_than_the_named_one_are_refused(tmp_path: Path, ova: Path) -> None:
    (tmp_path / "x.ova").write_bytes(b"not a tar")
    digest = hashlib.sha256(ova.read_bytes()).hexdigest()
    right, wrong = (lab_with(ova, lambda one, sum_=sum_: one.update(sha256=sum_)) for sum_ in (digest, "0" * 64))
    assert right.bitfusion
    assert wrong.bitfusion

    with pytest.raises(LabError, check=stating("x.ova", "tar")):
        read_descriptor(tmp_path / "x.ova")
    with pytest.raises(LabError, check=stating(digest, "0" * 64)):
        checked_descriptor(wrong.bitfusion, ROOT)
    assert checked_descriptor(right.bitfusion, ROOT).networks == ("Management",)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_an_ova_that_is_cut_off_is_bad_input(
    tmp_path: Path, ova: Path, compress: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = compress(ova.read_bytes()[:1500])
    (tmp_path / "x.ova").write_bytes(whole if compress is bytes else whole[: len(whole) // 2])

    assert main(["ovf", str(tmp_path / "x.ova")]) == 2
    assert states(capsys.readouterr().err, tmp_path / "x.ova", "cut off", "copy it again")


def test_its_names_are_listed_for_who_writes_the_lab(ova: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ovf", str(ova)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "networks: Management"
    assert [states(line, "string", "required") for line in lines if line.startswith("hostname: ")] == [True]
    assert [states(line, "string", "fixed") for line in lines if line.startswith("version: ")] == [True]
    assert main(["ovf", f"{ova}.none"]) == 2


def seen_of(lab: Lab) -> Recorded:
    fabric = lab.fabric
    assert fabric is not None

    def program() -> None:
        VsphereFabric("fabric", VsphereFabricArgs(lab=lab, fabric=fabric, password=pulumi.Output.secret(CANARY)))

    def answer(kind: str, _name: str, _inputs: Any) -> dict[str, Any]:
        return {"device": "vmnic4"} if kind.endswith(":Uplink") else {}

    return Engine(answer, LOOKUPS).run(program)


@pytest.fixture
def seen(lab: Lab) -> Recorded:
    return seen_of(lab)


def with_two_rails(ova: Path) -> Lab:
    """Each on a switch of its own, and the first server on both; a cluster's plug-in would not tell them apart."""
    content = copy.deepcopy(LAB)
    del content["cluster"], content["benchmarks"]
    content["rails"].append(
        copy.deepcopy(content["rails"][0])
        | {"name": "second", "host_subnet": "192.168.1.0/24", "resource_name": "second", "network_name": "second"}
    )
    hosts = [{"name": host["name"]} for host in content["fabric"]["switches"][0]["hosts"]]
    content["fabric"]["switches"].append(
        {"name": "roce2", "rail": "second", "uplink": {"name": "vmnic5"}, "port_group": "second", "hosts": hosts}
    )
    content["bitfusion"] = a_bitfusion(ova)
    content["bitfusion"]["servers"][0]["adapters"].append({"rail": "second", "address": "192.168.1.231/24"})
    return lab_of(content)


def test_a_server_with_two_pvrdma_adapters_has_both_and_a_warning_names_the_conflict(
    ova: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(appliances.pulumi.log, "warn", said.append)

    seen = seen_of(with_two_rails(ova))

    first, second = (seen[f"fabric-bitfusion-bitfusion0{number}"].inputs for number in (1, 2))
    assert [one["adapterType"] for one in first["networkInterfaces"]] == ["vmxnet3", *["vmxnet3vrdma"] * 2]
    assert len(second["networkInterfaces"]) == 2
    [warned] = [one for one in said if "KB 328676" in one]
    assert states(warned, "bitfusion01", "2 PVRDMA adapters", "KB 328676")


def test_all_adapters_are_there_before_power_on_and_the_first_is_management(seen: Recorded) -> None:
    first = seen["fabric-bitfusion-bitfusion01"].inputs

    assert [one["adapterType"] for one in first["networkInterfaces"]] == ["vmxnet3", "vmxnet3vrdma"]
    assert first["ovfDeploy"]["ovfNetworkMap"] == {"Management": "network-1"}
    assert first["memory"] == first["memoryReservation"] == 16384
    assert first["memoryReservationLockedToMax"] is True


def test_gpus_that_are_passed_through_to_a_server_by_hand_stay(seen: Recorded) -> None:
    assert "pciDeviceIds" in seen["fabric-bitfusion-bitfusion01"].ignored


def test_only_the_first_server_gets_the_password_and_as_a_secret(seen: Recorded) -> None:
    first, second = (seen[f"fabric-bitfusion-bitfusion0{number}"] for number in (1, 2))

    assert first.inputs["vapp"]["properties"]["vcenter.password"] == CANARY
    assert "vapp" in first.secrets
    assert CANARY not in repr(second.inputs)
    assert "fabric-bitfusion-bitfusion01" in second.depends_on


def test_a_server_waits_for_the_preflight_and_for_the_settings_of_its_own_host(seen: Recorded) -> None:
    before = seen["fabric-bitfusion-bitfusion02"].depends_on

    assert "fabric-preflight" in before
    assert {name for name in before if name.endswith("-settings")} == {"fabric-DC0_C0_H1-settings"}


@pytest.mark.row("C 166-168")
@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda one: one["servers"][0]["adapters"].append(dict(one["servers"][0]["adapters"][0])),
            ["two adapters", "pvrdma"],
        ),
        (lambda one: one.update(management_network="pvrdma"), ["bitfusion.management_network", "PVRDMA"]),
        (
            lambda one: one["servers"][0].update(host="DC0_C0_H9"),
            ["DC0_C0_H9", "roce", "pvrdma"],
        ),
        (lambda one: one["servers"][0]["adapters"][0].update(rail="b"), ["rail", "b", "fabric.switches"]),
        (
            lambda one: one["servers"][0]["adapters"][0].update(address="10.0.0.1/24"),
            ["10.0.0.1/24", "host_subnet 192.168.0.0/24"],
        ),
        (
            lambda one: one["servers"][0]["adapters"][0].update(address="192.168.0.31/24"),
            ["192.168.0.31", "nodes[0].pfs[0].address"],
        ),
        (lambda one: one["servers"][1].update(name="bitfusion01"), ["bitfusion.servers[1].name", "bitfusion01"]),
        (lambda one: one["servers"][0].update(adapters=[]), ["bitfusion.servers[0].adapters"]),
        (lambda one: one["keys"].update(address="ip"), ["address", "ip", "{adapter}"]),
    ],
)
def test_a_wrong_value_is_refused_with_path_and_remedy(ova: Path, edit: Edit, said: list[str]) -> None:
    with pytest.raises(LabError) as refused:
        lab_with(ova, edit)

    assert states(str(refused.value), *said)


def test_properties_are_written_as_the_provider_reads_them_back() -> None:
    asked = descriptor().replace('ovf:key="dns"', 'ovf:key="dns" ovf:value="172.16.7.2"')

    written = spelled_out({"dns": "172.16.7.2", "gateway": "172.16.7.1"}, parse_descriptor(asked.encode(), "x.ovf"))

    assert "dns" not in written, "a default is left out when it is read"
    assert (written["gateway"], written["join"]) == ("172.16.7.1", " ")
    assert "version" not in written, "nobody may set it"
