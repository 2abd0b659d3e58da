"""The text of each system, byte by byte, and what must hold in all of them."""

import json
import os
import re
from itertools import takewhile

import pytest
import yaml

from components.cli.app import main
from components.switches.os import dialect_of
from components.switches.settings import cables_of
from components.switches.text import switch_text
from tests.components.switches.labs import REFERENCE, switch_entry, with_switches
from tests.components.switches.systems import PORTS
from tests.conftest import ROOT
from tests.messages import states

GOLDEN = ROOT / "tests" / "golden" / "switches"
SEED_LINE = "traffic-class 3 congestion-control ecn minimum-absolute 150 maximum-absolute 1500"


def text_of(system: str, mode: str | None = "lossy", **changes: object) -> str:
    lab = with_switches(switch_entry(system, **changes), qos={"mode": mode} if mode else None)
    return switch_text(lab, lab.switches[0])


@pytest.mark.row("A 14, 48")
@pytest.mark.parametrize("mode", ["lossy", "lossless"])
@pytest.mark.parametrize("system", PORTS)
def test_the_text_is_the_golden_one(system: str, mode: str) -> None:
    text = text_of(system, mode)
    path = GOLDEN / f"{system}-{mode}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert text == path.read_text()


@pytest.mark.row("A 41", "A 55")
def test_onyx_marks_with_the_very_line_of_the_guide() -> None:
    lines = text_of("onyx").splitlines()

    assert [line for line in lines if "congestion-control" in line and not line.startswith("#")] == [
        f"interface ethernet {port} {SEED_LINE}" for port in PORTS["onyx"]
    ]


def test_onyx_gets_a_code_point_only_if_it_differs_from_onyx_s_default() -> None:
    lab = with_switches(switch_entry("onyx"), qos={"dscp": 34, "cnp_dscp": 48})
    text = switch_text(lab, lab.switches[0])

    assert text.count("qos map dscp 34 to switch-priority 3") == 4
    assert "qos map dscp 48" not in text


@pytest.mark.parametrize("system", PORTS)
def test_switch_wide_commands_are_a_comment_unless_they_are_allowed(system: str) -> None:
    withheld, allowed = (set(text_of(system, "lossless", allow_global=each).splitlines()) for each in (False, True))
    comment = f"{dialect_of(with_switches(switch_entry(system)).switches[0]).comment}   "

    shared = {line for line in allowed - withheld if not line.startswith(comment[0])}

    assert bool(shared) == (system != "sonic"), "SONiC's own template has what concerns the whole switch"
    assert {f"{comment}{line}" for line in shared} <= withheld


@pytest.mark.parametrize("system", PORTS)
def test_a_lab_without_quality_of_service_leaves_it_alone(system: str) -> None:
    text = text_of(system, None)

    assert "QoS not configured" in text
    given = "\n".join(line for line in text.splitlines() if line[0] not in "#!")
    assert not any(word in given for word in ("ecn", "qos", "traffic-class", "WRED", "tx-queue", "pfc", "priority"))


@pytest.mark.parametrize("system", PORTS)
def test_a_lossy_port_pauses_for_nothing(system: str) -> None:
    """What a port gets for pausing, itself and in the profiles that ports refer to, is in no lossy text."""
    lab = with_switches(switch_entry(system), qos={"mode": "lossy"})
    dialect, cable = dialect_of(lab.switches[0]), cables_of(lab, lab.switches[0])[0]

    def lines(pfc: dict[int, bool]) -> set[str]:
        settings = cable.settings.model_copy(update={"pfc": pfc})
        of_port = dialect.port_lines("lab", cable.port, settings, frozenset({"pfc_3"}))
        return {*of_port, *dialect.shared_lines("lab", [settings])}

    pausing = lines({3: True}) - lines({})

    assert pausing or lab.switches[0].LOSSLESS_IS_GLOBAL
    assert pausing & set(text_of(system, "lossy").splitlines()) == set()
    assert pausing <= set(text_of(system, "lossless").splitlines())


