"""The command that prints a job."""

from pathlib import Path

import pytest
import yaml

from components.cli.app import main
from tests.conftest import ROOT

DEEPOPS = ROOT / "examples" / "deepops" / "Pulumi.deepops.yaml"


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_job_goes_to_stdout_alone_and_how_to_follow_it_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "nccl", "--transport", "tcp"]) == 0
    out, err = capsys.readouterr()

    job = yaml.safe_load(out)
    assert (job["kind"], job["metadata"]["name"]) == ("MPIJob", "nccl-tcp")
    assert f"-n {job['metadata']['namespace']} -l training.kubeflow.org/job-name=nccl-tcp," in err


def test_another_file_and_another_image_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "tf_cnn", "--config-file", str(DEEPOPS), "--image", "elsewhere/tf:1"]) == 0

    assert "image: elsewhere/tf:1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nccl", "--stack", "nowhere"], "has no Pulumi.nowhere.yaml"),
        (["horovod"], "images.training.image: missing"),
        (["nccl", "--transport", "host"], "--device-resource"),
    ],
)
def test_what_cannot_be_rendered_is_a_line_on_stderr_and_nothing_on_stdout(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["job", *arguments]) == 2
    out, err = capsys.readouterr()

    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_the_same_lab_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    texts = set()
    for _ in range(2):
        main(["job", "nccl"])
        texts.add(capsys.readouterr().out)

    assert len(texts) == 1
    assert not any(Path(word).is_absolute() and "main" in word for word in texts.pop().split())
