"""Previews of any size: hosts and switches as their resources keep them, in the form of the recorded samples."""

import json
from collections.abc import Mapping
from typing import Any

from components.hosts.records import HostRecord
from components.hosts.records import properties_of as host_properties
from components.switches.records import switch_record
from components.switches.settings import cables_of
from components.switches.switch_config import SwitchConfigInputs
from stacks.lab import Lab
from tests.components.hosts.fleet_hosts import record
from tests.conftest import ROOT

SAMPLES = ROOT / "tests" / "samples" / "review"
FLEET = "rocelab:hosts:Hosts$rocelab:hosts:Fleet::hosts-fleet"
MACHINE = "rocelab:fabric:Machines$vsphere:index/virtualMachine:VirtualMachine::fabric-machines-{}"
HARDWARE = "rocelab:fabric:Machines$rocelab:fabric:MachineHardware::fabric-machines-{}-hardware"
SWITCH = "rocelab:switches:Switches$rocelab:switches:SwitchConfig::switches-{}"
COMMAND = "rocelab:hosts:Hosts$command:remote:Command::hosts-{}"
Step = dict[str, Any]


def sample(name: str) -> str:
    """A recorded preview."""
    return (SAMPLES / f"{name}.json").read_text()


def preview(*steps: Step, diagnostics: tuple[dict[str, str], ...] = (), **more: Any) -> str:
    """The text of a preview with these steps."""
    content = {"config": {}, "steps": [step("same", "pulumi:pulumi:Stack::rocelab-pod1"), *steps], **more}
    return json.dumps({**content, "diagnostics": list(diagnostics), "changeSummary": {}})


def step(op: str, urn: str, old: Mapping[str, Any] | None = None, new: Mapping[str, Any] | None = None) -> Step:
    """A step on a resource, with the outputs before and the inputs after."""
    states = {"oldState": old and {"outputs": old}, "newState": new and {"inputs": new}}
    given = {key: state for key, state in states.items() if state}
    return {"op": op, "urn": f"urn:pulumi:pod1::rocelab::{urn}", "detailedDiff": None, **given}


def hosts(
    olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord], facts: Mapping[str, Any] | None = None
) -> Step:
    """The step of all hosts."""
    old = {**host_properties(olds), "facts": facts or {}}
    return step("update", FLEET, old, host_properties(news))


def fleet(count: int, **changes: Any) -> dict[str, HostRecord]:
    """Hosts `gpu0001` and on, alike."""
    return {f"gpu{number:04}": record(f"gpu{number:04}", 1, **changes) for number in range(1, count + 1)}


def seen(one: HostRecord, **fields: Any) -> HostRecord:
    """A host on which something else was found."""
    return one.model_copy(update={"fields": {**one.fields, **fields}})


def switch_properties(lab: Lab, **changes: Any) -> dict[str, Any]:
    """A switch as its resource keeps it; changes are of every port."""
    switch = lab.switches[0]
    ports = {cable.port: cable.settings.model_copy(update=changes) for cable in cables_of(lab, switch)}
    return SwitchConfigInputs(record=switch_record(lab, switch, "ssh-ed25519 AAAA"), ports=ports).plain()
