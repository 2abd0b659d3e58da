"""A Bitfusion client's proofs: what runs, how long it waits, and what is called passed. The programs are recordings."""

import asyncio
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.cli import bitfusion as verb
from components.cli.app import main
from components.ssh.connection import NoAnswerError
from components.ssh.session import CommandResult
from components.validation.bitfusion import IN_IMAGE, BitfusionCheck, Proof, checks, judged, prove
from stacks.lab import Lab
from stacks.read import KEY
from tests.conftest import ROOT
from tests.labs import lab_of, section_of
from tests.messages import states

MEASURED = (ROOT / "tests/samples/perftest/slat.client.txt").read_text()
"""A real run on soft-RoCE: 2209.40 us."""
BANDWIDTH = (ROOT / "tests/samples/perftest/sbw.client.txt").read_text()
"""A real run on soft-RoCE: 0.059888 Gbit/s."""
UNHEARD = CommandResult(
    code=1, out="", err="Couldn't connect to 192.168.0.60:18515\nUnable to init the socket connection\n"
)


@pytest.fixture
def content() -> dict[str, Any]:
    found: dict[str, Any] = section_of("Pulumi.lab-pvrdma.yaml")
    package = {"url": "https://mirror/bitfusion.deb", "sha256": "0" * 64}
    found["bitfusion_client"] = {"nodes": ["gpu02"], "package": package, "servers": ["192.168.0.60"]}
    return found


@pytest.fixture
def lab(content: dict[str, Any]) -> Lab:
    return lab_of(content)


@pytest.fixture
def file(content: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "Pulumi.bf.yaml"
    path.write_text(yaml.safe_dump({"config": {KEY: content}}))
    return path


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.validation.bitfusion.AGAIN_S", 0)


class Client:
    """Answers each program with what was recorded, the last one again and again."""

    def __init__(self, **answers: list[CommandResult]) -> None:
        self._answers = answers
        self.ran: list[tuple[str, tuple[str, ...]]] = []
        self.text: list[str] = []

    async def run(self, client: str, words: Sequence[str], limit_s: int) -> CommandResult:
        assert limit_s > 0
        self.ran.append((client, tuple(words)))
        found = self._answers[words[0]]
        return found.pop(0) if len(found) > 1 else found[0]


def proven(
    asked: Sequence[BitfusionCheck], client: Client, *, wait_s: float = 60, simulated: bool = False
) -> list[Proof]:
    return asyncio.run(prove(asked, client.run, client.text.append, wait_s=wait_s, simulated=simulated))


def test_both_are_run_on_the_client_and_the_server_s_end_is_asked_for_first(lab: Lab) -> None:
    slow = MEASURED.replace("2209.40", "  48.20").replace("764.31", " 41.31").replace("2550.18", "  49.18")
    client = Client(
        bitfusion=[CommandResult(code=0, out="PASSED", err="")],
        ib_send_lat=[UNHEARD, CommandResult(code=0, out=slow, err="")],
        ib_send_bw=[CommandResult(code=0, out=BANDWIDTH, err="")],
    )

    proof, latency, bandwidth = proven(checks(lab), client)

    assert {proof.state, latency.state, bandwidth.state} == {"pass"}, (proof, latency, bandwidth)
    assert [words[0] for _, words in client.ran] == ["bitfusion", "ib_send_lat", "ib_send_lat", "ib_send_bw"]
    assert states(client.text[3], "gpu02", "192.168.0.60", "bandwidth", "ib_send_bw -F --report_gbits")
    assert states(client.text[1], "gpu02", "192.168.0.60", "latency", "ib_send_lat -F -n 5000")
    assert states(latency.text, "48.20 us", 50)


@pytest.mark.row("C 24")
def test_above_the_limit_it_fails_and_in_a_simulated_lab_it_is_not_rated(lab: Lab) -> None:
    latency = checks(lab)[1]

    assert judged(latency, MEASURED, simulated=False).state == "fail"
    assert states(judged(latency, MEASURED, simulated=True).text, "2209.40 us", 50, "simulated")
    assert judged(latency, MEASURED, simulated=True).state == "not rated"


@pytest.mark.row("C 338-341")
def test_a_bandwidth_passes_by_being_reported_and_in_a_simulated_lab_it_is_not_rated(lab: Lab) -> None:
    bandwidth = checks(lab)[2]

    real, simulated = (judged(bandwidth, BANDWIDTH, simulated=simulated) for simulated in (False, True))

    assert (real.state, simulated.state) == ("pass", "not rated")
    assert states(real.text, "0.06 Gbit/s")
    assert "simulated" not in real.text
    assert states(simulated.text, "0.06 Gbit/s", "simulated")


@pytest.mark.parametrize(
    "text", ["", "Conflicting CPU frequency values", MEASURED, BANDWIDTH[: BANDWIDTH.index(" 65536")]]
)
def test_an_unreported_bandwidth_does_not_pass(lab: Lab, text: str) -> None:
    found = judged(checks(lab)[2], text, simulated=False)

    assert found.state == "error"
    assert states(found.text, "ib_send_bw", "no result")


@pytest.mark.parametrize("text", ["", "nonsense", MEASURED[: MEASURED.index(" 2       1000")], MEASURED[:600]])
def test_an_output_without_a_result_is_an_error_and_no_number(lab: Lab, text: str) -> None:
    found = judged(checks(lab)[1], text, simulated=False)

    assert found.state == "error"
    assert states(found.text, "ib_send_lat", "no result")


def test_a_server_where_nothing_listens_is_a_skip_and_never_a_pass(lab: Lab) -> None:
    client = Client(ib_send_lat=[UNHEARD], ib_send_bw=[UNHEARD])

    for proof in proven(checks(lab)[1:], client, wait_s=0):
        assert proof.state == "skip"
        assert states(proof.text, "192.168.0.60", "0 s")


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (CommandResult(code=1, out="", err="bitfusion: no GPU is free\n"), ["exit 1", "bitfusion: no GPU is free"]),
        (CommandResult(code=124, out="", err=""), ["in time", "nothing"]),
        (CommandResult(code=None, out="", err=""), ["exit None", "nothing"]),
    ],
)
def test_a_sample_that_did_not_run_fails_with_its_last_line(lab: Lab, done: CommandResult, said: list[str]) -> None:
    (proof,) = proven(checks(lab)[:1], Client(bitfusion=[done]))

    assert proof.state == "fail"
    assert states(proof.text, *said)


