"""What is read out of the answers of each system, and what is said when an answer is another one."""

import json
from collections.abc import Mapping
from itertools import product

import pytest

from components.switches.dialect import AnswerError, normal_ranges, numbers_in
from components.switches.os import default_dialect, dialect_of
from components.switches.settings import (
    Announcement,
    Ecn,
    LearnedMac,
    PortFacts,
    PortSettings,
    cables_of,
    differences,
    wrong_cable,
)
from tests.components.switches.labs import switch_entry, with_switches
from tests.components.switches.systems import PORTS, RESTORED, UNCONFIGURED, WRONG, answers_of
from tests.messages import states


def asked(system: str, mode: str = "lossless") -> PortSettings:
    lab = with_switches(switch_entry(system), qos={"mode": mode})
    return cables_of(lab, lab.switches[0])[0].settings


def facts(
    system: str,
    port: int = 0,
    answers: Mapping[str, str] | None = None,
    mode: str = "lossless",
    **changes: object,
) -> PortFacts:
    lab = with_switches(switch_entry(system, **changes), qos={"mode": mode})
    dialect = dialect_of(lab.switches[0])
    return dialect.facts(PORTS[system][port], answers or answers_of(system), asked(system, mode))


@pytest.mark.parametrize("system", PORTS)
def test_a_port_that_is_as_it_should_be_has_no_difference(system: str) -> None:
    found = facts(system)

    assert [str(each) for each in differences(asked(system), found.settings)] == []
    assert found.settings.ecn == {3: Ecn(min_kbytes=150, max_kbytes=1500)}
    assert found.settings.owner == "lab"


@pytest.mark.parametrize("system", PORTS)
def test_the_neighbour_is_heard_by_name_and_port(system: str) -> None:
    lab = with_switches(switch_entry(system), qos={})
    neighbour = dialect_of(lab.switches[0]).neighbour(PORTS[system][0], answers_of(system))

    assert neighbour is not None
    assert neighbour.system == "gpu01"
    assert "enp5s0" in neighbour.port_names


@pytest.mark.parametrize("system", PORTS)
def test_every_question_of_a_port_has_an_answer_here(system: str) -> None:
    lab = with_switches(switch_entry(system), qos={})

    dialect = dialect_of(lab.switches[0])
    assert {dialect.lldp_table, *dialect.questions(PORTS[system][:1])} <= set(answers_of(system))


@pytest.mark.parametrize(("system", "case"), [(name, case) for name, cases in WRONG.items() for case in cases])
def test_a_wrong_value_is_found_with_both_numbers(system: str, case: tuple[str, str, str, str, str | int]) -> None:
    where, what, by, field, found = case
    answers = answers_of(system)
    broken = {command: text.replace(what, by) if where in command else text for command, text in answers.items()}
    assert broken != answers

    different = {each.field: each for each in differences(asked(system), facts(system, answers=broken).settings)}

    assert set(different) == {field}
    assert different[field].actual == found
    assert different[field].expected == asked(system).fields()[field]


@pytest.mark.parametrize("system", PORTS)
def test_an_unconfigured_port_is_read_with_the_system_s_defaults(system: str) -> None:
    assert facts(system, 1).settings.fields() == {"description": "", **UNCONFIGURED[system]}


def test_an_older_sonic_writes_references_in_brackets() -> None:
    settings = facts("sonic", 1).settings

    assert settings.profiles == {"dscp_to_tc_map": "AZURE", "wred_profile": "AZURE_LOSSLESS", "scheduler": ""}
    assert settings.dscp_priority == {26: 1, 48: 6}


LACKING = ["tc_to_pg_map", "BUFFER_PG", "pfc_to_pg_map", "tc_to_queue_map", "pfc_to_queue_map", "pfcwd_sw_enable"]
"""What a fault may name; it names one of them."""


