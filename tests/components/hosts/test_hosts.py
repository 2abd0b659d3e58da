"""Hosts and Fleet under the recording engine, and the provider as the engine calls it."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from components.hosts import fleet, pack, repair
from components.hosts import hosts as hosts_module
from components.hosts.calls import Report
from components.hosts.document import target_record
from components.hosts.fleet import Fleet, FleetInputs
from components.hosts.hosts import Confirmer, Hosts, HostsArgs, remedy, start_command
from components.hosts.records import HostRecord, records_of
from components.provider.base import UNKNOWN
from components.ssh.connection import NoAnswerError
from stacks.base import LabError
from stacks.lab import Lab
from stacks.load import Credentials
from stacks.simulator import Simulator
from tests.components.hosts.fleet_hosts import FakeHosts, FleetRun, inputs, record, unread
from tests.engine import Engine, Recorded
from tests.messages import states, stating

NODES = ("gpu01", "gpu02")
CANARY = "canary-of-the-private-key"
COMMAND = "command:remote:Command"
DELIVERY = "rocelab:hosts:Delivery"
FLEET = "rocelab:hosts:Fleet"


def build(lab: Lab, engine: Engine | None = None, key: str | None = CANARY) -> Recorded:
    keys = {node.name: f"ssh-ed25519 key-of-{node.name}" for node in lab.nodes}

    def program() -> None:
        secret = pulumi.Output.secret(key) if key else None
        Hosts("hosts", HostsArgs(lab=lab, credentials=Credentials(private_key=secret, host_keys=keys, kubeconfig=None)))

    answer = {"results": {}, "facts": {}}
    return (engine or Engine(lambda kind, _n, _i: answer if kind == FLEET else {})).run(program)


def with_node(lab: Lab, number: int, **changes: Any) -> Lab:
    content = lab.model_dump()
    content["nodes"][number].update(changes)
    return Lab.model_validate(content)


@pytest.fixture
def seen(lab: Lab) -> Recorded:
    return build(lab)


def test_each_active_host_has_one_command_and_all_have_one_program_and_one_fleet(seen):
    assert set(seen.of_type(COMMAND)) == {"hosts-gpu01", "hosts-gpu02"}
    assert set(seen.of_type(DELIVERY)) == {"hosts-program"}
    assert set(seen.of_type(FLEET)) == {"hosts-fleet"}
    assert {one.parent for name, one in seen.resources.items() if name != "hosts"} == {"hosts"}


def test_the_program_is_there_before_the_command_and_the_fleet_comes_last(seen):
    assert "hosts-program" in seen["hosts-gpu01"].depends_on
    assert {"hosts-gpu01", "hosts-gpu02"} <= seen["hosts-fleet"].depends_on


def test_every_connection_pins_its_hosts_key_and_gives_up_soon(seen):
    connection = seen["hosts-gpu01"].inputs["connection"]
    assert connection["hostKey"] == "ssh-ed25519 key-of-gpu01"
    assert (connection["dialErrorLimit"], connection["perDialTimeout"]) == (2, 10)
    assert "connection" in seen["hosts-gpu01"].secrets


def test_an_emulated_host_whose_pods_start_meanwhile_is_given_time(lab: Lab):
    seen = build(lab.model_copy(update={"simulator": Simulator(kubelets="real")}))

    assert seen["hosts-gpu01"].inputs["connection"]["perDialTimeout"] == 60


def test_with_an_agent_no_private_key_is_in_a_connection(lab):
    with_a_key = build(lab)["hosts-gpu01"].inputs["connection"]
    with_an_agent = build(lab, key=None)["hosts-gpu01"].inputs["connection"]

    assert with_a_key["privateKey"] == CANARY
    assert with_a_key.keys() - with_an_agent.keys() == {"privateKey"}, "the provider then asks the agent"


def test_commands_have_nothing_by_which_the_official_provider_hurts(seen):
    for command in seen.of_type(COMMAND).values():
        assert set(command.inputs) == {"connection", "create", "stdin", "logging", "addPreviousOutputInEnv"}
        assert command.inputs["logging"] == "stderr", "its log reader hangs on long lines, such as the report in stdout"
        assert command.inputs["addPreviousOutputInEnv"] is False


def test_the_state_has_only_the_digest_of_the_program_so_another_checkout_is_no_change(seen):
    assert seen["hosts-program"].inputs["program"] == pack.digest()
    assert len(json.dumps(seen["hosts-program"].inputs["hosts"])) < 80
    assert CANARY not in repr(seen["hosts-program"].inputs)


def test_no_secret_enters_the_fleet(seen):
    assert CANARY not in repr(seen["hosts-fleet"].inputs)
    assert seen["hosts-fleet"].secrets == frozenset()


def test_a_drained_host_has_no_command_and_stays_in_the_fleet(lab):
    seen = build(with_node(lab, 1, state="drained"))

    assert set(seen.of_type(COMMAND)) == {"hosts-gpu01"}
    assert records_of(seen["hosts-fleet"].inputs)["gpu02"].state == "drained"


def test_the_layout_of_vfs_is_known_in_a_preview(seen, lab):
    assert len(seen["hosts-fleet"].inputs["vf_layout"]) == 16


def test_the_command_starts_the_program_that_was_sent_or_reports_that_it_is_missing():
    text = start_command()
    report = json.loads(text[text.index("echo '{") + 6 : text.rindex("'")])

    assert "sha256sum --check" in text
    assert f"exec sudo -n python3 -I .rocelab-host-{pack.digest()[:12]}.pyz apply" in text
    assert states(report["failed"]["hint"], "pulumi up --refresh")
    assert "\n" not in json.dumps(report)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("after 2 failed attempts: ssh: handshake failed: ssh: host key mismatch", "another host key"),
        ("dial tcp 127.0.12.2:2223: connect: connection refused", "refuses the connection"),
        ("dial tcp 10.0.0.9:22: i/o timeout", "does not answer"),
        ("ssh: unable to authenticate, attempted methods [none publickey]", "refuses the login"),
        ("exit status 1: sudo: a password is required", "sudo without a password"),
        ("something new", "something new"),
    ],
)
def test_a_host_that_does_not_let_us_in_is_named_with_cause_and_remedy(lab, error, expected):
    text = remedy(lab.nodes[0], error)

    assert text.startswith("nodes.gpu01: gpu01 (127.0.12.1:2222)")
    assert expected in text
    assert "nodes.gpu01.state: drained" in text


def test_a_failed_command_gets_its_remedy_beside_the_providers_error_and_is_not_tried_again(seen, capsys):
    hook = seen.hooks["hosts-remedy"]

    again = hook(pulumi.ErrorHookArgs("urn", "", "hosts-gpu02", COMMAND, errors=["connection refused"]))

    assert again is False, "the provider has dialled again by itself"
    assert "nodes.gpu02.state: drained" in capsys.readouterr().err


def ended(node: str, **report: Any) -> pulumi.ResourceHookArgs:
    printed = json.dumps({"schema": 1, "host": node, "failed": None, **report}) + "\n"
    return pulumi.ResourceHookArgs("urn", "", f"hosts-{node}", COMMAND, new_outputs={"stdout": printed})


VFS_FAILED = {"step": "vfs", "reason": "the NIC has none to give", "hint": "look at its firmware"}
MISSING = {"step": "program", "reason": "its copy is missing", "hint": "up"}


def test_each_host_is_confirmed_by_the_copy_over_a_new_connection_when_its_own_command_ends(lab, monkeypatch):
    calls: list[tuple[str, int, bool]] = []

    class Calls:
        def __init__(self, key: str | None) -> None:
            assert key == CANARY

        async def call(self, endpoint: Any, verb: str, document: Any, *, copied: bool) -> Report:
            calls.append((verb, endpoint.port, copied))
            if document["host"] == "gpu02":
                raise NoAnswerError("the Fleet asks again")
            return Report(host="gpu01", fields={"unit": "enabled"})

    monkeypatch.setattr(hosts_module, "HostCalls", Calls)
    reports = Confirmer.reports
    kept: list[Confirmer] = []
    monkeypatch.setattr(Confirmer, "reports", lambda self: kept.append(self) or reports(self))
    seen = build(lab)
    hook = seen.hooks["hosts-confirm"]

    async def both() -> None:
        await asyncio.gather(hook(ended("gpu01", failed=VFS_FAILED)), hook(ended("gpu02")))

    asyncio.run(both())

    assert sorted(calls) == [("confirm", 2222, True), ("confirm", 2222, True)]
    assert hook.opts.ignore_errors is True
    assert seen["hosts-fleet"].inputs["reports"] == {}, "the recording engine ran no hook before it"
    [(name, report)] = reports(kept[0]).items()
    assert (name, report["failed"], report["fields"]) == ("gpu01", VFS_FAILED, {"unit": "enabled"})


def test_a_host_that_could_not_run_the_program_is_not_confirmed(lab):
    kept = Confirmer({"hosts-gpu01": record("gpu01", 1)}, None)

    asyncio.run(kept.confirm(ended("gpu01", failed=MISSING)))

    assert kept.reports()["gpu01"]["failed"] == MISSING


# -- the provider


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> FakeHosts:
    fake = FakeHosts()
    monkeypatch.setattr(Fleet, "_hosts", lambda self: fake)
    monkeypatch.setattr(fleet, "_silent", nobody)
    return fake


async def nobody(_: object) -> list[str]:
    return []


def test_create_gives_results_and_facts_as_data(hosts):
    one = record("gpu01", 1)
    hosts.knows(one)

    outs = FleetRun().create(inputs(one))

    assert outs.results == {"gpu01": {"status": "ready"}}
    assert outs.facts == {"gpu01": {"machine_id": "machine-2201", "boot_id": "0", "repairs": 0}}
    assert outs.hosts == {"gpu01": one}


def test_a_host_that_was_confirmed_in_this_run_is_not_asked_again_and_its_report_is_not_in_the_outputs(
    hosts, monkeypatch
):
    greeted: list[str] = []

    async def greet(records: dict[str, HostRecord]) -> list[str]:
        greeted.extend(records)
        return []

    monkeypatch.setattr(fleet, "_silent", greet)
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.knows(two)
    report = asyncio.run(hosts.call(one.endpoint, "confirm", one.document))
    hosts.calls.clear()
    new = inputs(one, two).model_copy(update={"reports": {"gpu01": report}})

    assert FleetRun().check(None, new) == []
    state = FleetRun().create(new)

    assert state.reports == {}
    assert greeted == ["gpu02"]
    assert {name: result["status"] for name, result in state.results.items()} == {
        "gpu01": "ready",
        "gpu02": "ready",
    }
    assert (hosts.verbs(2201), hosts.verbs(2202)) == ([], ["confirm"])


def test_a_step_that_failed_in_this_runs_command_is_not_tried_a_second_time(hosts):
    one = record("gpu01", 1)
    hosts.knows(one, **{"enp5s0.vfs": 0})
    report = asyncio.run(hosts.call(one.endpoint, "confirm", one.document))
    hosts.calls.clear()
    failed = replace(report, failed=VFS_FAILED)

    state = FleetRun().create(inputs(one).model_copy(update={"reports": {"gpu01": failed}}))

    assert hosts.verbs(2201) == []
    assert state.results["gpu01"] == {"status": "failed", **VFS_FAILED}
    assert state.hosts["gpu01"].unfinished
    assert FleetRun().diff(state, inputs(one)), "the next run continues"


def test_a_failure_that_a_command_reports_reaches_the_results_although_no_record_changed(hosts):
    one = record("gpu01", 1)
    hosts.knows(one)
    state = FleetRun().create(inputs(one))
    failed = Report(host="gpu01", fields=one.fields, failed=VFS_FAILED)
    new = inputs(one).model_copy(update={"reports": {"gpu01": failed}})

    assert FleetRun().diff(state, new) == ["reports"]
    assert FleetRun().update(state, new).results["gpu01"]["step"] == "vfs"


def test_a_repair_is_counted_so_that_what_was_measured_before_is_obsolete(hosts):
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.knows(two)
    outs = FleetRun().create(inputs(one, two))
    hosts.knows(two, **{"enp5s0.mtu_bytes": 1500})

    again = FleetRun().update(outs, inputs(one, two))

    facts = again.facts
    assert {name: known["repairs"] for name, known in facts.items()} == {"gpu01": 0, "gpu02": 1}


def test_a_second_run_over_a_conforming_fleet_is_no_change(hosts):
    one = record("gpu01", 1)
    hosts.knows(one)
    outs = FleetRun().create(inputs(one))

    assert not FleetRun().diff(outs, inputs(one))


def test_vfs_that_come_later_make_a_device_plugin_look_again_once(hosts):
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.knows(two, **{"enp5s0.vfs": 0})
    hosts.stubborn[2202] = {"step": "vfs", "reason": "the NIC has none to give", "hint": "look at its firmware"}
    provider = FleetRun()
    first = provider.create(inputs(one, two))
    assert first.vf_layout == "abc"

    del hosts.stubborn[2202]
    mended = provider.update(first, inputs(one, two))

    assert mended.vf_layout == "abc.1", "the plugin of gpu02 had started without VFs"
    assert not provider.diff(mended, inputs(one, two))
    read, kept = provider.read(mended)
    assert (kept.vf_layout, read.vf_layout) == ("abc", "abc.1"), "nothing that a refresh would show"
    hosts.knows(one, **{"enp5s0.mtu_bytes": 1500})
    assert provider.update(mended, inputs(one, two)).vf_layout == "abc.1", "no VF came or went"


def test_vfs_that_were_lost_and_restored_are_reported_and_restart_the_device_plugin(hosts, capsys):
    one = record("gpu01", 1)
    hosts.knows(one)
    provider = FleetRun()
    outs = provider.create(inputs(one))
    hosts.knows(one, **{"enp5s0.vfs": 0})
    seen, _ = provider.read(outs)

    assert provider.diff(seen, inputs(one))
    assert states(capsys.readouterr().err, "gpu01", "enp5s0.vfs", "device plugin", "restarts")
    assert provider.update(seen, inputs(one)).vf_layout == "abc.1"


def test_a_reboot_that_brings_the_vfs_makes_a_device_plugin_look_again(hosts):
    one = record("gpu01", 1)
    hosts.knows(one, **{"enp5s0.vfs": 0})
    hosts.stubborn[2201] = {"step": "vfs", "reason": "they come at the next boot", "hint": "reboot it"}
    outs = FleetRun().create(inputs(one))
    hosts.knows(one)

    assert FleetRun().update(outs, inputs(one)).vf_layout == "abc.1"


def test_another_layout_in_the_lab_file_is_mark_enough(hosts):
    one = record("gpu01", 1)
    hosts.knows(one)
    outs = FleetRun().create(inputs(one)).model_copy(update={"vf_layout": "abc.3"})
    hosts.knows(one, **{"enp5s0.vfs": 0})

    assert FleetRun().update(outs, inputs(one).model_copy(update={"vf_layout": "def"})).vf_layout == "def"


def test_a_refresh_shows_the_field_that_differs_in_inputs_and_outputs(hosts):
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.knows(two)
    state = FleetRun().create(inputs(one, two))
    hosts.knows(two, **{"enp5s0.mtu_bytes": 1500})

    read, kept = FleetRun().read(state)

    assert read.hosts["gpu01"] == state.hosts["gpu01"]
    assert read.hosts["gpu02"].fields["enp5s0.mtu_bytes"] == 1500
    assert kept.hosts == read.hosts
    assert (read.results, read.facts) == (state.results, state.facts), "an update judges"
    assert FleetRun().diff(read, inputs(one, two)) == ["hosts", "shared"]


def test_a_host_that_is_silent_in_a_refresh_does_not_fail_it(hosts):
    one = record("gpu01", 1)
    hosts.silent = {2201}

    read, _ = FleetRun().read(unread(inputs(one)))

    assert read.hosts["gpu01"].trouble


def test_a_host_that_did_not_answer_is_tried_again_by_the_next_run(hosts):
    one = record("gpu01", 1)
    hosts.silent = {2201}
    outs = FleetRun().create(inputs(one))

    assert outs.results["gpu01"]["status"] == "unreachable"
    assert FleetRun().diff(outs, inputs(one))


def test_a_changed_policy_alone_is_a_change(hosts):
    one = record("gpu01", 1)
    hosts.knows(one)
    outs = FleetRun().create(inputs(one))

    assert FleetRun().diff(outs, inputs(one, repair="none"))


def test_an_unasked_reboot_is_refused_at_preview_under_a_short_name(hosts):
    new = inputs(record("gpu01", 1, rdma_namespaces="exclusive"))

    [failure] = FleetRun().check(inputs(record("gpu01", 1)), new)

    assert failure.property == "reboot"
    assert states(failure.reason, "gpu01", "reboot", "rdma_namespaces")


def test_an_allowed_reboot_is_not_refused(hosts):
    news = inputs(record("gpu01", 1, rdma_namespaces="exclusive"), reboot="stage")

    assert FleetRun().check(inputs(record("gpu01", 1)), news) == []


def test_a_preview_that_does_not_know_the_reports_yet_refuses_all_the_same(hosts):
    content = {**dict(inputs(record("gpu01", 1, rdma_namespaces="exclusive"))), "reports": UNKNOWN}
    new = FleetInputs.model_validate(content)

    assert [failure.property for failure in FleetRun().check(inputs(record("gpu01", 1)), new)] == ["reboot"]
    assert FleetRun().diff(unread(inputs(record("gpu01", 1))), new) == ["hosts", "shared"]


def with_vfs(one: HostRecord, vfs: int) -> HostRecord:
    pfs = [{**pf, "vfs": vfs} for pf in one.pfs]
    fields = {**one.fields, "enp5s0.vfs": vfs}
    return one.model_copy(update={"document": {**one.document, "pfs": pfs}, "fields": fields})


def test_a_preview_asks_hosts_whose_vfs_would_be_removed_who_uses_them(hosts, capsys):
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.facts[2201] = {"vfs_in_use": {"enp5s0 VF 1": "pod a"}, "vfs_offered": {"enp5s0": 8}}
    new = inputs(with_vfs(one, 2), two)

    [failure] = FleetRun().check(inputs(one, two), new)

    assert (failure.property, hosts.verbs(2201), hosts.verbs(2202)) == ("vf_layout", ["probe"], [])
    assert states(failure.reason, "gpu01", "enp5s0.vfs 4 => 2", "1 in use")
    FleetRun().diff(unread(inputs(one, two)), new)
    assert states(capsys.readouterr().err, "gpu01", "1 in use", "seen just now")


def test_delete_undoes_and_does_not_hang_on_a_silent_host(hosts):
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.silent = {2202}

    FleetRun().delete(unread(inputs(one, two)))

    assert hosts.verbs(2201) == ["probe", "undo"]


def test_delete_fails_for_a_host_that_can_be_repaired_so_that_it_is_not_forgotten(hosts):
    one = record("gpu01", 1)
    hosts.knows(one)
    hosts.stubborn[2201] = {"step": "vfs", "reason": "VF 1 is in use", "hint": "drain the node"}

    with pytest.raises(LabError, check=stating("gpu01", "VF 1 is in use", "drain the node")):
        FleetRun().delete(unread(inputs(one)))


def test_the_key_comes_from_the_stacks_configuration_alone(lab, tmp_path, monkeypatch):
    (tmp_path / ".sim/nodes").mkdir(parents=True)
    (tmp_path / ".sim/nodes/id_ed25519").write_text("no key\n")
    monkeypatch.chdir(tmp_path)
    provider = FleetRun({"lab": lab.model_dump_json()})

    with pytest.raises(Exception, match="private key") as raised:
        provider.read(unread(inputs(record("gpu01", 1))))
    assert "no key" not in str(raised.value)


def test_an_error_in_a_step_is_no_host_without_fields(lab, monkeypatch):
    def broken(_document):
        raise KeyError("sysctls")

    monkeypatch.setattr("components.hosts.document.target_fields", broken)

    with pytest.raises(KeyError):
        target_record(lab, lab.nodes[0], "ssh-ed25519 AAAA")


def test_target_records_carry_the_pinned_key(lab):
    one = target_record(lab, lab.nodes[0], "ssh-ed25519 AAAA")

    assert (one.endpoint.address, one.endpoint.port) == ("127.0.12.1", 2222)
    assert one.endpoint.host_key == "ssh-ed25519 AAAA"
    assert repair.unreachable("gpu01", repair.NoAnswerError("x"))["status"] == "unreachable"
