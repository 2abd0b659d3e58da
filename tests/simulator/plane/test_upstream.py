"""Files out of pinned modules."""

import hashlib
from pathlib import Path

import pytest

from simulator.part import SimulatorError
from simulator.plane import upstream
from simulator.plane.cluster import JOB_TAKES_MS, KWOK, steady_completion
from tests.messages import stating

MODULE = "example.org/thing"
SUM = "h1:abc="


@pytest.fixture
def build(tmp_path: Path) -> Path:
    folder = tmp_path / "engine" / "thing"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text(f"module x\n\nrequire (\n\t{MODULE} v1.2.3\n\t{MODULE}/sub v9.9.9 // indirect\n)\n")
    (folder / "go.sum").write_text(f"{MODULE} v1.2.3 {SUM}\n{MODULE} v1.2.3/go.mod h1:def=\n")
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rocelab" / "store"


def test_the_pin_is_version_and_checksum_of_this_very_module(build):
    assert upstream.pinned(build, MODULE) == ("v1.2.3", SUM)


def test_a_module_without_a_checksum_is_refused(build):
    (build / "go.sum").write_text("")

    with pytest.raises(SimulatorError, check=stating("thing/go.mod", "go.sum", "pin example.org/thing")):
        upstream.pinned(build, MODULE)


def test_files_in_the_cache_need_no_go(build, cache, monkeypatch):
    monkeypatch.setenv("PATH", "")
    digest = hashlib.sha256(f"{SUM}\na.yaml".encode()).hexdigest()[:12]
    kept = cache / f"thing-v1.2.3-{digest}" / "a.yaml"
    kept.parent.mkdir(parents=True)
    kept.touch()

    assert upstream.files_of(MODULE, build, ["a.yaml"]) == {"a.yaml": kept}


def test_without_go_and_cache_the_error_says_what_to_install(build, monkeypatch):
    monkeypatch.setenv("PATH", "")

    with pytest.raises(SimulatorError, check=stating("go", "PATH", "example.org/thing v1.2.3")):
        upstream.files_of(MODULE, build, ["a.yaml"])


def test_a_file_that_the_module_lacks_leaves_no_half_copy(build, cache, tmp_path, monkeypatch):
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "a.yaml").touch()
    monkeypatch.setattr(upstream, "_download", lambda *_: tmp_path / "module")

    with pytest.raises(SimulatorError, check=stating("b.yaml:", "example.org/thing v1.2.3")):
        upstream.files_of(MODULE, build, ["a.yaml", "b.yaml"])

    assert list(cache.iterdir()) == []


def test_the_engine_pins_kwok_with_its_checksum():
    version, checksum = upstream.pinned(upstream.ENGINE / "go", KWOK)

    assert version.startswith("v0.8.")
    assert checksum.startswith("h1:")


def test_jobs_take_a_fixed_time():
    stage = steady_completion(
        "spec: {delay: {durationMilliseconds: 1, jitterDurationMilliseconds: 2, durationFrom: {expressionFrom: x}}}"
    )

    assert stage["spec"]["delay"] == {"durationMilliseconds": JOB_TAKES_MS, "durationFrom": {"expressionFrom": "x"}}