@pytest.mark.parametrize(
    ("what", "by", "lacks"),
    [
        ('"tc_to_pg_map": "AZURE", ', "", "tc_to_pg_map"),
        ('"Ethernet0|3-4": ', '"Ethernet8|3-4": ', "BUFFER_PG"),
        (
            '"Ethernet0|3-4": {"profile": "pg_lossless_100000_300m_profile"}',
            '"Ethernet0|3": {"profile": "ingress_lossy_profile"}',
            "BUFFER_PG",
        ),
        ('"tc_to_pg_map": "AZURE"', '"pfc_to_pg_map": "OTHER", "tc_to_pg_map": "AZURE"', "pfc_to_pg_map"),
        ('"tc_to_queue_map": "AZURE"', '"tc_to_queue_map": "OTHER"', "tc_to_queue_map"),
        ('"pfc_to_queue_map": "AZURE", ', "", "pfc_to_queue_map"),
        ('"pfcwd_sw_enable": "3,4"', '"pfcwd_sw_enable": "4"', "pfcwd_sw_enable"),
    ],
)
def test_a_sonic_port_that_would_pause_and_still_drop_is_a_fault(what: str, by: str, lacks: str) -> None:
    """What qos_config.j2 of sonic-buildimage gives each port beside the two fields that this lab sets."""
    answers = answers_of("sonic")
    broken = {command: text.replace(what, by) for command, text in answers.items()}
    assert broken != answers

    assert facts("sonic").faults == ()
    [fault] = facts("sonic", answers=broken).faults
    assert states(fault, "drop", lacks, 3)
    assert [name for name in LACKING if name in fault] == [lacks]
    assert facts("sonic", answers=broken, mode="lossy").faults == ()


def test_sonic_may_work_out_the_headroom_by_itself_and_older_releases_watch_what_they_pause() -> None:
    answers = answers_of("sonic")
    dynamic = {
        c: text.replace('"profile": "pg_lossless_100000_300m_profile"', '"profile": "NULL"')
        for c, text in answers.items()
    }
    older = {c: text.replace('"pfcwd_sw_enable": "3,4", ', "") for c, text in answers.items()}
    assert answers not in (dynamic, older)

    assert (facts("sonic", answers=dynamic).faults, facts("sonic", answers=older).faults) == ((), ())


APPLIED = "nv show qos --applied -o json"
BY_DEFAULT = {"default-lossy": {"memory-percent": 100, "switch-priority": {str(number): {} for number in range(8)}}}
"""Traffic pools of Cumulus Linux 5.5.1 as NVUE's API prints the applied configuration: recorded in the automation
workshop of NVIDIA Air."""


def nvue_with(pools: Mapping[str, object], roce: Mapping[str, str]) -> dict[str, str]:
    """The answers of a Cumulus switch with these buffers."""
    answers = answers_of("nvue")
    return {**answers, APPLIED: json.dumps({**json.loads(answers[APPLIED]), "traffic-pool": pools, "roce": roce})}


@pytest.mark.parametrize(
    ("pools", "roce"),
    [
        (BY_DEFAULT, {"enable": "off"}),
        ({**BY_DEFAULT, "default-lossless": {"memory-percent": 0}}, {"enable": "off"}),
        (BY_DEFAULT, {"enable": "on", "mode": "lossy"}),
        (BY_DEFAULT, {"state": "disabled", "mode": "lossless"}),
        ({}, {}),
    ],
)
def test_a_cumulus_switch_whose_lossless_pools_have_no_memory_is_a_fault(
    pools: Mapping[str, object], roce: Mapping[str, str]
) -> None:
    answers = nvue_with(pools, roce)

    [fault] = facts("nvue", answers=answers).faults

    assert states(fault, "drop", "nv show qos traffic-pool", "`nv set qos traffic-pool default-lossless")
    assert facts("nvue", answers=answers, mode="lossy").faults == ()
    assert facts("nvue", answers=answers, allow_global=True).faults == (), "the preset brings a pool"


@pytest.mark.parametrize(
    ("pools", "roce"),
    [
        ({"default-lossless": {"memory-percent": 50}, "default-lossy": {"memory-percent": 50}}, {"enable": "off"}),
        ({"roce-lossless": {"memory-percent": 90}, "default-lossy": {"memory-percent": 10}}, {}),
        (BY_DEFAULT, {"enable": "on", "mode": "lossless"}),
        (BY_DEFAULT, {"state": "enabled", "mode": "lossless-single-ipool"}),
    ],
)
def test_a_lossless_pool_of_any_kind_lets_a_cumulus_port_pause(
    pools: Mapping[str, object], roce: Mapping[str, str]
) -> None:
    """Pools and modes as RDMA over Converged Ethernet in the Cumulus Linux documentation shows them."""
    assert facts("nvue", answers=nvue_with(pools, roce)).faults == ()


