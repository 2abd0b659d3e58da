"""Switches under the recording engine, and the provider as the engine calls it, on the simulator's Onyx."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.provider import log
from components.provider.base import Failure, ProviderConfig
from components.switches.records import switch_record
from components.switches.settings import cables_of
from components.switches.switch_config import SwitchConfig, SwitchConfigInputs, SwitchConfigState
from components.switches.switches import Switches, SwitchesArgs
from components.switches.text import digest_of, switch_text
from components.switches.work import NotOursError
from simulator.switch.front import serve
from simulator.switch.onyx import Console
from simulator.switch.ports import PortConfig
from stacks.base import LabError
from stacks.lab import Lab
from stacks.load import Credentials
from tests.components.switches.labs import switch_entry, with_switches
from tests.components.switches.rig import ADDRESS, Rig, refuse
from tests.engine import Engine, Recorded
from tests.messages import states

CONFIG = "rocelab:switches:SwitchConfig"
KEY = "ssh-ed25519 AAAA"


def build(lab: Lab, exported: dict[str, Any] | None = None) -> Recorded:
    def program() -> None:
        credentials = Credentials(private_key=None, host_keys={}, kubeconfig=None, switch_keys={"sw1": KEY})
        switches = Switches("switches", SwitchesArgs(lab=lab, credentials=credentials))
        for name, value in (("summary", switches.summary), ("facts", switches.joined({"gpu01": {"kernel": "6.1"}}))):
            value.apply(lambda known, name=name: (exported if exported is not None else {}).update({name: known}))

    def answer(type_: str, _name: str, _inputs: Any) -> dict[str, Any]:
        heard = {"1/1": "gpu01 enp5s0", "1/2": ""}
        return {"changes": 2, "backup": "sw1-0.txt", "neighbours": heard} if type_ == CONFIG else {}

    return Engine(answer).run(program)


def test_a_switch_that_is_not_applied_is_text_and_nothing_connects_to_it() -> None:
    lab, exported = with_switches(switch_entry("eos")), {}

    seen = build(lab, exported)

    assert seen.of_type(CONFIG) == {}
    assert exported["summary"]["sw1"] == {
        "os": "eos",
        "ports": 4,
        "applied": False,
        "simulated": True,
        "text_sha256": digest_of(switch_text(lab, lab.switches[0])),
    }
    assert exported["facts"] == {"gpu01": {"kernel": "6.1"}}


def test_an_applied_switch_is_one_resource_and_what_it_changed_asks_for_a_new_measurement() -> None:
    exported: dict[str, Any] = {}

    seen = build(
        with_switches(switch_entry(apply=True), switch_entry("eos", name="sw2", address="127.0.12.251", ports={})),
        exported,
    )

    assert set(seen.of_type(CONFIG)) == {"switches-sw1"}
    assert seen["switches-sw1"].parent == "switches"
    assert seen["switches-sw1"].secrets == frozenset()
    assert exported["facts"]["switch sw1"] == {"repairs": 2}
    assert exported["summary"]["sw1"]["cables"] == "1 of 2 by LLDP"
    assert exported["summary"]["sw1"]["backup"] == "sw1-0.txt"
    assert len(json.dumps(exported["summary"])) < 1000


def test_the_state_of_a_port_stays_small() -> None:
    lab = with_switches(switch_entry(apply=True, allow_global=True), qos={"mode": "lossless"})
    ports = {cable.port: cable.settings for cable in cables_of(lab, lab.switches[0])}
    inputs = SwitchConfigInputs(record=switch_record(lab, lab.switches[0], KEY), ports=ports)
    plain = inputs.plain()

    assert max(len(json.dumps(port)) for port in plain["ports"].values()) < 400
    assert SwitchConfigInputs.model_validate(plain) == inputs
    assert list(SwitchConfigInputs.model_validate({**plain, "ports": dict(sorted(plain["ports"].items()))}).ports) == [
        *ports
    ]


class Engineered(Rig):
    """The provider with a stack's configuration, and the switch on a thread of its own."""

    def provider(self, lab: Lab) -> "Operations":
        return Operations(SwitchConfig(ProviderConfig({"lab": lab.model_dump_json()})))

    def inputs(self, lab: Lab) -> SwitchConfigInputs:
        declared = {cable.port: cable.settings for cable in cables_of(lab, lab.switches[0])}
        return SwitchConfigInputs(record=self.record(lab), ports=declared)


