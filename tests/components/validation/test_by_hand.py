"""The runner by hand: what it keeps, what it hides, and by what it judges. It measures on the simulator alone."""

import asyncio
import gzip
import json
import os
import signal
from pathlib import Path

import pytest

from components.cli.app import main
from components.validation import by_hand
from components.validation.benchmarks.plan import Plan
from components.validation.measuring import Run, RunContext
from components.validation.records import TransferResult
from tests.components.validation.labs import record, reduced
from tests.conftest import ROOT
from tests.messages import states

PULUMI = """#!/bin/sh
case "$*" in
  *"config get rocelab:vcenterPassword"*) echo canary-password ;;
  *) echo "error: configuration key '$3' not found for stack 'lab'" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RunContext]:
    """A checkout with keys and a pulumi that knows one secret; what each measurement is told beside its plan."""
    nodes, programs = tmp_path / ".sim" / "nodes", tmp_path / "bin"
    nodes.mkdir(parents=True)
    programs.mkdir()
    (nodes / "id_ed25519").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE=\n")
    line = "[127.0.12.{}]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEk0\n"
    (nodes / "known_hosts").write_text(line.format(1) + line.format(2))
    (tmp_path / ".sim" / "kubeconfig").write_text("CANARY")
    (programs / "pulumi").write_text(PULUMI)
    (programs / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    told: list[RunContext] = []

    async def measure(plan: Plan, _access: object, _say: object, *, around: RunContext) -> Run:
        told.append(around)
        done = record(plan, 0.1, nccl=reduced(replayed=True))
        return Run(record=done, raw={"a": "the vCenter said canary-password: no", "b": "b3BlbnNzaC1rZXktdjE="})

    monkeypatch.setattr(by_hand, "measure", measure)
    return told


def run_by_hand(*options: str) -> int:
    return main(["measure", "--config-file", str(ROOT / "Pulumi.lab.yaml"), *options])


def test_no_secret_of_the_stack_and_no_key_is_kept(contexts: list[RunContext], tmp_path: Path) -> None:
    assert run_by_hand() == 0

    folder = tmp_path / ".sim" / "runs" / "lab"
    texts = [gzip.decompress(path.read_bytes()).decode() for path in folder.glob("*.gz")]
    assert len(texts) == 2
    assert any("the vCenter said [redacted]: no" in text for text in texts)
    assert not any("canary" in text or "b3BlbnNz" in text for text in texts)


def test_where_the_engine_does_not_open_the_secrets_it_says_that_outputs_are_not_redacted_of_them(
    contexts: list[RunContext], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin" / "pulumi").write_text("#!/bin/sh\necho 'error: incorrect passphrase' >&2; exit 1\n")

    assert run_by_hand() == 0
    (told,) = (line for line in capsys.readouterr().err.splitlines() if "redacted" in line)
    assert states(told, "secrets", "redacted", "incorrect passphrase")


def test_the_document_has_record_and_verdict_and_nothing_else_is_on_stdout(
    contexts: list[RunContext], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_by_hand("--json") == 0
    out, err = capsys.readouterr()

    document = json.loads(out)
    assert (len(contexts), document["verdict"]["function"]) == (1, "pass")
    assert (tmp_path / ".sim" / "runs" / "lab" / f"{document['record']['run_id']}.json.gz").is_file()
    assert "raw outputs: " in err


@pytest.mark.parametrize(("reason", "code"), [("busy: run x of lab y", 4), ("no route to host", 1)])
def test_a_fabric_in_use_is_distinguished_from_one_that_fails(
    contexts: list[RunContext], monkeypatch: pytest.MonkeyPatch, reason: str, code: int
) -> None:
    broken = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=(reason,))

    async def measure(plan: Plan, *_: object, **__: object) -> Run:
        done = record(plan, 0.1, also=[broken], nccl=reduced(replayed=True))
        return Run(record=done.model_copy(update={"transfers": (broken,)}), raw={})

    monkeypatch.setattr(by_hand, "measure", measure)

    assert run_by_hand() == code
    assert contexts == []


def test_a_signal_ends_the_run_with_its_own_exit_code(
    contexts: list[RunContext], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def measure(*_: object, **__: object) -> Run:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)
        raise AssertionError("it was not ended")

    monkeypatch.setattr(by_hand, "measure", measure)

    assert run_by_hand() == 130
    assert capsys.readouterr().err.endswith("ended; both ends of the running tests were stopped\n")
    assert contexts == []