@pytest.mark.parametrize(("release", "refused"), [("5.5.1", True), ("5.6.0", False), ("5.18.0", False)])
def test_a_cumulus_release_without_a_watchdog_gets_no_lossless_ports(release: str, refused: bool) -> None:
    """`pfc-watchdog` was introduced in Cumulus Linux 5.6.0 (NVUE reference, Set and Unset Commands, QoS)."""
    answers = answers_of("nvue")
    answers["cat /etc/os-release"] = answers["cat /etc/os-release"].replace("5.9.1", release)

    assert bool(facts("nvue", answers=answers).faults) == refused
    assert facts("nvue", answers=answers, mode="lossy").faults == ()


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ({"enable": "off"}, False),
        ({"enable": "on"}, True),
        ({"state": "disabled"}, False),
        ({"state": "enabled"}, True),
    ],
)
def test_a_cumulus_switch_that_saves_by_itself_is_a_fault_if_nothing_must_be_saved(
    answer: Mapping[str, str], refused: bool
) -> None:
    """`enable` up to 5.11, as 5.5.1 prints it; `state` from 5.12 on (What's New, changed NVUE commands)."""
    question = "nv show system config auto-save --applied -o json"
    answers = {**answers_of("nvue"), question: json.dumps(answer)}

    faults = facts("nvue", answers=answers, save=False).faults

    assert [states(fault, "save", "nv set system config auto-save state disabled") for fault in faults] == (
        [True] if refused else []
    )
    for save in (False, True):
        dialect = dialect_of(with_switches(switch_entry("nvue", save=save)).switches[0])
        assert (question in dialect.questions(["swp1"])) == (not save)


def test_the_queues_of_an_eos_port_are_called_as_the_switch_calls_them() -> None:
    """Platforms with deep buffers have `tx-queue`, others tell unicast and multicast queues apart. `show running-config
    all` prints the queues that nobody has set too, as the one in aristanetworks/goeapi, module/interfaces_test.go does.
    """
    answers = answers_of("eos")
    deep = {command: text.replace("uc-tx-queue", "tx-queue") for command, text in answers.items()}

    assert facts("eos").faults == ()
    [fault] = facts("eos", answers=deep).faults
    assert states(fault, "tx-queue", "switches[].queue_word")
    silent = {**answers, "show running-config all | include tx-queue": ""}
    assert facts("eos", answers=silent).faults == (), "what the switch does not tell is not held against the lab"


def test_a_code_point_that_eos_maps_otherwise_for_all_ports_is_a_fault_unless_that_may_be_changed() -> None:
    """The map is switch-wide: no line of a port can change it."""
    answers = {
        command: text.replace("dscp 26 to traffic-class 3", "dscp 26 to traffic-class 5")
        for command, text in answers_of("eos").items()
    }

    [fault] = facts("eos", answers=answers).faults

    assert states(fault, "DSCP 26", "traffic class 5", "`qos map dscp 26 to traffic-class 3`", "allow_global")
    assert facts("eos", answers=answers, allow_global=True).faults == ()


@pytest.mark.parametrize(("system", "kind"), [(system, kind) for system, kinds in RESTORED.items() for kind in kinds])
def test_a_restored_port_refers_to_the_profile_that_it_had_or_to_none(system: str, kind: str) -> None:
    dialect = dialect_of(with_switches(switch_entry(system), qos={}).switches[0])
    found = facts(system, 1).settings
    fields, *lines = RESTORED[system][kind]

    for field, (name, line, other) in product(fields, (("old", *lines), ("", *reversed(lines)))):
        before = found.model_copy(update={"profiles": {**found.profiles, kind: name}})
        sent = dialect.port_lines("lab", PORTS[system][1], before, frozenset({field}))
        assert line in sent, field
        assert other not in sent, field


@pytest.mark.parametrize("system", PORTS)
def test_what_a_look_asks_is_read_if_the_os_can_be_asked(system: str) -> None:
    dialect, answers, port = default_dialect(system), answers_of(system), PORTS[system][0]

    if dialect.port_list:
        assert dialect.listed_ports(answers[dialect.port_list])[:2] == list(PORTS[system][:2])
    if dialect.mac_table:
        assert dialect.learned_macs(answers[dialect.mac_table]) == [
            LearnedMac(mac="02:00:00:00:00:01", port=port, vlan_id=111)
        ]
    assert dialect.speed_mbit_s(port, answers) in (None, 100_000)


def test_a_queue_of_sonic_may_have_its_marking_under_a_key_of_several() -> None:
    answers = answers_of("sonic")
    [[command, text]] = [row for row in answers.items() if "WRED_PROFILE" in row[1]]
    database = json.loads(text)
    queues = {"Ethernet0|2-4": {"wred_profile": "AZURE_LOSSLESS"}, "Ethernet0|3": {"wred_profile": "rocelab_lab"}}
    database["QUEUE"] = queues
    everything = facts("sonic").settings.model_copy(update={"ecn": dict.fromkeys(range(8))})

    marking = default_dialect("sonic").facts("Ethernet0", {command: json.dumps(database)}, everything).settings.ecn

    assert {tc: ecn.min_kbytes for tc, ecn in marking.items() if ecn} == {2: 1048, 3: 150, 4: 1048}