@pytest.mark.parametrize(
    ("system", "names"),
    [
        ("onyx", ["watchdog", "switch-wide"]),
        ("nvue", ["5.6", "nv show qos traffic-pool", "nv set qos traffic-pool default-lossless memory-percent 50"]),
        ("sonic", ["tc_to_pg_map", "BUFFER_PG", "tc_to_queue_map", "pfc_to_queue_map", "pfcwd_sw_enable"]),
        ("eos", ["watchdog", "bandwidth guaranteed"]),
    ],
)
def test_a_lossless_text_begins_with_what_the_switch_must_have(system: str, names: list[str]) -> None:
    """A port whose priority pauses without a lossless buffer still drops, whoever sends the commands."""
    lines = text_of(system, "lossless").splitlines()
    comments = list(takewhile(lambda line: line.startswith(lines[0][0]), lines))

    assert "before you paste this" in comments[1]
    assert [name for name in names if name not in "\n".join(comments)] == []
    assert "before you paste this" not in text_of(system, "lossy")


def test_sonic_s_watchdog_follows_pfc_on_each_port_and_a_lossy_port_keeps_the_one_that_it_has() -> None:
    """pfcwd skips a port without pfc_enable: sonic-utilities, pfcwd/main.py, verify_pfc_enable_status_per_port. A lossy
    port may pause another priority, which its watchdog guards.
    """
    lines = text_of("sonic", "lossless").splitlines()

    for port in PORTS["sonic"]:
        [start] = [number for number, line in enumerate(lines) if f"pfcwd start --action drop {port} 400" in line]
        assert lines.index(f"sudo config interface pfc priority {port} 3 on") < start
    assert not any(word in text_of("sonic", "lossy") for word in ("pfcwd start", "PFC_WD"))


def test_a_text_whose_switch_wide_lines_bring_the_pool_asks_for_none() -> None:
    assert "default-lossless" in text_of("nvue", "lossless")
    assert "default-lossless" not in text_of("nvue", "lossless", allow_global=True)


def test_a_text_that_must_not_be_saved_still_says_how_to_confirm_it() -> None:
    """A revision that nobody confirms is taken back by the switch. From 5.9 on, apply also saves (NVUE reference,
    Show Commands, System Config).
    """
    saved, unsaved = (text_of("nvue", save=save) for save in (True, False))

    assert "nv config apply --confirm-yes" in unsaved
    assert ("nv config save" in saved, "nv config save" in unsaved) == (True, False)
    off = "nv set system config auto-save state disabled"
    assert (off in saved, off in unsaved) == (False, True)


@pytest.mark.row("A 219-227")
@pytest.mark.parametrize("system", PORTS)
def test_every_rails_pods_are_tagged_and_its_hosts_are_not(system: str) -> None:
    lab = with_switches(switch_entry(system))
    text = switch_text(lab, lab.switches[0])
    one, two = (text.split(f"gpu01 {pf}, ")[1].split("gpu0")[0] for pf in ("enp5s0", "enp132s0"))

    assert "111" in one
    assert "4094" in one
    assert "112" not in one
    assert "112" in two
    assert "4093" in two


@pytest.mark.parametrize("mode", ["lossy", "lossless"])
@pytest.mark.parametrize("system", PORTS)
def test_the_text_never_advises_a_command_that_deletes_the_quality_of_service_of_other_ports(
    system: str, mode: str
) -> None:
    """`config qos reload` and `clear` delete DSCP_TO_TC_MAP, WRED_PROFILE, QUEUE, PORT_QOS_MAP, SCHEDULER and every
    BUFFER table of the whole switch: sonic-net/sonic-utilities, config/main.py, _clear_qos. The orchestration agent
    watches the tables that the text writes (sonic-swss, orchdaemon.cpp: QosOrch on CONFIG_DB), so nothing is to load.
    """
    text = text_of(system, mode)

    assert "qos reload" not in text
    assert "qos clear" not in text


