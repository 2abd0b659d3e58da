"""Where keys and kubeconfig come from, and that a missing one is named without showing anything."""

import asyncio
from pathlib import Path

import pytest

from components.ssh.connection import keys_of
from components.ssh.credentials import access_to, private_key
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.ssh.server import USER_KEY, text_of
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

    access = asyncio.run(access_to(with_access(lab, identity="agent"), root, {}.get))

    assert {name: (one.place, one.host_key) for name, one in access.login.endpoints.items()} == {
        "gpu01": ("127.0.12.1:2222", "ssh-ed25519 AAAA"),
        "gpu02": ("127.0.12.2:2222", "ssh-ed25519 BBBB"),
    }
    assert access.kubeconfig == "apiVersion: v1\n"


def test_a_missing_kubeconfig_names_its_key_in_the_lab_file(lab: Lab, root: Path) -> None:
    with pytest.raises(LabError, check=stating("cluster.kubeconfig_file", ".sim/kubeconfig")):
        asyncio.run(access_to(with_access(lab, identity="agent"), root, {}.get))


@pytest.mark.parametrize(
    "damaged", ["ssh-ed25519 CANARY", text_of(USER_KEY)[:200], text_of(USER_KEY).replace("\n", " ")]
)
def test_a_damaged_key_is_an_error_with_its_remedy_and_without_its_content(damaged: str) -> None:
    with pytest.raises(LabError, check=stating("private key", "ssh-add", "passphrase")) as refused:
        keys_of(damaged)

    assert not any(line in str(refused.value) for line in damaged.splitlines() if "BEGIN" not in line)


def test_a_key_with_a_passphrase_is_an_error_with_its_remedy() -> None:
    locked = USER_KEY.export_private_key("pkcs8-pem", passphrase="locked").decode()

    with pytest.raises(LabError, check=stating("private key", "ssh-add", "passphrase")):
        keys_of(locked)
