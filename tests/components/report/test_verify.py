"""The verifier: one changed byte, anywhere, and the report is not what was measured."""

import gzip
import json
from pathlib import Path

import pytest

from components.report.__main__ import main
from components.validation.judging.verdict import judge
from components.validation.memory.bundle import RAW, write_bundle, write_record
from components.validation.parsers.tf_cnn import parse_tf_cnn
from components.validation.records import JobResult, TransferResult
from components.validation.summary import Summary
from stacks.lab import Lab
from tests.components.report.synthetic import Model, bandwidth_text
from tests.components.validation.labs import changed, hardware, measured, plan_for, record
from tests.conftest import ROOT

FORMATS = ("html", "json")
GO = ("gpu01", "gpu02")
SAMPLES = {"rail-a": (97.0, 95.0, 60.0), "rail-b": (70.0, 71.0, 70.5)}
DIRECTIONS = [(f"rail-{rail}", *ends) for rail in "ab" for ends in (GO, GO[::-1])]


def reported(folder: Path, summary: Summary) -> None:
    """Writes every format, of a verdict whose run lies in the folder as its store."""
    (folder / "outputs.json").write_text(json.dumps({"validation": summary.model_dump(mode="json")}))
    written = [f"--{form}={folder / f'report.{form}'}" for form in FORMATS]
    assert main(["--outputs", str(folder / "outputs.json"), "--store", str(folder), *written]) == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run, and its report as HTML and JSON."""
    folder = tmp_path_factory.mktemp("store")
    model = Model(4, 2)
    record = model.record()
    record = record.model_copy(update={"raw_sha256": write_bundle(folder, record.run_id, model.raw)})
    write_record(folder, record)
    reported(folder, model.summary(record))
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def verdict(store: Path, form: str) -> int:
    return main(["verify", "--store", str(store), "--report", str(store / f"report.{form}")])


def bundle(store: Path) -> Path:
    return next(file for file in store.glob(f"*{RAW}") if "record" not in file.name)


@pytest.mark.parametrize("form", FORMATS)
def test_an_untouched_report_is_what_was_measured(store: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(store, form) == 0
    numbers = int(capsys.readouterr().out.split(": ")[1].split()[0])
    assert numbers > 100, "medians, slowest pairs, curves and busbw"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("at", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999])
def test_one_byte_of_the_stored_file_is_noticed(store: Path, form: str, at: float) -> None:
    file = bundle(store)
    data = bytearray(file.read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    file.write_bytes(data)

    assert verdict(store, form) == 1


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("at", [0.03, 0.2, 0.45, 0.7, 0.97])
def test_one_byte_of_one_output_is_noticed_even_when_the_report_names_the_new_file(
    store: Path, form: str, at: float
) -> None:
    file = bundle(store)
    outputs = json.loads(gzip.decompress(file.read_bytes()))
    name = sorted(outputs)[int(at * len(outputs))]
    place = int(at * len(outputs[name]))
    outputs[name] = outputs[name][:place] + chr(ord(outputs[name][place]) ^ 1) + outputs[name][place + 1 :]
    old = json.loads((store / "outputs.json").read_text())["validation"]["raw_sha256"]
    new = write_bundle(store, file.name.removesuffix(RAW), outputs)
    report = store / f"report.{form}"
    report.write_text(report.read_text().replace(old, new))

    assert verdict(store, form) == 1


def test_a_number_on_the_page_that_nobody_measured_is_noticed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = store / "report.html"
    text = report.read_text()
    shown = text.partition('<data value="')[2].partition(">")[2].partition("<")[0]
    report.write_text(text.replace(f">{shown}</data>", ">99.99</data>", 1))

    assert verdict(store, "html") == 1
    assert "the page shows 99.99" in capsys.readouterr().out


@pytest.mark.parametrize("form", FORMATS)
def test_a_better_value_in_text_and_attribute_is_noticed(store: Path, form: str) -> None:
    report = store / f"report.{form}"
    text = report.read_text()
    model = Model(4, 2)
    value = next(t.samples for t in model.record().transfers if t.samples)[0]
    if form == "html":
        first = text.partition('<data value="')[2].partition('"')[0]
        changed = text.replace(f'value="{first}"', 'value="99.0"', 1)
    else:
        changed = text.replace(f"[{value},", "[99.0,", 1)
    assert changed != text
    report.write_text(changed)

    assert verdict(store, form) == 1


@pytest.mark.parametrize("form", FORMATS)
def test_outputs_that_are_gone_are_no_confirmation(store: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    bundle(store).unlink()

    assert verdict(store, form) == 2
    assert "--store names its folder" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{}", "<html></html>", '{"verdict": 1}', "\0"])
def test_what_is_no_report_is_said_in_one_line(store: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "report.html").write_text(text)

    assert verdict(store, "html") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("form", FORMATS)
def test_a_real_run_of_the_lab_is_what_was_measured(tmp_path: Path, form: str) -> None:
    run = ROOT / "tests" / "samples" / "run"
    report = tmp_path / f"report.{form}"

    assert main(["--outputs", str(run / "outputs.json"), "--store", str(run), f"--{form}", str(report)]) == 0
    assert main(["verify", "--store", str(run), "--report", str(report)]) == 0


def judged(lab: Lab, folder: Path, pairs: list[TransferResult], raw: dict[str, str]) -> None:
    """A report of a run of one bandwidth test in each of the directions."""
    assert lab.benchmarks
    verbs = lab.benchmarks.verbs.model_copy(update={"tests": ("ib_write_bw",), "sizes": ()})
    real = changed(hardware(lab), verbs=verbs, nccl=None, comparison=None, application=None)
    plan = plan_for(real)
    run = record(plan, also=pairs)
    run = run.model_copy(update={"raw_sha256": write_bundle(folder, run.run_id, raw)})
    write_record(folder, run)
    assert real.benchmarks
    reported(folder, judge(plan, real.benchmarks, run))


def suspect(lab: Lab, folder: Path, *, again: tuple[float, ...], kept: tuple[float, ...]) -> None:
    """A report of a judged run in which one transfer had an outlier, and another was measured again.

    Args:
        lab: the reference lab.
        folder: for store and reports.
        again: values of the repetitions, 0 where one failed.
        kept: those whose output lies in the store.
    """
    raw: dict[str, str] = {}
    pairs = []
    for rail, client, server in DIRECTIONS:
        samples = SAMPLES[rail] if client == GO[0] else (97.5, 97.6, 97.4)
        names = tuple(f"{rail}/ib_write_bw/{client}-to-{server}/{n}.client" for n in range(3))
        raw |= {name: bandwidth_text(client, server, value) for name, value in zip(names, samples, strict=True)}
        repeated = (rail, client) == ("rail-b", GO[0])
        if repeated:
            raw |= {f"retest-{n}/{names[0]}": bandwidth_text(client, server, value) for n, value in enumerate(kept)}
        fields = {"samples": samples, "raw": names, "retest": again if repeated else ()}
        pairs.append(measured(rail, client, server, 0, **fields))
    judged(lab, folder, pairs, raw)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_judged_without_an_outlier_or_by_repetitions_is_worked_out_from_those(
    lab: Lab, tmp_path: Path, form: str
) -> None:
    suspect(lab, tmp_path, again=(88.0, 88.4), kept=(88.0, 88.4))

    assert verdict(tmp_path, form) == 0
    page = (tmp_path / "report.html").read_text()
    assert '<data value="96.0"' in page, "rail-a: the median of the two that are no outlier"
    assert '<data value="88.2"' in page, "rail-b: the median of the repetitions, which the verdict goes by"


@pytest.mark.parametrize("form", FORMATS)
def test_a_repetition_that_was_changed_is_noticed(lab: Lab, tmp_path: Path, form: str) -> None:
    suspect(lab, tmp_path, again=(88.0, 88.4), kept=(98.0, 98.0))

    assert verdict(tmp_path, form) == 1


@pytest.mark.parametrize(("again", "kept"), [((88.0, 88.4), (88.0,)), ((0.0, 88.4), (88.0, 88.4))])
@pytest.mark.parametrize("form", FORMATS)
def test_of_repetitions_that_failed_or_are_not_kept_no_number_claims_an_output(
    lab: Lab, tmp_path: Path, form: str, again: tuple[float, ...], kept: tuple[float, ...]
) -> None:
    suspect(lab, tmp_path, again=again, kept=kept)

    assert verdict(tmp_path, form) == 0
    assert "rail-b/gpu01/gpu02:judged" not in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("kept", "exit_code"), [(88.0, 0), (98.0, 1)])
def test_the_number_of_a_transfer_that_failed_at_first_is_that_of_its_second_try_s_output(
    lab: Lab, tmp_path: Path, form: str, kept: float, exit_code: int
) -> None:
    second_try(lab, tmp_path, 88.0, kept)

    assert verdict(tmp_path, form) == exit_code
    page = (tmp_path / "report.html").read_text()
    assert "Failed at first: 1 transfer, with the values of another try" in page
    assert "1 failed once of 2" in page
    assert "FAILED_ONCE" in page


def second_try(lab: Lab, folder: Path, value: float, kept: float) -> None:
    """A report of a judged run of which one transfer failed at first."""
    raw: dict[str, str] = {}
    pairs = []
    for rail, client, server in DIRECTIONS:
        late = (rail, client) == ("rail-b", GO[0])
        name = f"{'retest-0/' if late else ''}{rail}/ib_write_bw/{client}-to-{server}/0.client"
        raw[name] = bandwidth_text(client, server, kept if late else 97.5)
        fields = {"failed_once": "failed: no end", "failed_at_once": 2, "at_once": 1} if late else {"at_once": 2}
        pairs.append(measured(rail, client, server, value if late else 97.5, raw=(name,), **fields))
    judged(lab, folder, pairs, raw)


LOGS = {
    "horovod": ("training/seed_a.txt", 246.4),
    "nccl_all_reduce": ("nccl/seed_a.txt", 22.845),
    "tf_cnn": ("composed/tf_cnn_one_worker.txt", None),
}


def with_jobs(folder: Path) -> None:
    """A report of a run with an all-reduce and a job of each program."""
    model, jobs = Model(4, 2), []
    for turn, (program, (file, value)) in enumerate(LOGS.items(), 1):
        log = (ROOT / "tests" / "samples" / file).read_text()
        raw = f"{program}-roce.{turn}.log"
        model.raw[raw] = log
        told = parse_tf_cnn(log, 1).total if value is None else value
        fields = {"program": program, "transport": "roce", "outcome": "measured", "unit": "img/s", "raw": raw}
        jobs.append(JobResult.model_validate(fields | {"samples": (told,), "value": round(told, 4)}))
    run = model.record()
    run = run.model_copy(update={"jobs": tuple(jobs), "raw_sha256": write_bundle(folder, run.run_id, model.raw)})
    write_record(folder, run)
    summary = model.summary(run)
    horovod = {"test": "horovod", "shape": "roce", "median": 246.4, "unit": "img/s"}
    summary = summary.model_copy(update={"tests": (*summary.tests, summary.tests[-1].model_copy(update=horovod))})
    reported(folder, summary)


@pytest.mark.parametrize("form", FORMATS)
def test_values_of_jobs_are_worked_out_from_their_logs(tmp_path: Path, form: str) -> None:
    with_jobs(tmp_path)

    assert verdict(tmp_path, form) == 0
    assert (tmp_path / "report.html").read_text().count('data-key="job:') == len(LOGS)


@pytest.mark.parametrize(("found", "instead"), [("248.1 img/sec", "348.1 img/sec"), ("total images/sec", "total")])
@pytest.mark.parametrize("form", FORMATS)
def test_a_log_of_a_job_that_was_changed_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, found: str, instead: str
) -> None:
    with_jobs(tmp_path)
    file = bundle(tmp_path)
    outputs = json.loads(gzip.decompress(file.read_bytes()))
    name = next(name for name, said in outputs.items() if found in said)
    outputs[name] = outputs[name].replace(found, instead)
    write_bundle(tmp_path, file.name.removesuffix(RAW), outputs)

    assert verdict(tmp_path, form) == 1
    assert f"{name}: " in capsys.readouterr().out
