"""Runs of the host program on a fake host."""

import json
from typing import Any

from components.hosts.program.main import perform
from components.hosts.records import target_fields
from tests.components.hosts.kernel import FakeHost

PROGRAM = b"print('the program')\n"


def run(verb: str, machine: FakeHost, document: dict[str, Any]) -> dict[str, Any]:
    return perform(verb, machine, json.dumps(document), PROGRAM)


def made(machine: FakeHost, document: dict[str, Any]) -> dict[str, Any]:
    """A conforming, confirmed host."""
    assert run("apply", machine, document)["failed"] is None
    assert run("confirm", machine, document)["failed"] is None
    result = run("probe", machine, document)
    assert result["fields"] == target_fields(document)
    return result


def differing(machine: FakeHost, document: dict[str, Any]) -> dict[str, Any]:
    found = run("probe", machine, document)["fields"]
    return {field: found[field] for field, value in target_fields(document).items() if found[field] != value}


def fewer_vfs(document: dict[str, Any]) -> dict[str, Any]:
    first, *rest = document["pfs"]
    return {**document, "pfs": [{**first, "vfs": 2}, *rest]}


POD = "5d2b3a0e-7c1f-4f6a-9a38-0c5f2e6b7d11"
POD_CGROUP = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice"


def given_to_a_pod(machine: FakeHost, alive: bool = True) -> None:
    """The kubelet's checkpoint as of v1.20 and later, and the pod's cgroup as its systemd driver names it."""
    entry = {"PodUID": POD, "ResourceName": "intel.com/sriov_111", "DeviceIDs": {"-1": ["0000:05:10.1"]}}
    place = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    machine.file(place, json.dumps({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1}))
    if alive:
        machine.file(f"/sys/fs/cgroup/{POD_CGROUP}/cgroup.procs", "")
