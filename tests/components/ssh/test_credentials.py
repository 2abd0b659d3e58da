"""Where keys and kubeconfig come from, and that a missing one is named without showing anything."""

from pathlib import Path

import pytest

from components.ssh.credentials import access_to, private_key
from stacks.base import LabError
from stacks.lab import Lab
from tests.messages import stating

HOST_KEYS = "[127.0.12.1]:2222 ssh-ed25519 AAAA\n[127.0.12.2]:2222 ssh-ed25519 BBBB\n"


def with_access(lab: Lab, **changes: object) -> Lab:
    return lab.model_copy(update={"access": lab.access.model_copy(update=changes)})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".sim/nodes").mkdir(parents=True)
    (tmp_path / ".sim/nodes/known_hosts").write_text(HOST_KEYS)
    return tmp_path


def test_an_agent_gives_no_key_to_show_and_a_secret_comes_from_the_stack(lab: Lab, root: Path) -> None:
    assert private_key(with_access(lab, identity="agent"), {}.get, root) is None
    assert private_key(with_access(lab, identity="secret"), {"sshPrivateKey": "CANARY"}.get, root) == "CANARY"


def test_a_secret_that_the_stack_has_not_is_named_with_the_command_that_sets_it(lab: Lab, root: Path) -> None:
    with pytest.raises(LabError, check=stating("config set --secret rocelab:sshPrivateKey")):
        private_key(with_access(lab, identity="secret"), {"sshPrivateKey": ""}.get, root)


def test_every_active_node_has_its_place_and_the_key_that_must_answer(lab: Lab, root: Path) -> None:
    (root / ".sim/kubeconfig").write_text("apiVersion: v1\n")

    access = access_to(with_access(lab, identity="agent"), root, {}.get)

    assert {name: (one.place, one.host_key) for name, one in access.login.endpoints.items()} == {
        "gpu01": ("127.0.12.1:2222", "ssh-ed25519 AAAA"),
        "gpu02": ("127.0.12.2:2222", "ssh-ed25519 BBBB"),
    }
    assert access.kubeconfig == "apiVersion: v1\n"


def test_a_missing_kubeconfig_names_its_key_in_the_lab_file(lab: Lab, root: Path) -> None:
    with pytest.raises(LabError, check=stating("cluster.kubeconfig_file", ".sim/kubeconfig")):
        access_to(with_access(lab, identity="agent"), root, {}.get)
