"""Quality of service and routing on the host: both forms of tools, drift, undo, and what a host cannot do."""

import copy
from pathlib import Path

import pytest

from components.hosts.document import host_document
from components.hosts.program.host import Host
from components.hosts.program.machine import Done
from components.hosts.program.qos import parse_dcb, parse_mlnx_qos, pause_aspect
from components.hosts.records import target_fields
from stacks.lab import Lab
from tests.components.hosts.host_runs import differing, made, run
from tests.components.hosts.nics import CONFIGFS, DEVICES, NicHost, hardware
from tests.messages import states

RECORDED = Path(__file__).with_name("recorded")
WRITTEN = Path(__file__).with_name("written")


@pytest.fixture(params=["mlnx_qos", "dcb"])
def nic(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NicHost:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return NicHost(tmp_path, request.param)


@pytest.mark.row("A 68b")
def test_both_forms_bring_a_nic_to_the_same_state(nic: NicHost, lab: Lab) -> None:
    nic.ports["enp5s0"]["autoneg"] = "on"
    made(nic, hardware(lab, mode="lossless"))

    for port in nic.ports.values():
        assert port["pfc"] == {3}
        assert (port["map"][26], port["map"][48]) == (3, 6)
        assert (port["autoneg"], port["rx"], port["tx"]) == ("off", "off", "off"), "global pause would stop every class"
    for device in DEVICES.values():
        assert (nic.folder / CONFIGFS / device / "ports/1/default_roce_tos").read_text() == "106"
    if nic.tool == "mlnx_qos":
        assert nic.ports["enp5s0"]["trust"] == "dscp"
        ecn = "/sys/class/net/enp5s0/ecn"
        assert [nic.read(f"{ecn}/roce_{role}/enable/3") for role in ("np", "rp")] == ["1", "1"]
        assert nic.read(f"{ecn}/roce_np/enable/0") == "0"
        assert nic.read(f"{ecn}/roce_np/cnp_dscp") == "48"
        assert nic.read("/sys/class/infiniband/mlx5_0/tc/1/traffic_class") == "Global tclass=106"


def test_a_lossy_lab_switches_flow_control_off(nic: NicHost, lab: Lab) -> None:
    nic.ports["enp5s0"]["pfc"] = {3, 4}

    made(nic, hardware(lab))

    assert nic.ports["enp5s0"]["pfc"] == set()


def test_a_boot_sets_again_what_vanished(nic: NicHost, lab: Lab) -> None:
    document = hardware(lab, mode="lossless")
    made(nic, document)
    for pf in nic.ports:
        nic.ports[pf] = {"trust": "pcp", "map": {}, "pfc": set(), "autoneg": "off", "rx": "on", "tx": "on"}
    for device in DEVICES.values():
        nic.remove(f"/{CONFIGFS}/{device}")

    assert run("boot", nic, document)["failed"] is None

    assert differing(nic, document) == {}


def forget_trust(nic: NicHost) -> None:
    nic.ports["enp5s0"].update(trust="pcp", map={} if nic.tool == "dcb" else nic.ports["enp5s0"]["map"])


DRIFTS = [
    (lambda m: m.ports["enp5s0"]["map"].update({26: 0}), "enp5s0.dscp_map", "26:0 48:6"),
    (lambda m: m.ports["enp132s0"]["pfc"].add(3), "enp132s0.pfc", "3"),
    (lambda m: m.ports["enp132s0"].update(rx="on"), "enp132s0.global_pause", "rx"),
    (
        lambda m: m.write(f"/{CONFIGFS}/mlx5_1/ports/1/default_roce_mode", "IB/RoCE v1"),
        "enp132s0.roce_mode",
        "IB/RoCE v1",
    ),
    (lambda m: m.write(f"/{CONFIGFS}/mlx5_0/ports/1/default_roce_tos", "0"), "enp5s0.roce_tos", "0"),
]


def test_each_drifted_aspect_is_seen_alone_and_put_back(nic: NicHost, lab: Lab) -> None:
    document = hardware(lab)
    made(nic, document)
    for drift, field, found in DRIFTS:
        drift(nic)

        assert differing(nic, document) == {field: found}

        made(nic, document)


def test_lost_trust_is_seen_and_put_back(nic: NicHost, lab: Lab) -> None:
    document = hardware(lab)
    made(nic, document)
    forget_trust(nic)

    assert differing(nic, document)["enp5s0.trust"] == "pcp"

    made(nic, document)


def test_dcbx_of_the_firmware_is_seen_and_given_to_the_operating_system(nic: NicHost, lab: Lab) -> None:
    """`DCBX mode: Firmware controlled` is what a host of a public note prints; with it switches overrule the NIC.

    mlx5's getdcbx has no DCB_CAP_DCBX_HOST then, which `dcb dcbx show` prints as a missing `host` (dcb/dcb_dcbx.c).
    """
    document = hardware(lab)
    made(nic, document)
    nic.ports["enp132s0"]["dcbx"] = "firmware"

    assert differing(nic, document) == {"enp132s0.dcbx": "firmware"}

    made(nic, document)
    assert nic.ports["enp132s0"]["dcbx"] == "os"


@pytest.mark.parametrize(("tool", "after"), [("mlnx_qos", "firmware"), ("dcb", "os")])
def test_undo_gives_dcbx_back_where_the_tool_has_a_word_for_it(tmp_path, lab: Lab, tool: str, after: str) -> None:
    nic = NicHost(tmp_path, tool)
    nic.ports["enp5s0"]["dcbx"] = "firmware"
    document = hardware(lab)
    made(nic, document)

    assert run("undo", nic, document)["failed"] is None
    assert nic.ports["enp5s0"]["dcbx"] == after


def test_a_port_without_dcbx_is_asked_for_nothing(tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    nic = NicHost(tmp_path, "dcb")
    answer = nic.run
    refused = Done(1, "", (RECORDED / "dcb-unsupported.txt").read_text())
    monkeypatch.setattr(
        nic, "run", lambda *words, **how: refused if words[:3] == ("dcb", "-j", "dcbx") else answer(*words, **how)
    )

    facts = made(nic, hardware(lab))["facts"]

    assert states(facts["qos"]["enp5s0"], "dcb", "dcbx")


def test_undo_gives_back_what_the_nic_had(nic: NicHost, lab: Lab) -> None:
    nic.ports["enp132s0"]["pfc"] = {4}
    if nic.tool == "dcb":
        nic.ports["enp132s0"]["map"] = {46: 5, 26: 1}
    before = copy.deepcopy(nic.ports)
    cnp = nic.read("/sys/class/net/enp5s0/ecn/roce_np/cnp_dscp")
    document = hardware(lab, mode="lossless")
    made(nic, document)
    assert nic.ports != before

    assert run("undo", nic, document)["failed"] is None

    assert nic.ports == before
    assert nic.names(f"/{CONFIGFS}") == []
    assert nic.read("/sys/class/net/enp5s0/ecn/roce_np/cnp_dscp") == cnp
    assert nic.read("/sys/class/infiniband/mlx5_0/tc/1/traffic_class") == ""


def test_a_lab_that_no_longer_asks_gives_back_what_the_nic_had(nic: NicHost, lab: Lab) -> None:
    before = copy.deepcopy(nic.ports)
    document = hardware(lab)
    made(nic, document)

    made(nic, {key: value for key, value in document.items() if key != "qos"})

    assert nic.ports == before


def test_the_inbox_form_says_what_its_driver_does_not_show(tmp_path: Path, lab: Lab) -> None:
    facts = made(NicHost(tmp_path, "dcb"), hardware(lab))["facts"]

    assert states(facts["qos"]["enp5s0"], "dcb", "ecn, cnp, traffic_class")


def test_the_inbox_form_sets_notifications_where_the_kernel_shows_them(tmp_path: Path, lab: Lab) -> None:
    nic = NicHost(tmp_path, "dcb")
    folder = "/sys/kernel/debug/mlx5/0000:05:00.0/cc_params"
    nic.file(f"{folder}/np_cnp_dscp", "4\n")
    nic.file(f"{folder}/np_cnp_prio", "6\n")

    made(nic, hardware(lab))

    assert nic.read(f"{folder}/np_cnp_dscp") == "48"


@pytest.mark.parametrize(("tool", "said"), [("", "neither mlnx_qos nor dcb"), ("dcb", "not supported")])
def test_a_host_without_tool_or_support_is_reported_and_gets_everything_else(
    tmp_path: Path, lab: Lab, tool: str, said: str
) -> None:
    nic = NicHost(tmp_path, tool, supported=False)

    failed = run("apply", nic, hardware(lab))["failed"]

    assert failed["step"] == "qos"
    assert said in failed["reason"]
    assert nic.links["enp5s0"]["mtu"] == 9000


def test_soft_roce_gets_what_rdma_cm_marks_and_claims_no_more(tmp_path: Path, lab: Lab) -> None:
    given = lab.model_dump(mode="json") | {"qos": {}}
    document = host_document(Lab.model_validate(given), lab.nodes[0])
    nic = NicHost(tmp_path, "dcb")
    for bus in ("0000:05", "0000:84"):
        link = tmp_path / f"sys/devices/{bus}:00.0/driver"
        link.unlink()
        link.symlink_to(tmp_path / "sys/bus/pci/drivers/igb")
        for device in (tmp_path / f"sys/devices/{bus}:00.0/infiniband").iterdir():
            device.rmdir()

    result = made(nic, document)

    assert [field for field in target_fields(document) if field.startswith("enp5s0")][-3:] == [
        *("enp5s0.global_pause", "enp5s0.roce_mode", "enp5s0.roce_tos")
    ]
    assert states(result["facts"]["qos"]["enp5s0"], "soft-RoCE", "rdma_cm")
    assert not [line for line in nic.commands if line.startswith(("dcb", "mlnx_qos"))]
    assert run("undo", nic, document)["failed"] is None
    assert nic.names(f"/{CONFIGFS}") == []


def test_what_mlnx_qos_and_dcb_print_is_understood() -> None:
    seen = parse_mlnx_qos((WRITTEN / "mlnx_qos.txt").read_text())

    assert seen["trust"] == "pcp"
    assert seen["pfc"] == "4"
    assert "26:5" in seen["dscp_map"].split()
    assert len(seen["dscp_map"].split()) == 64
    assert parse_dcb((WRITTEN / "dcb-pfc.json").read_text(), (WRITTEN / "dcb-app.json").read_text()) == {
        "trust": "dscp",
        "dscp_map": "26:3 48:6",
        "pfc": "3",
    }
    assert parse_dcb("nonsense", "")["trust"] == "unknown"


def test_what_ethtool_prints_is_understood(tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    nic = NicHost(tmp_path, "dcb")
    printed = (RECORDED / "ethtool-pause.txt").read_text()
    monkeypatch.setattr(nic, "run", lambda *_words, **_: Done(0, printed, ""))

    assert pause_aspect(Host(nic, hardware(lab), b""), "enp5s0") == {"global_pause": "autoneg rx tx"}
