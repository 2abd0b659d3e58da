"""Numbers on the page lead to the raw outputs behind them, which are listed with their digests."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from components.cli.app import main
from components.report.page import anchor_of
from components.validation.benchmarks.training.tf_cnn import total_of
from components.validation.records import JobResult, TransferResult
from components.validation.store import RAW, RunDocument, write_bundle, write_document
from components.validation.summary import Summary
from components.validation.verdict import verdict_on
from stacks.lab import Lab
from tests.components.report.synthetic import Model, bandwidth_text
from tests.components.validation.labs import changed, hardware, measured, plan_for, record
from tests.conftest import ROOT
from tests.messages import states

pytestmark = pytest.mark.usefixtures("charts_left_out")

GO = ("gpu01", "gpu02")
SAMPLES = {"rail-a": (97.0, 95.0, 60.0), "rail-b": (70.0, 71.0, 70.5)}
DIRECTIONS = [(f"rail-{rail}", *ends) for rail in "ab" for ends in (GO, GO[::-1])]


def reported(folder: Path, summary: Summary) -> str:
    """The page of a verdict whose run lies in the folder as its store."""
    (folder / "outputs.json").write_text(json.dumps({"validation": summary.model_dump(mode="json")}))
    page = folder / "report.html"
    assert main(["report", "--outputs", str(folder / "outputs.json"), "--store", str(folder), "--html", str(page)]) in (
        0,
        1,
    )
    return page.read_text()


def modelled(folder: Path) -> tuple[Model, Summary]:
    """A store with one run."""
    model = Model(4, 2)
    run = model.record()
    run = run.model_copy(update={"raw_sha256": write_bundle(folder, run.run_id, model.raw)})
    return model, stored(folder, model.document(run, model.summary(run)), model.summary(run))


def stored(folder: Path, document: RunDocument, verdict: Summary) -> Summary:
    """The verdict of a run that lies in the store."""
    return verdict.model_copy(update={"document_sha256": write_document(folder, document)})


def linked(page: str) -> dict[str, set[str]]:
    """The numbers that are shown as links, by the part of the page that they lead to."""
    found: dict[str, set[str]] = {}
    for anchor, text in re.findall(r'<a class="to num" href="#([^"]+)">([^<]+)</a>', page):
        found.setdefault(anchor, set()).add(text)
    return found


def listed(page: str, anchor: str) -> str:
    """The part of the page with that name."""
    return page.partition(f'id="{anchor}"')[2].partition("</details>")[0]


def test_every_link_leads_to_outputs_that_the_page_lists(tmp_path: Path) -> None:
    model, summary = modelled(tmp_path)
    page = reported(tmp_path, summary)
    links = linked(page)

    assert sum(map(len, links.values())) > 40, "medians, slowest pairs, curves and busbw"
    assert [anchor for anchor in links if "<code>" not in listed(page, anchor)] == []
    transfer = next(t for t in model.record().transfers if t.raw and t.shape == "one_way")
    assert transfer.raw[0] in listed(page, anchor_of(transfer.test, transfer.shape, transfer.rail))


def test_digests_on_the_page_are_those_of_the_stored_file_and_of_its_outputs(tmp_path: Path) -> None:
    model, summary = modelled(tmp_path)
    page = reported(tmp_path, summary)
    file = next(path for path in tmp_path.glob(f"*{RAW}") if ".run." not in path.name)

    assert f'<code id="bundle">{hashlib.sha256(file.read_bytes()).hexdigest()}</code>' in page
    assert [name for name, text in model.raw.items() if hashlib.sha256(text.encode()).hexdigest() not in page] == []


def test_a_stored_file_of_which_one_byte_changed_is_not_listed(tmp_path: Path) -> None:
    _, summary = modelled(tmp_path)
    file = next(path for path in tmp_path.glob(f"*{RAW}") if ".run." not in path.name)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    page = reported(tmp_path, summary)

    assert summary.raw_sha256 in page
    assert 'id="bundle"' not in page
    assert linked(page) == {}


def test_a_recorded_run_of_the_lab_has_links(tmp_path: Path) -> None:
    run, page = ROOT / "tests" / "samples" / "run", tmp_path / "report.html"

    assert main(["report", "--outputs", str(run / "outputs.json"), "--store", str(run), "--html", str(page)]) == 0
    assert linked(page.read_text())


def judged(lab: Lab, folder: Path, pairs: list[TransferResult], raw: dict[str, str]) -> str:
    """A report of a run of one bandwidth test in each of the directions."""
    assert lab.benchmarks
    verbs = lab.benchmarks.verbs.model_copy(update={"tests": ("ib_write_bw",), "sizes": ()})
    real = changed(hardware(lab), verbs=verbs, nccl=None, comparison=None, application=None)
    plan = plan_for(real)
    run = record(plan, also=pairs)
    run = run.model_copy(update={"raw_sha256": write_bundle(folder, run.run_id, raw)})
    assert real.benchmarks
    document = RunDocument(plan=plan, rails=(), record=run)
    return reported(folder, stored(folder, document, verdict_on(document, real.benchmarks)))


def suspect(lab: Lab, folder: Path, *, again: tuple[float, ...], kept: tuple[float, ...]) -> str:
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
        fields: dict[str, object] = {"samples": samples, "raw": names}
        if repeated:
            raw |= {f"retest-{n}/{names[0]}": bandwidth_text(client, server, value) for n, value in enumerate(kept)}
            fields |= {"retest": again, "retest_raw": tuple(f"retest-{n}/{names[0]}" for n in range(len(again)))}
        pairs.append(measured(rail, client, server, 0, **fields))
    return judged(lab, folder, pairs, raw)


def test_the_slowest_pair_leads_to_the_outputs_that_it_is_judged_by(lab: Lab, tmp_path: Path) -> None:
    links = linked(suspect(lab, tmp_path, again=(88.0, 88.4), kept=(88.0, 88.4)))

    assert "96" in links[anchor_of("ib_write_bw", "one_way", "rail-a")], "the median of the two that are no outlier"
    assert "88.2" in links[anchor_of("ib_write_bw", "again", "rail-b")], "the median of the repetitions"


@pytest.mark.parametrize(("again", "kept"), [((88.0, 88.4), (88.0,)), ((0.0, 88.4), (88.0, 88.4))])
def test_repetitions_that_failed_or_are_not_kept_have_no_link(
    lab: Lab, tmp_path: Path, again: tuple[float, ...], kept: tuple[float, ...]
) -> None:
    assert not [anchor for anchor in linked(suspect(lab, tmp_path, again=again, kept=kept)) if "again" in anchor]


def test_a_transfer_that_failed_at_first_leads_to_the_output_of_its_second_try(lab: Lab, tmp_path: Path) -> None:
    page = second_try(lab, tmp_path, 88.0)

    assert states(page, "Failed at first", "1 transfer")
    assert "1 failed once of 2" in page
    assert "FAILED_ONCE" in page
    assert "88" in linked(page)[anchor_of("ib_write_bw", "one_way", "rail-b")]
    assert "retest-0/rail-b/" in listed(page, anchor_of("ib_write_bw", "one_way", "rail-b"))


def second_try(lab: Lab, folder: Path, value: float) -> str:
    """A report of a judged run of which one transfer failed at first."""
    raw: dict[str, str] = {}
    pairs = []
    for rail, client, server in DIRECTIONS:
        late = (rail, client) == ("rail-b", GO[0])
        name = f"{'retest-0/' if late else ''}{rail}/ib_write_bw/{client}-to-{server}/0.client"
        raw[name] = bandwidth_text(client, server, value if late else 97.5)
        fields = {"failed_once": "failed: no end", "failed_at_once": 2, "at_once": 1} if late else {"at_once": 2}
        pairs.append(measured(rail, client, server, value if late else 97.5, raw=(name,), **fields))
    return judged(lab, folder, pairs, raw)


LOGS = {
    "horovod": ("training/deepops.txt", 246.4),
    "nccl_all_reduce": ("nccl/deepops.txt", 22.845),
    "tf_cnn": ("composed/tf_cnn_one_worker.txt", None),
}


def with_jobs(folder: Path) -> str:
    """A report of a run with an all-reduce and a job of each program."""
    model, jobs = Model(4, 2), []
    for turn, (program, (file, value)) in enumerate(LOGS.items(), 1):
        log = (ROOT / "tests" / "samples" / file).read_text()
        raw = f"{program}-roce.{turn}.log"
        model.raw[raw] = log
        told = total_of(log, 1) if value is None else value
        fields = {"program": program, "transport": "roce", "outcome": "measured", "unit": "img/s", "raw": raw}
        jobs.append(JobResult.model_validate(fields | {"samples": (told,), "value": round(told, 4)}))
    run = model.record()
    run = run.model_copy(update={"jobs": tuple(jobs), "raw_sha256": write_bundle(folder, run.run_id, model.raw)})
    return reported(folder, stored(folder, model.document(run, model.summary(run)), model.summary(run)))


def test_the_median_of_a_job_leads_to_its_log(tmp_path: Path) -> None:
    page = with_jobs(tmp_path)

    assert {"246.4", "22.84"} <= linked(page)[anchor_of("other outputs")]
    assert "horovod-roce.1.log" in listed(page, anchor_of("other outputs"))
