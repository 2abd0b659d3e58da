"""The whole program on a lab that makes its cluster: where the kubeconfig comes from, and what never changes it."""

import asyncio
import json
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pulumi.output import Unknown

from components.cluster.bootstrap import kubeconfig as module
from components.cluster.bootstrap.kubeconfig import Kubeconfig, KubeconfigInputs, KubeconfigState
from components.provider.base import ProviderConfig
from stacks.base import LabError
from tests.components.cluster.conftest import small_definitions  # noqa: F401  # a fixture
from tests.conftest import ROOT
from tests.engine import Engine, Recorded
from tests.labs import HOST_KEY, made_here

KUBECONFIG = "rocelab:cluster:Kubeconfig"
ADMIN = "apiVersion: v1\nkind: Config\nclusters: [{name: lab}]\n"


def answer(type_: str, _name: str, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    if type_.endswith(":Fleet"):
        return {"results": {}, "facts": {}, "vf_layout": "0123456789abcdef"}
    return {"kubeconfig": ADMIN} if type_ == KUBECONFIG else {}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_definitions: None) -> Path:  # noqa: F811
    del small_definitions  # used for its effect
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(here: Path, lab: dict[str, Any]) -> Recorded:
    lines = [f"{node['address']} ssh-ed25519 {HOST_KEY}\n" for node in lab["nodes"]]
    ports = [f"[{node['address']}]:2022 ssh-ed25519 {HOST_KEY}\n" for node in lab["nodes"]]
    (here / "known_hosts").write_text("".join(lines + ports))
    main = str(ROOT / "__main__.py")
    return Engine(answer).run(lambda: runpy.run_path(main), preview=True, config={"rocelab:lab": json.dumps(lab)})


def of_kubernetes(seen: Recorded) -> dict[str, Any]:
    """Everything that the Kubernetes provider would be asked for, and the provider itself."""
    kinds = ("kubernetes:", "pulumi:providers:kubernetes")
    return {name: comparable(one.inputs) for name, one in seen.resources.items() if one.type.startswith(kinds)}


def comparable(value: Any) -> Any:
    """Two values that a preview cannot know are each their own object."""
    if isinstance(value, Mapping):
        return {key: comparable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    return "unknown" if isinstance(value, Unknown) else value


def test_the_kubeconfig_comes_from_a_resource_that_waits_for_the_hosts(here):
    seen = program(here, made_here())
    found = seen["bootstrap-kubeconfig"]

    assert found.type == KUBECONFIG
    assert {key: value for key, value in found.inputs.items() if not key.startswith("__")} == {"cluster": "lab"}
    assert "hosts-fleet" in found.depends_on, "before it there is no cluster"
    assert seen["cluster-provider"].inputs["kubeconfig"] == ADMIN
    assert seen["cluster-provider"].inputs["clusterIdentifier"] == "lab"
    assert "bootstrap-kubeconfig" in seen["cluster-provider"].depends_on
    assert "cluster-flannel-daemonset" in seen.resources


def test_an_edited_script_changes_nothing_of_kubernetes(here, monkeypatch):
    before = program(here, made_here())
    monkeypatch.setattr("components.hosts.hosts.digest", lambda: "0" * 64)
    monkeypatch.setattr("components.hosts.delivery.digest", lambda: "0" * 64)
    monkeypatch.setattr("components.hosts.calls.digest", lambda: "0" * 64)
    after = program(here, made_here())

    assert before["hosts-program"].inputs != after["hosts-program"].inputs, "or nothing was edited"
    assert before["hosts-gpu01"].inputs != after["hosts-gpu01"].inputs
    assert of_kubernetes(after) == of_kubernetes(before)
    assert after["bootstrap-kubeconfig"].inputs["cluster"] == before["bootstrap-kubeconfig"].inputs["cluster"]


def test_hosts_that_answer_elsewhere_and_a_new_way_to_the_api_change_nothing_of_kubernetes(here):
    before = program(here, made_here(3))
    moved = made_here(3, control_plane_endpoint="api.lab.example:6443")
    for node in moved["nodes"]:
        node["ssh_port"] = 2022
    after = program(here, moved)
    changed = {name for name, inputs in of_kubernetes(after).items() if inputs != of_kubernetes(before).get(name)}

    assert before["hosts-fleet"].inputs != after["hosts-fleet"].inputs, "or nothing has moved"
    assert changed <= {"validation-plan"}, "the plan of the measurements names the ports that are logged in to"
    assert after["bootstrap-kubeconfig"].inputs["cluster"] == before["bootstrap-kubeconfig"].inputs["cluster"]


def test_only_another_cluster_is_another_kubeconfig():
    kubeconfig, state = Kubeconfig(ProviderConfig({})), KubeconfigState(cluster="lab", kubeconfig=ADMIN)

    assert asyncio.run(kubeconfig.diff(state, KubeconfigInputs(cluster="lab"))) == []
    assert asyncio.run(kubeconfig.diff(state, KubeconfigInputs(cluster="other"))) == ["cluster"]


def test_a_refresh_takes_renewed_certificates_and_keeps_the_old_ones_of_silent_hosts(monkeypatch, capsys):
    kubeconfig, state = Kubeconfig(ProviderConfig({})), KubeconfigState(cluster="lab", kubeconfig=ADMIN)
    unread = "cluster.bootstrap: no control plane gives a kubeconfig"

    async def renewed(*_: object) -> str:
        return ADMIN + "# renewed\n"

    async def silent(*_: object) -> str:
        raise LabError(unread)

    monkeypatch.setattr(module, "admin_kubeconfig", renewed)
    assert asyncio.run(kubeconfig.read(state)).kubeconfig.endswith("# renewed\n")

    monkeypatch.setattr(module, "admin_kubeconfig", silent)
    assert asyncio.run(kubeconfig.read(state)) == state
    assert capsys.readouterr().err == f"warning: {unread}\n"
    with pytest.raises(LabError):
        asyncio.run(kubeconfig.create(KubeconfigInputs(cluster="lab")))
