"""Recordings as pod logs: what a reader gets back must be what was recorded."""

import re

import pytest

from simulator.plane import recordings

CRI_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) stdout F (.*)")


@pytest.mark.parametrize("name", recordings.names())
def test_a_recording_comes_back_line_by_line(name):
    text = (recordings.FOLDER / f"{name}.log").read_text()

    lines = [CRI_LINE.fullmatch(line) for line in recordings.to_cri(text).split("\n")[:-1]]

    assert [line and line[2] for line in lines] == text.splitlines()


def test_times_rise_and_belong_to_no_measurement():
    stamps = [line.split()[0] for line in recordings.to_cri("a\nb\n\nc").splitlines()]

    assert stamps == sorted(set(stamps))
    assert all(stamp.startswith("1970-01-01") for stamp in stamps)


def test_every_recording_names_its_source():
    readme = (recordings.FOLDER / "README.md").read_text()

    assert [name for name in recordings.names() if f"`{name}.log`" not in readme] == []


def test_the_default_recording_is_the_deepops_table():
    text = (recordings.FOLDER / f"{recordings.DEFAULT}.log").read_text()

    assert "# Avg bus bandwidth    : 7.76739" in text
    assert "NCCL INFO" not in text, "the guide prints the table only, and nothing is added to a recording"


def test_only_launchers_of_the_benchmark_namespace_show_a_recording(lab, tmp_path):
    spec = recordings.cluster_logs(lab, tmp_path)["spec"]

    assert spec["selector"] == {"matchNamespaces": [lab.benchmarks.namespace]}
    shown = {tuple(entry.get("containers", ["*"])): entry["logsFile"] for entry in spec["logs"]}
    assert shown == {
        ("launcher", "launcher-nccl-all-reduce-roce"): f"{tmp_path}/{recordings.DEFAULT}.log",
        ("launcher-horovod-roce",): f"{tmp_path}/horovod_deepops.log",
        ("*",): f"{tmp_path}/silence.log",
    }
