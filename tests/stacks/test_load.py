"""From stack configuration to lab and credentials, as the program does it."""

import json
from pathlib import Path

import pulumi
import pytest

from stacks.base import LabError
from stacks.lab import Lab
from stacks.load import Credentials, load_credentials, load_lab
from stacks.read import parse_lab, read_stack_file
from tests.conftest import ROOT
from tests.engine import Engine
from tests.labs import section_of, simulator_files
from tests.messages import stating

PVRDMA = section_of("Pulumi.lab-pvrdma.yaml")
REFERENCE = section_of("Pulumi.lab.yaml")


def test_a_wrong_lab_ends_the_program_with_its_faults(engine: Engine) -> None:
    wrong = json.dumps({**REFERENCE, "kind": "cloud"})

    with pytest.raises(pulumi.RunError, check=stating("kind", "'cloud'", "'virtual'", "'hardware'")):
        engine.run(lambda: load_lab(pulumi.Config()), config={"rocelab:lab": wrong})


def test_line_numbers_are_given_only_for_the_file_that_was_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    wrong = json.dumps({**REFERENCE, "kind": "cloud"})

    with pytest.raises(pulumi.RunError) as refused:
        engine.run(lambda: load_lab(pulumi.Config()), config={"rocelab:lab": wrong})

    assert "line" not in str(refused.value), "the fault is in another file than Pulumi.lab.yaml"


@pytest.mark.parametrize("value", ["true", "True", "1"])
def test_a_lab_with_virtual_machines_is_refused_in_a_shell_that_saves_no_checkpoints(
    engine: Engine, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `eval "$(make env)"` for a lab of hosts, when `pulumi up --stack` names one with a fabric."""
    monkeypatch.setenv("PULUMI_SKIP_CHECKPOINTS", value)

    with pytest.raises(pulumi.RunError, check=stating("unset PULUMI_SKIP_CHECKPOINTS", "eval")):
        engine.run(lambda: load_lab(pulumi.Config()), config={"rocelab:lab": json.dumps(PVRDMA)})


@pytest.mark.parametrize(("lab", "value"), [("REFERENCE", "true"), ("PVRDMA", "false"), ("PVRDMA", "")])
def test_a_state_saved_once_suits_labs_without_virtual_machines_alone(
    engine: Engine, lab: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_SKIP_CHECKPOINTS", value)

    engine.run(lambda: load_lab(pulumi.Config()), config={"rocelab:lab": json.dumps(globals()[lab])})


def test_credentials_of_the_simulator_are_read_as_secrets(
    engine: Engine, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    seen: list[Credentials] = []
    secret: list[bool] = []

    def program() -> None:
        seen.append(load_credentials(lab, pulumi.Config()))
        for value in (seen[0].private_key, seen[0].kubeconfig):
            assert value is not None
            pulumi.Output.from_input(value.is_secret()).apply(secret.append)

    engine.run(program)

    assert set(seen[0].host_keys) == {"gpu01", "gpu02"}
    assert secret == [True, True], "or key and kubeconfig stand in the state in clear"


def test_without_a_simulator_the_error_says_how_to_start_it(
    engine: Engine, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(pulumi.RunError, check=stating("access.key_file", ".sim/nodes/id_ed25519", "make up")):
        engine.run(lambda: load_credentials(lab, pulumi.Config()))


def test_a_secret_key_with_a_passphrase_ends_the_preview(
    engine: Engine, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    in_secret = lab.model_copy(update={"access": lab.access.model_copy(update={"identity": "secret"})})
    locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nCANARY\n"

    with pytest.raises(pulumi.RunError, check=stating("rocelab:sshPrivateKey", "passphrase", "ssh-add")) as refused:
        engine.run(
            lambda: load_credentials(in_secret, pulumi.Config()),
            preview=True,
            config={"rocelab:sshPrivateKey": locked},
        )

    assert "CANARY" not in str(refused.value)


def test_a_lab_of_any_size_lies_in_a_stack_file_that_the_configuration_names(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "pod1.yaml").write_text((ROOT / "Pulumi.lab.yaml").read_text())
    (tmp_path / "Pulumi.lab.yaml").write_text("config: {rocelab:lab: {file: labs/pod1.yaml}}\n")
    labs: list[Lab] = []

    engine.run(
        lambda: labs.append(load_lab(pulumi.Config())), config={"rocelab:lab": json.dumps({"file": "labs/pod1.yaml"})}
    )

    assert labs == [read_stack_file(ROOT / "Pulumi.lab.yaml")]
    assert read_stack_file(tmp_path / "Pulumi.lab.yaml") == labs[0]


def test_a_fault_names_the_file_that_has_the_lab_and_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "Pulumi.lab.yaml").read_text()
    (tmp_path / "pod1.yaml").write_text(text.replace("kind: virtual", "kind: cloud"))
    (tmp_path / "again.yaml").write_text("config: {rocelab:lab: {file: pod1.yaml}}\n")
    line = next(number for number, content in enumerate(text.splitlines(), 1) if "kind: virtual" in content)

    with pytest.raises(LabError, check=stating("pod1.yaml", f"line {line}", "'cloud'")):
        parse_lab('{"file": "pod1.yaml"}', "Pulumi.lab.yaml")
    (tmp_path / "twice.yaml").write_text("config: {rocelab:lab: {file: again.yaml}}\n")
    with pytest.raises(LabError, check=stating("again.yaml", "rocelab:lab")):
        read_stack_file(tmp_path / "twice.yaml")
    with pytest.raises(LabError, check=stating("gone.yaml")):
        parse_lab('{"file": "gone.yaml"}', "Pulumi.lab.yaml")
