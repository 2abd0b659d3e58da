"""What a review finds in a preview, and how it says it."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.finding import COMMENT_LIMIT
from components.hosts.changes import vfs_refused
from components.review.comment import LEAST_LIMIT, as_markdown, comment_of
from components.review.effects import Kind, Rank, Review, review_of
from components.review.preview import STREAMING, read_preview
from stacks.base import LabError
from tests.components.hosts.fleet_hosts import record
from tests.components.review.previews import (
    COMMAND,
    FLEET,
    HARDWARE,
    MACHINE,
    SWITCH,
    fleet,
    hosts,
    preview,
    sample,
    seen,
    step,
    switch_properties,
)
from tests.components.switches.labs import switch_entry, with_switches
from tests.messages import states

LEFT_OUT = "**Left out"
KNOWN = {"vfs_in_use": {"enp5s0": "3 in use, such as 0: pod train/job-7"}, "seen": "2026-11-22T05:50Z"}


def reviewed(text: str) -> Review:
    return review_of(read_preview(text))


def kinds(text: str) -> set[Kind]:
    return {one.kind for one in reviewed(text).effects}


def rows(text: str, **options: Any) -> list[tuple[str, str, str]]:
    return [(row.kind.label, row.where, row.evidence) for row in comment_of(reviewed(text), **options).rows]


def written(text: str, limit: int = COMMENT_LIMIT, **options: Any) -> str:
    return as_markdown(comment_of(reviewed(text), **options), limit)


def headline(text: str) -> str:
    return written(text).splitlines()[1]


def one_host(before: dict[str, Any], facts: dict[str, Any] | None = None) -> str:
    one = record("gpu01", 1)
    return preview(hosts({"gpu01": seen(one, **before)}, {"gpu01": one}, {"gpu01": facts}))


def machine(op: str, *reasons: str, urn: str = MACHINE, **properties: Any) -> str:
    return preview(
        {**step(op, urn.format("vm3"), {"name": "vm3"}, {"name": "vm3", **properties}), "diffReasons": reasons}
    )


def test_a_recorded_preview_of_real_hosts_becomes_rows_worst_first() -> None:
    assert rows(sample("changes")) == [
        ("Pods lose VFs", "gpu[0003-0004] enp132s0", "vfs 4 => 7; what is in use and whether it reboots: unknown"),
        ("Link flaps", "gpu[0001,0003-0004,0006] enp5s0", "mtu_bytes 9000 => 4200"),
        ("Joins", "gpu0008", "is new (active)"),
        ("Leaves", "gpu0007", "its VFs, links and files are undone"),
        ("Leaves", "gpu0005", "state active => drained"),
        (
            "Not read",
            "gpu0002",
            "does not answer over SSH: [Errno 104] Connection reset by peer; its changes are missing here",
        ),
        ("Host", "gpu[0001,0003-0004,0006] enp5s0", "vf_mtu_bytes"),
        ("Resource", "hosts-gpu0008", "Command created"),
        ("Resource", "hosts-gpu[0005,0007]", "Command deleted"),
        ("Resource", "hosts-gpu[0001-0004,0006]", "Command updated"),
        ("Resource", "hosts-program", "Delivery updated"),
    ]


def test_a_recorded_reboot_is_counted_in_the_headline() -> None:
    assert headline(sample("reboots")) == f"### pod1: {Kind.REBOOT.phrase(7)}"


def test_errors_that_differ_in_the_host_alone_are_one_and_the_hosts_count_as_unread() -> None:
    failed, unread, *_ = rows(sample("refused"))

    assert failed[:2] == ("Preview failed", "hosts-fleet")
    assert states(failed[2], "gpu[0001-0007]", "rdma_namespaces", "shared", "exclusive")
    assert unread[:2] == ("Not read", "all hosts")
    assert headline(sample("refused")) == f"### pod1: {Kind.FAILED.phrase(1)}, {Kind.HOSTS_UNREAD.phrase(1)}"


def test_a_lab_file_with_a_fault_is_a_failed_preview() -> None:
    assert reviewed(sample("broken")).worst is Rank.FAILED
    assert "nodes[0].address" in rows(sample("broken"))[0][2]


@pytest.mark.parametrize(
    ("text", "kind", "rank"),
    [
        (preview(diagnostics=({"message": "error: boom", "severity": "error"},)), Kind.FAILED, Rank.FAILED),
        (preview(maybeCorrupt=True), Kind.FAILED, Rank.FAILED),
        (machine("replace", "firmware"), Kind.VM_REPLACED, Rank.REPLACE),
        (machine("create-replacement"), Kind.VM_REPLACED, Rank.REPLACE),
        (machine("delete"), Kind.VM_DELETED, Rank.REPLACE),
        (preview(step("replace", "vsphere:index/hostPortGroup:HostPortGroup::g")), Kind.FABRIC_REPLACED, Rank.REPLACE),
        (preview(step("delete", "vsphere:index/hostPortGroup:HostPortGroup::g")), Kind.FABRIC_DELETED, Rank.REPLACE),
        (one_host({"rdma_namespaces": "exclusive"}), Kind.REBOOT, Rank.REBOOT),
        (one_host({"enp5s0.vfs": 2}, {**KNOWN, "vfs_offered": {"enp5s0": 3}}), Kind.REBOOT, Rank.REBOOT),
        (machine("update", "numCpus"), Kind.VM_MAY_RESTART, Rank.REBOOT),
        (machine("update", urn=HARDWARE, vgpus=["a"]), Kind.VM_RESTART, Rank.REBOOT),
        (one_host({"enp5s0.vfs": 2}), Kind.PODS, Rank.PODS),
        (one_host({"enp5s0.mtu_bytes": 1500}), Kind.LINK, Rank.LINK),
        (preview(hosts({}, fleet(1))), Kind.JOINS, Rank.MEMBER),
        (preview(hosts(fleet(1), {})), Kind.LEAVES, Rank.MEMBER),
        (preview(hosts(fleet(1), fleet(1, state="drained"))), Kind.LEAVES, Rank.MEMBER),
        (preview(hosts(fleet(1, state="drained"), fleet(1))), Kind.JOINS, Rank.MEMBER),
        (machine("create"), Kind.VM_CREATED, Rank.MEMBER),
        (one_host({"unit": "missing"}), Kind.HOST, Rank.REST),
        (one_host({"enp5s0.vfs": 0}), Kind.HOST, Rank.REST),
        (machine("update", urn=HARDWARE, roce_version=""), Kind.RESOURCE, Rank.REST),
        (preview(step("update", HARDWARE, {"now": {"vgpus": ["a"]}}, {"vgpus": []})), Kind.VM_RESTART, Rank.REBOOT),
        (machine("update", "annotation"), Kind.RESOURCE, Rank.REST),
        (preview(step("replace", "kubernetes:core/v1:ConfigMap::a")), Kind.RESOURCE, Rank.REST),
    ],
)
def test_each_effect_has_its_rank(text: str, kind: Kind, rank: Rank) -> None:
    assert kinds(text) - {Kind.HOSTS_UNREAD} == {kind}
    assert reviewed(text).worst is rank is kind.rank


def test_the_table_and_the_headline_go_from_the_worst_to_the_mildest() -> None:
    one = record("gpu01", 1)
    everything = preview(
        step("create", COMMAND.format("gpu02")),
        hosts(
            {"gpu01": seen(one, rdma_namespaces="exclusive", **{"enp5s0.vfs": 2, "enp5s0.mtu_bytes": 1500})},
            {"gpu01": one, "gpu02": record("gpu02", 2)},
        ),
        step("delete", MACHINE.format("vm3"), {"name": "vm3"}),
        diagnostics=({"message": "error: boom", "severity": "error"},),
    )

    labels = [label for label, *_ in rows(everything)]
    assert labels == ["Preview failed", "VM deleted", "Reboot", "Pods lose VFs", "Link flaps", "Joins", "Resource"]
    assert written(everything).splitlines()[1] == (
        "### pod1: the preview failed, 1 VM is deleted, 1 host needs a reboot, pods lose VFs on 1 host, 1 link flaps, "
        "1 host joins"
    )


def test_nothing_changed_says_so_and_only_mild_changes_say_that() -> None:
    assert written(preview()) == "<!-- rocelab:review pod1 -->\n### pod1: no changes\n"
    assert "### pod1: no disruption\n" in written(one_host({"unit": "missing"}))


def test_steps_that_change_nothing_have_no_row() -> None:
    quiet = preview(*(step(op, COMMAND.format("gpu01")) for op in ("same", "refresh", "read")))

    assert reviewed(quiet).worst is None


def test_vfs_in_use_are_counted_and_the_pods_are_not_named() -> None:
    text = one_host({"enp5s0.vfs": 2}, {**KNOWN, "vfs_offered": {"enp5s0": 8}})

    (effect,) = reviewed(text).effects
    assert (effect.kind, effect.part, effect.what, effect.values) == (Kind.PODS, "enp5s0", "vfs", "2 => 4")
    assert effect.vfs_in_use == 3
    assert states(rows(text)[0][2], "NIC", 8, "3 VFs")
    assert "job-7" not in written(text)
    assert reviewed(text).facts_read == ("2026-11-22 05:50", "2026-11-22 05:50")
    assert states(written(text).splitlines()[-1], "2026-11-22 05:50 UTC")


def test_the_refusal_to_take_vfs_that_are_in_use_names_no_pod_either() -> None:
    facts = {"gpu01": {**KNOWN, "vfs_offered": {}}}
    asked = record("gpu01", 1).model_copy(update={"document": {"pfs": [{"interface": "enp5s0", "vfs": 2}]}})
    (refusal,) = vfs_refused({"gpu01": record("gpu01", 1)}, {"gpu01": asked}, facts)
    assert "train/job-7" in refusal

    said = written(preview(diagnostics=({"message": f"error: {refusal}", "severity": "error"},)))
    assert "job-7" not in said
    assert states(said, "3 in use", "drain")


def test_ports_of_a_switch_fold_field_by_field() -> None:
    lab = with_switches(switch_entry("sonic"))
    text = preview(step("update", SWITCH.format("sw1"), switch_properties(lab, mtu_bytes=1500), switch_properties(lab)))

    (row,) = rows(text)
    assert row == ("Switch port", "sw1 Ethernet[0,4,8,12]", f"mtu_bytes 1500 => {lab.rails[0].mtu_bytes + 216}")
    assert headline(text) == f"### pod1: {Kind.PORT.phrase(4)}"


def test_a_switch_that_is_taken_over_or_given_back_says_so() -> None:
    props = switch_properties(with_switches(switch_entry(apply=True)))

    assert "is taken over" in rows(preview(step("create", SWITCH.format("sw1"), None, props)))[0][2]
    assert "put back" in rows(preview(step("delete", SWITCH.format("sw1"), props)))[0][2]


def test_interfaces_that_the_same_hosts_have_fold_too() -> None:
    olds = {name: seen(one, **{f"enp{n}s0.mtu_bytes": 1500 for n in (5, 6, 7, 132)}) for name, one in fleet(3).items()}

    assert rows(preview(hosts(olds, fleet(3)))) == [
        ("Link flaps", "gpu[0001-0003] enp5s0", "mtu_bytes 1500 => 9000"),
        ("Link flaps", "gpu[0001-0003] enp[6-7,132]s0", "mtu_bytes 1500 => none"),
    ]


def test_many_different_values_of_a_field_are_one_row() -> None:
    olds = {name: seen(one, **{"enp5s0.address": f"10.9.0.{n}/24"}) for n, (name, one) in enumerate(fleet(63).items())}

    (row,) = rows(preview(hosts(olds, fleet(63))))
    assert row[:2] == ("Link flaps", "gpu[0001-0063] enp5s0")
    assert states(row[2], "address", 63, "10.9.0.0/24 => 10.10.11.1/24")
    [[_, _, public]] = rows(preview(hosts(olds, fleet(63))), names=False)
    assert states(public, "address", 63)
    assert "10." not in public


def test_a_record_of_another_version_is_not_read_instead_of_taken_for_a_new_host() -> None:
    olds, news = fleet(2), fleet(2, mtu_bytes=4200)
    text = hosts(olds, news)
    text["oldState"]["outputs"]["hosts"]["gpu0002"] = {"of": "another version"}

    found = reviewed(preview(text))
    assert {(one.kind, one.name) for one in found.effects} == {
        (Kind.LINK, "gpu0001"),
        (Kind.HOST, "gpu0001"),  # the MTU of idle VFs follows
        (Kind.UNREAD, "gpu0002"),
    }
    assert found.unread


def test_a_switch_of_another_version_is_unread() -> None:
    props = switch_properties(with_switches(switch_entry()))
    text = preview(step("update", SWITCH.format("sw1"), props, {**props, "record": {"of": "another version"}}))

    assert {(one.kind, one.name) for one in reviewed(text).effects} == {(Kind.SWITCH_UNREAD, "switches-sw1")}
    port = next(iter(props["ports"]))
    ports = {**props["ports"], port: {"speed": "unknown"}}
    lost = preview(step("update", SWITCH.format("sw1"), props, {**props, "ports": ports}))
    effects = {(one.kind, one.part) for one in reviewed(lost).effects}
    assert effects == {(Kind.SWITCH_UNREAD, port)}, "neither new nor given back"


def test_what_a_host_says_at_length_is_cut_and_secrets_in_it_are_blanked() -> None:
    one = record("gpu01", 1)
    liar = one.model_copy(update={"trouble": f"127.0.0.1:22 password: hunter22 {'ha ' * 100_000}"})

    said = written(preview(hosts({"gpu01": liar}, {"gpu01": one})))
    assert "hunter22" not in said
    assert len(said) < 1500


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("shared", "04da6b54-80e4-46f7-96ec-b56ff0331ba9", Kind.UNREAD),
        ("gpu0001", "04da6b54-80e4-46f7-96ec-b56ff0331ba9", Kind.UNREAD),
        (
            "gpu0001",
            {**fleet(1)["gpu0001"].model_dump(mode="json"), "fields": {"gone": 1}},
            Kind.HOSTS_UNREAD,
        ),
    ],
)
def test_hosts_that_say_nothing_to_this_version_are_unread_and_not_harmless(key: str, value: Any, kind: Kind) -> None:
    text = hosts(fleet(2), fleet(2, mtu_bytes=4200))
    outputs = text["oldState"]["outputs"]
    (outputs if key == "shared" else outputs["hosts"])[key] = value

    found = reviewed(preview(text))
    assert kind in {one.kind for one in found.effects}
    assert "gpu0001" not in {one.name for one in found.effects if one.kind is not Kind.UNREAD}


def test_a_host_that_is_silent_now_is_not_read_though_the_state_knows_it() -> None:
    warning = "warning: gpu0001 (192.0.2.1:22) does not answer over SSH within 2 s; to go on without it: drain it\n\n"
    text = preview(
        hosts(fleet(1), fleet(1, mtu_bytes=4200)), diagnostics=({"message": warning, "severity": "info#err"},)
    )

    assert kinds(text) == {Kind.LINK, Kind.HOST, Kind.UNREAD}
    assert "192.0.2.1" not in written(text)
    assert headline(text).endswith(Kind.UNREAD.phrase(1))


def test_what_providers_log_of_the_hosts_is_not_read() -> None:
    line = {"message": "info: gpu0001: rdma_namespaces shared => exclusive: needs a reboot\n\n", "severity": "info#err"}

    assert reviewed(preview(diagnostics=(line,))).effects == ()


CHANGES = json.loads(sample("changes"))


@settings(max_examples=10)
@given(steps=st.permutations(CHANGES["steps"]), diagnostics=st.permutations(CHANGES["diagnostics"]))
def test_the_order_of_steps_changes_no_byte(steps: list[object], diagnostics: list[object]) -> None:
    shuffled = json.dumps(CHANGES | {"steps": steps, "diagnostics": diagnostics})

    assert written(shuffled) == written(sample("changes"))


def test_1024_alike_nodes_are_one_line() -> None:
    text = written(preview(hosts(fleet(1024), fleet(1024, mtu_bytes=4200))))

    assert "| Link flaps | gpu\\[0001-1024\\] enp5s0 | mtu_bytes 9000 =&gt; 4200 |" in text
    assert text.splitlines()[1] == f"### pod1: {Kind.LINK.phrase(1024)}"
    assert len(text) < 500


def unlike(count: int) -> str:
    """No two hosts of one name or one change: nothing folds."""
    names = {f"{chr(97 + n % 26)}{n:04}x{n * 7919 % 1000}{'y' * 24}": n for n in range(count)}
    olds = {
        name: seen(record(name, 1), **{f"enp{n}s0.mtu_bytes": 1500, f"p{n}.unit": f"missing {n}", "unit": n})
        for name, n in names.items()
    }
    reboots = {name: seen(one, rdma_namespaces=f"was {n}") for n, (name, one) in enumerate(olds.items())}
    errors = tuple({"message": f"error: {name} {'x' * n}", "severity": "error"} for n, name in enumerate(names))
    moved = (step("replace", f"kubernetes:core/v1:Kind{n}::{name}") for name, n in names.items())
    return preview(hosts(reboots, {name: record(name, 1) for name in names}), *moved, diagnostics=errors)


@pytest.mark.whole
@pytest.mark.parametrize("limit", [COMMENT_LIMIT, 10_000, LEAST_LIMIT])
def test_1024_nodes_that_have_nothing_in_common_fit_and_the_worst_stays(limit: int) -> None:
    text = unlike(1024)
    begun = time.monotonic()
    said = written(text, limit)

    assert len(said) <= limit
    assert said.splitlines()[1].startswith(f"### pod1: {Kind.FAILED.phrase(1)}, {Kind.REBOOT.phrase(1024)}")
    assert LEFT_OUT in said
    assert time.monotonic() - begun < 30
    shown = [line.split(" | ")[0] for line in said.splitlines() if line.startswith("| ") and "Effect" not in line]
    assert shown == sorted(shown, key=lambda label: label != "| Preview failed")


def test_the_mildest_goes_first() -> None:
    content = preview(
        hosts(fleet(1), fleet(1, mtu_bytes=4200)),
        *(step("create", f"kubernetes:core/v1:Kind{n}::{'z' * 200}{n}") for n in range(200)),
    )
    said = written(content, LEAST_LIMIT)

    assert "| Link flaps | gpu0001 enp5s0 |" in said
    assert LEFT_OUT in said
    assert "Resource (" in said


def test_what_fits_is_not_cut() -> None:
    assert LEFT_OUT not in written(sample("changes"))
    assert written(sample("changes"), COMMENT_LIMIT) == written(sample("changes"), 10 * COMMENT_LIMIT)


@pytest.mark.parametrize(
    "act", ["|", "`", "@ops", "<img src=x>", "[a](https://e.example)", "**b**", "#12", "$x$", "\x1b[2J"]
)
def test_nothing_of_a_text_acts_in_the_comment(act: str) -> None:
    text = preview(
        step("update", COMMAND.format(f"x{act}y")), diagnostics=({"message": f"error: a{act}b", "severity": "error"},)
    )
    said = written(text, title=f"t{act}", note=act)
    body = said.replace("| Effect | Where | Change |", "").replace("| Where | Change |", "")

    assert "@ops" not in body
    assert "<img" not in body
    assert "](" not in body.replace("\\]", "")
    assert "\x1b" not in body
    for mark in ("`", "*", "$", "["):
        plain = body.replace("**Not read**", "").replace(f"\\{mark}", "")
        assert mark not in plain, said
    assert all(line.replace("\\|", "").count("|") in {0, 3, 4} for line in body.splitlines()), said
    assert "#12" not in body


def test_a_title_cannot_end_the_marker() -> None:
    first = written(preview(), title="a --> <script>").splitlines()[0]

    assert first == "<!-- rocelab:review a-script- -->"


def test_neither_the_config_nor_a_secret_is_printed() -> None:
    config = {"rocelab:lab": '{"name": "pod1", "motd": "lab content"}', "rocelab:vcenter_password": "open sesame"}
    said = (
        "error: login failed with open sesame at https://admin:hunter22@vc.example\n"
        "error: token=abcdefgh1234\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\n"
    )
    text = preview(diagnostics=({"message": said, "severity": "error"},), config=config)
    whole = written(text) + json.dumps(rows(text))

    for secret in ("open sesame", "hunter22", "abcdefgh1234", "b3BlbnNzaC1r", "lab content", "motd"):
        assert secret not in whole


def test_no_key_address_or_machine_of_the_recorded_preview_is_printed() -> None:
    said = written(sample("changes"))

    for private in ("ssh-ed25519", "127.1.247", "machine_id", "10.64.", "/lab", "gASV", "enp0s3"):
        assert private in sample("changes")
        assert private not in said


def test_the_content_of_a_host_s_files_is_not_printed_where_nothing_is_disrupted() -> None:
    assert rows(one_host({"unit": "a private text"})) == [("Host", "gpu01", "unit")]


@pytest.mark.parametrize("name", ["changes", "refused", "reboots", "broken"])
def test_without_names_no_host_interface_resource_or_address_is_printed(name: str) -> None:
    said = written(sample(name), names=False)

    for private in ("gpu", "enp", "rail", "pod1", "hosts-", "127.", "Errno"):
        assert private not in said
    assert "<!-- rocelab:review - -->" in said


def test_without_names_the_counts_and_plain_numbers_stay() -> None:
    said = written(sample("changes"), names=False, title="lab")

    assert "| Link flaps | 4 ports of 4 hosts | mtu_bytes 9000 =&gt; 4200 |" in said
    assert said.splitlines()[1].startswith(f"### lab: {Kind.PODS.phrase(2)}, {Kind.LINK.phrase(4)}")


EVENT = '{"sequence":0,"timestamp":1795368606,"preludeEvent":{"config":{}}}\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1"),
        (" \n", "line 2"),
        (sample("changes")[:70_000], "line"),
        ("Previewing update (pod1)\n", "line 1"),
        (EVENT * 2, STREAMING),
        (EVENT, STREAMING),
        (sample("broken") + "warning: x", "Extra data"),
        ('{"version": 3, "deployment": {}}', "neither steps nor"),
        ("[]", "neither steps nor"),
        ('{"steps": [{"op": 1}]}', r"steps\.0\.op"),
    ],
)
def test_what_is_no_whole_preview_is_refused_without_its_content(text: str, says: str) -> None:
    with pytest.raises(LabError, match=says) as refused:
        read_preview(text)
    assert "pulumi preview --json" in str(refused.value)
    assert "127.1.247" not in str(refused.value)


def test_the_samples_hold_no_place_of_the_machine_that_recorded_them() -> None:
    for name in ("changes", "refused", "reboots", "broken"):
        assert "/root" not in sample(name)
        assert "sourcePosition" not in sample(name)
    assert FLEET.partition("::")[2] in sample("changes")
