"""Made once, named only when complete, and refused before a disk is full or a program is missing."""

import threading
from collections import namedtuple
from pathlib import Path

import pytest

from simulator.nodes import cache, debian
from simulator.part import SimulatorError
from tests.messages import lines_naming, stating


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def silent(_: str) -> None:
    """A report that nobody reads."""


def test_a_recipe_is_made_once_and_another_recipe_again():
    made: list[str] = []
    for recipe in ("one", "one", "other"):
        cache.made_once("thing", recipe, lambda folder: made.append(folder.name), silent)

    assert len(made) == 2


def test_what_failed_halfway_is_made_again_from_nothing():
    def fails(folder: Path) -> None:
        (folder / "half").touch()
        raise SimulatorError("no mirror")

    with pytest.raises(SimulatorError, match="no mirror"):
        cache.made_once("thing", "recipe", fails, silent)
    folder = cache.made_once("thing", "recipe", lambda folder: (folder / "whole").touch(), silent)

    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_two_commands_at_once_make_it_once_and_the_second_says_that_it_waits():
    made: list[int] = []
    said: list[str] = []
    at_work, somebody_waits = threading.Event(), threading.Event()

    def until_somebody_waits(_: Path) -> None:
        at_work.set()
        assert somebody_waits.wait(60)
        made.append(1)

    def hears(text: str) -> None:
        said.append(text)
        somebody_waits.set()

    first = threading.Thread(target=cache.made_once, args=("thing", "recipe", until_somebody_waits, silent))
    first.start()
    assert at_work.wait(60)
    cache.made_once("thing", "recipe", until_somebody_waits, hears)
    first.join()

    assert made == [1]
    assert lines_naming(said[0], "waiting", "another command")


def test_a_full_disk_is_refused_before_the_work_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: usage(0, 0, 100 << 20))

    with pytest.raises(
        SimulatorError, check=stating("disk space", "the image", f"{tmp_path}/x/y has 100 MiB", "needs 900 MiB")
    ):
        cache.need_space(tmp_path / "x" / "y", 900 << 20, "the image")


def test_missing_programs_are_named_with_their_packages():
    with pytest.raises(SimulatorError, check=stating("no-such-a (package aaa)", "no-such-b (package bbb)")) as error:
        cache.need_programs({"sh": "dash", "no-such-a": "aaa", "no-such-b": "bbb"}, "building")

    assert "sudo apt-get install aaa bbb" in str(error.value)


def test_a_failing_program_shows_its_last_lines_only():
    with pytest.raises(SimulatorError) as error:
        cache.run("sh", "-c", "seq 100; echo broken >&2; exit 3")

    assert lines_naming(str(error.value).splitlines()[0], "sh", "status 3")
    assert str(error.value).splitlines()[-1] == "  broken"
    assert len(str(error.value).splitlines()) <= 12


def test_mirrors_are_those_of_this_machines_apt(monkeypatch: pytest.MonkeyPatch):
    printed = (
        "'http://mirror.example/debian/dists/bookworm/InRelease' m_bookworm_InRelease 0 \n"
        "'http://mirror.example/security/dists/bookworm-security/InRelease' m_security_InRelease 0 \n"
    )
    monkeypatch.setattr(debian, "run", lambda *_: printed)
    monkeypatch.setattr(debian, "need_programs", lambda *_: None)
    monkeypatch.setattr(debian, "KEYRING", Path("/no/keyring"))

    assert debian.sources("bookworm", "bookworm-updates", "bookworm-security", "bookworm-backports") == [
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/security bookworm-security main",
        "deb http://mirror.example/debian bookworm-backports main",
    ]


def test_a_machine_without_a_debian_12_source_fails_with_the_folder_to_add_one_to(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(debian, "run", lambda *_: "'http://mirror.example/ubuntu/dists/noble/InRelease' x 0 \n")
    monkeypatch.setattr(debian, "need_programs", lambda *_: None)

    with pytest.raises(SimulatorError, check=stating("apt", "bookworm")) as error:
        debian.sources("bookworm")

    assert lines_naming(str(error.value), "/etc/apt/sources.list.d/")
