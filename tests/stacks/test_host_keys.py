"""Host keys of machines that the lab makes: known before the machine is, and to nobody without the secret."""

import copy
import subprocess
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.ssh.credentials import host_keys
from stacks.base import LabError
from stacks.host_keys import SEED_KEY, host_key, machine_keys, pinned_keys
from stacks.lab import Lab
from stacks.load import Credentials, load_credentials
from stacks.machines import ExistingMachine
from tests.engine import Engine
from tests.labs import HOST_KEY, lab_of, section_of
from tests.messages import states, stating

LAB = section_of("Pulumi.lab-pvrdma.yaml")
SEED = "canary-of-the-host-keys-0123456789"
SECRETS, NOTHING = {SEED_KEY: SEED}, dict[str, str]()
FIRST = (IPv4Address("127.0.12.1"), 2222)


def lab_with(**fabric: Any) -> Lab:
    content = copy.deepcopy(LAB)
    content["fabric"] = {key: value for key, value in content["fabric"].items() if not key.startswith("host_keys")}
    content["fabric"].update(fabric)
    return lab_of(content)


def by_secret() -> Lab:
    return lab_with(host_keys="secret")


def test_openssh_reads_the_private_half_and_finds_the_public_one(tmp_path: Path) -> None:
    key = host_key(SEED, *FIRST)
    file = tmp_path / "key"
    file.touch(mode=0o600)
    file.write_text(key.private)

    shown = subprocess.run(["ssh-keygen", "-y", "-P", "", "-f", file], capture_output=True, text=True, check=True)

    assert " ".join(shown.stdout.split()[:2]) == key.public


def test_the_same_machine_has_the_same_key_in_every_run() -> None:
    assert host_key(SEED, *FIRST).private == host_key(SEED, *FIRST).private, "or every run would change the machine"


def test_another_machine_port_or_secret_has_another_key() -> None:
    places = [FIRST, (IPv4Address("127.0.12.2"), 2222), (FIRST[0], 22)]
    keys = {host_key(seed, *place).public for place in places for seed in (SEED, SEED + "x")}

    assert len(keys) == 6


def test_a_key_never_shows_its_private_half_in_a_message() -> None:
    assert "PRIVATE" not in repr(host_key(SEED, *FIRST))


def test_a_renamed_machine_keeps_its_key(tmp_path: Path) -> None:
    lab = by_secret()
    renamed = lab.nodes[0].model_copy(update={"name": "worker-a", "formerly": "gpu01"})
    after = lab.model_copy(update={"nodes": (renamed, lab.nodes[1])})

    keys = pinned_keys(after, after.endpoints(), tmp_path, SECRETS.get)

    assert keys["worker-a"] == host_key(SEED, *FIRST).public


def test_connections_want_to_see_what_machines_are_given(tmp_path: Path) -> None:
    lab = by_secret()
    given = machine_keys(lab, lab.endpoints(), tmp_path, SECRETS.get)

    wanted = host_keys(lab, tmp_path, SECRETS.get)

    assert wanted == {name: key.public for name, key in given.items()}
    assert set(wanted) == {"gpu01", "gpu02"}, "and no known_hosts had to be there"


def test_bare_metal_beside_machines_is_still_read_from_known_hosts(tmp_path: Path) -> None:
    lab = by_secret()
    places = {**lab.endpoints(), "dgx01": (IPv4Address("127.0.12.9"), 2222)}
    (tmp_path / ".sim/nodes").mkdir(parents=True)
    (tmp_path / ".sim/nodes/known_hosts").write_text(f"[127.0.12.9]:2222 ssh-ed25519 {HOST_KEY}\n")

    keys = pinned_keys(lab, places, tmp_path, SECRETS.get)

    assert list(keys) == ["gpu01", "gpu02", "dgx01"]
    assert keys["dgx01"] == f"ssh-ed25519 {HOST_KEY}"