def test_a_broken_test_is_named_by_its_cause(lab: Lab) -> None:
    broken = CommandResult(
        code=1, out="", err="Completion with error at client\nFailed status 12: wr_id 0 syndrom 0x81\n"
    )

    (latency,) = proven(checks(lab)[1:2], Client(ib_send_lat=[broken]))

    assert latency.state == "fail"
    assert states(latency.text, "exit 1", "retries exceeded", "UDP 4791")


def test_a_client_that_does_not_answer_is_an_error_and_the_next_check_runs(lab: Lab) -> None:
    class Silent(Client):
        async def run(self, client: str, words: Sequence[str], limit_s: int) -> CommandResult:
            if words[0] == "bitfusion":
                raise NoAnswerError("gpu02 (127.0.12.2:2222) does not answer over SSH in time")
            return await super().run(client, words, limit_s)

    proof, latency = proven(
        checks(lab)[:2], Silent(ib_send_lat=[CommandResult(code=0, out=MEASURED, err="")]), simulated=True
    )

    assert (proof.state, latency.state) == ("error", "not rated")


@pytest.mark.parametrize(
    ("code", "status", "last"), [(0, 0, "2 not rated, 1 pass"), (1, 1, "1 fail, 2 not rated")], ids=["ran", "did not"]
)
def test_the_command_goes_inside_the_image_and_returns_what_came_of_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, code: int, status: int, last: str
) -> None:
    client = Client(
        docker=[CommandResult(code=code, out="", err="")],
        ib_send_lat=[CommandResult(code=0, out=MEASURED, err="")],
        ib_send_bw=[CommandResult(code=0, out=BANDWIDTH, err="")],
    )
    monkeypatch.setattr(verb, "login_to", lambda *_: None)
    monkeypatch.setattr(verb, "over_ssh", lambda _login, *words: client.run(*words))
    printed = StringIO()

    with redirect_stdout(printed):
        assert main(["bitfusion", "--config-file", str(file), "--inside", "docker run --rm image"]) == status

    assert client.ran[0][1][:5] == ("docker", "run", "--rm", "image", "bitfusion")
    assert client.ran[1][1][0] == "ib_send_lat"
    assert printed.getvalue().splitlines()[-1] == last


def test_a_lab_without_clients_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bitfusion", "--config-file", str(ROOT / "Pulumi.lab.yaml")]) == 2
    assert "bitfusion_client: missing" in capsys.readouterr().err


@pytest.mark.row("C 413-416, 428-431")
def test_the_help_shows_how_the_guide_starts_the_image(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # a narrow terminal breaks words at their hyphens
    assert main(["bitfusion", "--help"]) == 0

    told = " ".join(capsys.readouterr().out.split())
    for flag in ("--ipc=host", "--privileged", "--net=host", "--cap-add=IPC_LOCK", "--pid=host"):
        assert flag in told
    assert IN_IMAGE in (ROOT / "docs" / "guide-bitfusion.md").read_text()