@dataclass(frozen=True)
class Operations:
    """The resource's operations, each to its end."""

    of: SwitchConfig

    def check(self, new: SwitchConfigInputs) -> list[Failure]:
        return asyncio.run(self.of.check(None, new))

    def create(self, new: SwitchConfigInputs) -> SwitchConfigState:
        return asyncio.run(self.of.create(new))

    def diff(self, old: SwitchConfigState, new: SwitchConfigInputs) -> list[str]:
        return asyncio.run(self.of.diff(old, new))

    def read(self, old: SwitchConfigState) -> SwitchConfigState:
        return asyncio.run(self.of.read(old))

    def update(self, old: SwitchConfigState, new: SwitchConfigInputs) -> SwitchConfigState:
        return asyncio.run(self.of.update(old, new))

    def delete(self, old: SwitchConfigState) -> None:
        asyncio.run(self.of.delete(old))


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engineered]:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    monkeypatch.setattr(log, "send", lambda _severity, text, _urn: said.append(text))
    made = Engineered(tmp_path)
    made.backups = said
    (tmp_path / ".sim/nodes").mkdir(parents=True)
    made.key.write_private_key(str(tmp_path / ".sim/nodes/id_ed25519"))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(
        serve(made.frames, tmp_path, tmp_path / "lab.pub", ADDRESS, 0), loop
    ).result()
    made.port = server.get_port()
    yield made

    async def end() -> None:
        server.close()
        while len(asyncio.all_tasks()) > 1:  # sessions whose client has just gone
            await asyncio.sleep(0.01)

    asyncio.run_coroutine_threadsafe(end(), loop).result(timeout=10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_first_preview_shows_what_would_change_on_the_switch_and_changes_nothing(rig: Engineered) -> None:
    lab, before = rig.lab(), dict(rig.frames.configs)

    failures = rig.provider(lab).check(rig.inputs(lab))

    assert failures == []
    assert "sw1 1/1: mtu_bytes 1500 => 9216" in rig.backups
    assert "sw1 1/6: vlans access, untagged 1 => trunk, untagged 4093, tagged 112" in rig.backups
    assert rig.frames.configs == before


def test_a_second_lab_is_refused_at_preview_and_at_up(rig: Engineered) -> None:
    first, second = rig.lab("first"), rig.lab("second")
    rig.provider(first).create(rig.inputs(first))

    failures = rig.provider(second).check(rig.inputs(second))

    assert [failure.property for failure in failures] == ["ports"] * 4
    assert "sw1: 1/1 " in failures[0].reason
    with pytest.raises(NotOursError, match=r"1/1 .*\bfirst\b"):
        rig.provider(second).create(rig.inputs(second))


def test_up_drift_repair_and_destroy(rig: Engineered) -> None:
    lab, before = rig.lab(), dict(rig.frames.configs)
    provider, inputs = rig.provider(lab), rig.inputs(lab)
    state = provider.create(inputs)
    assert rig.frames.configs["gpu02", "enp5s0"] == PortConfig(4094, frozenset({111}), 9216)
    assert state.changes == 1
    assert provider.diff(state, inputs) == []
    assert provider.read(state) == state

    rig.frames.set("gpu02", "enp5s0", mtu_bytes=1500)
    read = provider.read(state)
    assert read.ports["1/5"].mtu_bytes == 1500
    rig.backups.clear()
    assert provider.diff(read, inputs) == ["ports"]
    assert rig.backups == ["sw1 1/5: mtu_bytes 1500 => 9216"]

    again = provider.update(read, inputs)
    assert rig.frames.configs["gpu02", "enp5s0"].mtu_bytes == 9216
    assert again.changes == 2
    assert again.before == state.before, "what was there before us is not what drifted"

    provider.delete(again)
    assert rig.frames.configs == before


def test_a_refresh_reports_a_moved_cable_and_a_taken_port(rig: Engineered) -> None:
    lab = rig.lab()
    provider = rig.provider(lab)
    state = provider.create(rig.inputs(lab))
    rig.backups.clear()
    assert provider.read(state) == state
    assert rig.backups == []

    heard = {"chassis": "52:54:00:11:00:02", "port": "enp5s0", "port_description": "", "system": "gpu02"}
    rig.frames.lldp["gpu01", "enp5s0"] = heard
    kept = rig.folder / "front.json"
    kept.write_text(kept.read_text().replace("rocelab:lab:rail-b", "rocelab:other:rail-b", 1))
    provider.read(state)

    taken, moved = rig.backups
    assert taken.startswith("sw1: 1/2 ")
    assert "other" in taken
    assert moved.startswith("sw1: 1/1: ")
    assert "gpu01 enp5s0" in moved
    assert "gpu02 enp5s0" in moved


def test_a_preview_and_a_refresh_warn_of_a_switch_that_refuses_the_lldp_query(
    rig: Engineered, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "show lldp")
    lab = rig.lab()
    provider = rig.provider(lab)

    assert provider.check(rig.inputs(lab)) == []
    state = provider.create(rig.inputs(lab))
    assert set(state.neighbours.values()) == {""}
    provider.read(state)

    warnings = [said for said in rig.backups if states(said, "sw1", "LLDP", "`show lldp")]
    assert len(warnings) == 2


@pytest.mark.parametrize("said", ["% Not enabled\n", "what?\n"])
def test_a_switch_whose_answer_is_useless_fails_the_first_preview_and_keeps_its_last_values_at_a_refresh(
    rig: Engineered, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    lab = rig.lab()
    provider, inputs = rig.provider(lab), rig.inputs(lab)
    state = provider.create(inputs)
    answer = Console.answer
    monkeypatch.setattr(Console, "answer", lambda self, line: said if "switchport" in line else answer(self, line))
    rig.backups.clear()

    (failure,) = provider.check(inputs)
    assert states(failure.reason, "sw1", "show interfaces switchport")
    assert provider.read(state).ports == state.ports
    assert len([text for text in rig.backups if states(text, "sw1", "show interfaces switchport")]) == 1


def test_a_change_that_fails_names_the_file_with_the_configuration_from_before(
    rig: Engineered, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = rig.lab()
    before = dict(rig.frames.configs)
    refuse(monkeypatch, "interface ethernet 1/5 mtu 9216 force")

    with pytest.raises(LabError) as failed:
        rig.provider(lab).create(rig.inputs(lab))

    assert "The old values were restored." in str(failed.value)
    (place,) = re.findall(r"configuration from before is in (\S+)\.$", str(failed.value))
    assert Path(place).read_text()
    assert rig.frames.configs == before


def test_what_was_there_before_us_outlives_a_state_that_was_never_written(rig: Engineered) -> None:
    lab, before = rig.lab(), dict(rig.frames.configs)
    provider, inputs = rig.provider(lab), rig.inputs(lab)
    lost = provider.create(inputs)

    found = provider.create(inputs)

    assert found.before == lost.before
    provider.delete(found)
    assert rig.frames.configs == before
    assert not list((rig.folder / ".sim/backups").glob("*.json")), "the next lab finds what is there then"


def test_a_port_that_leaves_the_map_is_restored_and_the_others_stay(rig: Engineered) -> None:
    lab = rig.lab()
    state = rig.provider(lab).create(rig.inputs(lab))
    content = json.loads(lab.model_dump_json())
    content["nodes"][1]["state"] = "absent"
    smaller = Lab.model_validate(content)
    inputs = rig.inputs(smaller)

    rig.backups.clear()
    assert rig.provider(smaller).diff(state, inputs) == ["record", "ports"]
    assert [text for text in rig.backups if text.startswith("sw1 1/5: leaves")]
    after = rig.provider(smaller).update(state, inputs)

    assert rig.frames.configs["gpu02", "enp5s0"] == PortConfig(1, frozenset(), 1500)
    assert rig.frames.configs["gpu01", "enp5s0"].mtu_bytes == 9216
    assert set(after.before) == {"1/1", "1/2"}


def test_switch_wide_commands_are_sent_once(rig: Engineered) -> None:
    lab = rig.lab(qos={"mode": "lossless"}, allow_global=True)
    provider, inputs = rig.provider(lab), rig.inputs(lab)
    state = provider.create(inputs)
    assert "dcb priority-flow-control enable force" in inputs.record.global_lines
    kept = (rig.folder / "front.json").read_text()
    assert '"pfc_enabled": true' in kept

    (rig.folder / "front.json").write_text(kept.replace('"traffic pool roce type lossless"', '"kept by somebody"'))
    provider.update(state, inputs)

    assert "kept by somebody" in (rig.folder / "front.json").read_text()
    assert "type lossless" not in (rig.folder / "front.json").read_text()


def test_the_backup_is_a_file_that_only_its_owner_reads_and_never_in_the_state(rig: Engineered) -> None:
    lab = rig.lab()

    state = rig.provider(lab).create(rig.inputs(lab))

    file = rig.folder / ".sim/backups" / state.backup
    assert "interface ethernet 1/1 mtu 1500 force" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert "switchport access" not in json.dumps(state.plain())


def test_a_silent_switch_is_a_warning_at_preview_and_keeps_its_place_at_destroy(rig: Engineered) -> None:
    lab = rig.lab()
    state = rig.provider(lab).create(rig.inputs(lab))
    port, rig.port = rig.port, 1
    elsewhere = rig.lab()
    silent = state.model_copy(update={"record": rig.record(elsewhere)})

    assert rig.provider(elsewhere).check(rig.inputs(elsewhere)) == []
    assert "switches[].apply: false" in rig.backups[-1]
    assert rig.provider(elsewhere).read(silent).ports == state.ports
    with pytest.raises(Exception, match=r"sw1 \(127\.0\.0\.1:1\)"):
        rig.provider(elsewhere).delete(silent)
    rig.port = port


def test_no_secret_is_in_what_the_provider_holds(rig: Engineered) -> None:
    key = (rig.folder / ".sim/nodes/id_ed25519").read_text().splitlines()[2]
    lab = rig.lab()

    state = rig.provider(lab).create(rig.inputs(lab))

    assert key not in json.dumps(state.plain())