def test_a_machine_that_was_there_before_has_a_key_of_its_own(tmp_path: Path) -> None:
    lab = by_secret()
    theirs = lab.nodes[1].model_copy(update={"machine": ExistingMachine(existing="corp-gpu")})
    lab = lab.model_copy(update={"nodes": (lab.nodes[0], theirs)})
    (tmp_path / ".sim/nodes").mkdir(parents=True)
    (tmp_path / ".sim/nodes/known_hosts").write_text(f"[127.0.12.2]:2222 ssh-ed25519 {HOST_KEY}\n")

    assert list(machine_keys(lab, lab.endpoints(), tmp_path, SECRETS.get)) == ["gpu01"]
    assert pinned_keys(lab, lab.endpoints(), tmp_path, SECRETS.get)["gpu02"] == f"ssh-ed25519 {HOST_KEY}"


def test_machines_whose_keys_are_written_down_are_given_none(tmp_path: Path) -> None:
    lab = lab_with()
    (tmp_path / ".sim/nodes").mkdir(parents=True)
    (tmp_path / ".sim/nodes/known_hosts").write_text(
        "".join(f"[127.0.12.{number}]:2222 ssh-ed25519 {HOST_KEY}\n" for number in (1, 2))
    )

    assert machine_keys(lab, lab.endpoints(), tmp_path, SECRETS.get) == {}
    assert set(pinned_keys(lab, lab.endpoints(), tmp_path, NOTHING.get).values()) == {f"ssh-ed25519 {HOST_KEY}"}


@pytest.mark.parametrize(("seed", "facts"), [(None, ["nothing"]), ("short", [5, 32])])
def test_a_secret_that_is_missing_or_short_is_refused_with_the_command_that_sets_it(
    tmp_path: Path, seed: str | None, facts: list[str | int]
) -> None:
    lab = by_secret()

    with pytest.raises(LabError, check=stating("rocelab:hostKeySeed", *facts)) as refused:
        pinned_keys(lab, lab.endpoints(), tmp_path, lambda _key: seed)

    assert states(str(refused.value), "pulumi config set --secret rocelab:hostKeySeed")
    assert "short" not in str(refused.value)


def test_the_simulators_secret_is_a_file_that_sim_up_writes(tmp_path: Path) -> None:
    lab = lab_with(host_keys="file", host_keys_file="seed")
    with pytest.raises(LabError, check=stating("fabric.host_keys_file", "seed", "make up")):
        pinned_keys(lab, lab.endpoints(), tmp_path, NOTHING.get)

    (tmp_path / "seed").write_text(f"{SEED}\n")

    assert pinned_keys(lab, lab.endpoints(), tmp_path, NOTHING.get)["gpu01"] == host_key(SEED, *FIRST).public


@pytest.mark.parametrize(
    "fabric",
    [
        {"host_keys": "file"},
        {"host_keys": "secret", "host_keys_file": "seed"},
    ],
)
def test_a_file_and_the_choice_of_it_go_together(fabric: dict[str, Any]) -> None:
    with pytest.raises(LabError, check=stating("fabric.host_keys_file", "host_keys: file")):
        lab_with(**fabric)


def test_a_file_is_refused_for_hardware() -> None:
    content = copy.deepcopy(LAB)
    content["kind"] = "hardware"

    with pytest.raises(LabError, check=stating("fabric.host_keys", "file", "simulator")):
        lab_of(content)


def test_the_program_knows_both_halves_from_the_stacks_secret(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".sim/nodes").mkdir(parents=True)
    (tmp_path / ".sim/nodes/id_ed25519").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n")
    (tmp_path / ".sim/vcenter").mkdir()
    (tmp_path / ".sim/vcenter/password").write_text("x")
    (tmp_path / ".sim/kubeconfig").write_text("apiVersion: v1\n")
    monkeypatch.chdir(tmp_path)
    seen: list[Credentials] = []

    engine.run(
        lambda: seen.append(load_credentials(by_secret(), pulumi.Config())), config={f"rocelab:{SEED_KEY}": SEED}
    )

    assert seen[0].host_keys["gpu01"] == seen[0].machine_keys["gpu01"].public == host_key(SEED, *FIRST).public
    assert SEED not in repr(seen[0])