@pytest.mark.parametrize("system", PORTS)
@pytest.mark.parametrize("text", ["", "% Unrecognized command", "{", "[]", "{}"])
def test_an_answer_of_another_kind_is_an_error_that_names_the_command(system: str, text: str) -> None:
    with pytest.raises(AnswerError) as refused:
        facts(system, answers=dict.fromkeys(answers_of(system), text))

    assert any(command in str(refused.value) for command in answers_of(system))


@pytest.mark.row("A 21")
def test_the_map_is_compared_with_what_is_heard() -> None:
    lab = with_switches(switch_entry())
    cable = cables_of(lab, lab.switches[0])[0]
    interfaces = {node.name: frozenset(pf.interface for pf in node.pfs) for node in lab.nodes}

    def said(system: str, port: str) -> str | None:
        return wrong_cable(cable, Announcement(system=system, port_id=port), interfaces)

    assert said("gpu01", "enp5s0") is None
    assert said("gpu01.example.com", "aa:bb:cc:dd:ee:01") is None, "a MAC alone contradicts nothing"
    assert states(said("gpu01", "enp132s0") or "", "1/1", "gpu01 enp5s0", "LLDP", "gpu01 enp132s0")
    assert states(said("gpu02", "enp5s0") or "", "1/1", "gpu01 enp5s0", "LLDP", "gpu02 enp5s0")
    assert said("storage7", "enp5s0") is None, "a name that no node has may be a node's own"
    assert wrong_cable(cable, None, interfaces) is None


def test_ranges_of_vlans_are_one_text_however_they_are_written() -> None:
    assert normal_ranges(numbers_in("112,111, 200-202,201")) == "111-112,200-202"
    assert normal_ranges(numbers_in("none")) == ""


SECTION = "show running-config interfaces Ethernet1/1"


def eos_port(section: str, default_mode: str = "") -> PortSettings:
    others = {"show running-config | include ^switchport default mode": default_mode}
    return facts("eos", answers={**answers_of("eos"), **others, SECTION: section}).settings


def test_an_eos_trunk_that_does_not_allow_its_native_vlan_has_no_untagged_one() -> None:
    """DISA's STIG of Arista EOS, V-255979: such a trunk drops untagged frames."""
    section = answers_of("eos")[SECTION].replace("allowed vlan 111,4094", "allowed vlan 111")

    assert (eos_port(section).native_vlan, eos_port(section).tagged_vlans) == (None, "111")


@pytest.mark.parametrize("allowed", ["100,200", "none", "1,100"])
def test_an_eos_trunk_gets_back_the_vlans_that_it_allowed(allowed: str) -> None:
    lines = f"   switchport trunk allowed vlan {allowed}\n   switchport mode trunk\n"
    before = eos_port(f"interface Ethernet1/1\n{lines}")
    lab = with_switches(switch_entry("eos"))

    back = dialect_of(lab.switches[0]).port_lines("lab", "Ethernet1/1", before, frozenset({"vlans"}))

    assert f"switchport trunk allowed vlan {allowed}" in back


def test_an_eos_port_may_be_routed_by_default_or_belong_to_a_port_channel() -> None:
    """`switchport default mode routed` came with EOS 4.18; a member's VLANs are those of its port channel."""
    bare = "interface Ethernet1/1\n   description free\n"

    assert eos_port(bare).mode == "access"
    assert eos_port(bare, "switchport default mode routed\n").mode == "routed"
    assert eos_port(f"{bare}   switchport\n", "switchport default mode routed\n").mode == "access"
    assert eos_port(f"{bare}   channel-group 4 mode active\n").mode == "channel-group"


@pytest.mark.parametrize(
    ("kept", "mode"), [("access", "access"), ("trunk", "trunk"), ("routed", "routed"), ("", "routed")]
)
def test_a_sonic_port_without_vlans_has_the_mode_that_its_release_keeps(kept: str, mode: str) -> None:
    answers = answers_of("sonic")
    [(command, printed)] = [item for item in answers.items() if "sonic-cfggen" in item[0]]
    database = json.loads(printed)
    database["PORT"]["Ethernet4"].update({"mode": kept} if kept else {})
    database["VLAN_MEMBER"] = {key: at for key, at in database["VLAN_MEMBER"].items() if "|Ethernet4" not in key}

    assert facts("sonic", 1, {**answers, command: json.dumps(database)}).settings.mode == mode