def test_cumulus_gives_each_class_that_is_not_strict_a_share() -> None:
    """A queue without bw-percent has a DWRR of 0, no scheduling at all, and the shares add up to 100 at most; the
    vendor's example for a strict class 6 gives `0-5,7` 12 each (Cumulus Linux 5, Quality of Service and PTP).
    """
    lines = [
        line.split("rocelab-lab ")[1] for line in text_of("nvue").splitlines() if "qos egress-scheduler rocelab" in line
    ]

    assert lines == [
        "traffic-class 6 mode strict",
        "traffic-class 3 mode dwrr",
        "traffic-class 3 bw-percent 50",
        "traffic-class 0-2,4-5,7 mode dwrr",
        "traffic-class 0-2,4-5,7 bw-percent 8",
    ]


def test_an_arista_platform_with_deep_buffers_gets_its_own_queue_word() -> None:
    usual, deep = (text_of("eos", queue_word=word) for word in ("uc-tx-queue", "tx-queue"))

    assert deep == usual.replace("uc-tx-queue", "tx-queue") != usual


def test_a_port_of_an_absent_node_is_left_out() -> None:
    lab = with_switches(switch_entry())
    content = json.loads(lab.model_dump_json())
    content["nodes"][1]["state"] = "absent"

    text = switch_text(type(lab).model_validate(content), lab.switches[0])

    assert "1/1" in text
    assert "1/3" not in text


def test_the_command_prints_what_the_output_has_the_digest_of(tmp_path, capsys) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    lab = {**REFERENCE, "switches": [switch_entry(), switch_entry("eos", name="sw2", address="127.0.12.251", ports={})]}
    file.write_text(yaml.safe_dump({"config": {"rocelab:lab": lab}}))

    assert main(["switches", "--config-file", str(file), "--switch", "sw1"]) == 0
    printed = capsys.readouterr().out
    assert main(["switches", "--config-file", str(file), "--folder", str(tmp_path / "texts")]) == 0

    assert (tmp_path / "texts" / "sw1.txt").read_text() == printed
    assert (tmp_path / "texts" / "sw2.txt").read_text().startswith("! sw2: Arista EOS")
    assert main(["switches", "--config-file", str(file), "--switch", "sw3"]) == 2
    assert states(capsys.readouterr().err, "sw3", "sw1, sw2")


@pytest.mark.parametrize("system", PORTS)
def test_a_routed_port_keeps_its_addresses_and_is_put_in_no_vlan(system: str) -> None:
    """A /31 between host and switch: the port is no bridge port, and making it one would cut its nodes off."""
    lab = with_switches(switch_entry(system), qos={})
    content = json.loads(lab.model_dump_json())
    content["rails"][0]["pod"] = None
    for number, node in enumerate(content["nodes"]):
        low = 2 * number
        node["pfs"][0].update(address=f"10.10.11.{low}/31", gateway=f"10.10.11.{low + 1}")
    lab = type(lab).model_validate(content)

    text = switch_text(lab, lab.switches[0])

    routed, bridged = (text.split(f"gpu01 {pf}, ")[1].split("gpu0")[0] for pf in ("enp5s0", "enp132s0"))
    assert not re.search("vlan|switchport|bridge domain", routed, re.IGNORECASE)
    assert re.search("9216|9214", routed), "its MTU is part of the chain as everybody's"
    assert re.search("vlan|switchport", bridged, re.IGNORECASE)
    assert "4094" not in text, "rail-a has no VLAN left"


@pytest.mark.parametrize("system", PORTS)
def test_a_rail_without_pods_has_access_ports(system: str) -> None:
    lab = with_switches(switch_entry(system))
    content = json.loads(lab.model_dump_json())
    content["rails"][0]["pod"] = None
    lab = type(lab).model_validate(content)

    one = switch_text(lab, lab.switches[0]).split("gpu01 enp5s0, ")[1].split("gpu0")[0]

    assert "4094" in one
    assert "111" not in one
    assert "trunk" not in one
