"""What building the nodes' image needs, as it is said before the engine is built."""

import os
import pwd
from pathlib import Path

import pytest

from engine import nodes_image
from engine.findings import Finding
from engine.places import ROOT
from tests.messages import lines_naming

DEBIAN = "'http://mirror.example/debian/dists/bookworm/InRelease' a 0 \n'http://x/dists/bookworm/main/Packages' b 0"
UBUNTU = "'http://mirror.example/ubuntu/dists/noble/InRelease' a 0 \n'http://x/dists/bookworm-backports/InRelease' b 0"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with an apt of Debian 12 alone; the cache is empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    install(folder, "apt-get", DEBIAN)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(nodes_image, "TOOLS", {"apt-get": "apt"})
    return folder


def install(folder: Path, name: str, says: str, status: int = 0) -> None:
    (folder / name).write_text(f'#!/bin/sh\necho "{says}"\nexit {status}\n')
    (folder / name).chmod(0o755)


@pytest.fixture
def somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Not root, and `newuidmap` is there; returns the name under which the ids must stand."""
    monkeypatch.setattr(nodes_image.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(nodes_image, "SUBORDINATE_IDS", (tmp_path / "subuid", tmp_path / "subgid"))
    return pwd.getpwuid(os.getuid()).pw_name


def found(part: str) -> Finding:
    return next(one for one in nodes_image.findings() if one.part == part)


def test_a_source_of_debian_12_is_found_and_another_suite_does_not_count(programs: Path) -> None:
    assert found("image source") == Finding("image source", "bookworm", "apt")

    install(programs, "apt-get", UBUNTU)

    lacking = found("image source")
    assert lines_naming(lacking.lack, "apt", "bookworm")
    assert "debian-archive-keyring" in lacking.remedy


def test_the_simulator_asks_apt_in_the_same_words(programs: Path) -> None:
    """If it asked another way, the doctor's answer would not be the builder's."""
    asked = programs / "asked"
    (programs / "apt-get").write_text(f'#!/bin/sh\necho "$@" > {asked}\n')

    nodes_image.findings()

    words = (ROOT / "simulator" / "nodes" / "debian.py").read_text()
    assert ", ".join(f'"{word}"' for word in ("apt-get", *asked.read_text().split())) in words


def test_a_user_other_than_root_needs_newuidmap_and_a_line_in_both_files(
    programs: Path, somebody: str, tmp_path: Path
) -> None:
    (tmp_path / "subuid").write_text(f"{somebody}x:100000:65536\n{somebody}:165536:65536\n")
    (tmp_path / "subgid").write_text("other:100000:65536\n")

    lacking = found("subordinate ids")

    assert lacking.lack == f"no line for {somebody} in {tmp_path}/subgid"
    assert f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {somebody}" in lacking.remedy
    assert found("image tools").remedy == "install uidmap"

    (tmp_path / "subgid").write_text(f"{somebody}:100000:65536\n")
    assert found("subordinate ids").lack == ""


@pytest.mark.usefixtures("programs", "somebody")
def test_a_user_without_a_name_is_reported_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(nodes_image.pwd, "getpwuid", nameless)

    assert found("subordinate ids").lack.startswith(f"no line for {os.getuid()} in ")


@pytest.mark.parametrize(("says", "status", "is_missing"), [("0", 0, False), ("", 1, True)])
@pytest.mark.usefixtures("somebody")
def test_a_kernel_that_gives_no_namespace_is_reported(programs: Path, says: str, status: int, is_missing: bool) -> None:
    install(programs, "unshare", says, status)

    assert bool(found("namespace").lack) == is_missing


def test_a_first_make_up_ends_at_once_with_what_is_missing(
    programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_image.os, "geteuid", lambda: 0)
    assert nodes_image.main([]) == 0

    install(programs, "apt-get", UBUNTU)
    assert nodes_image.main([]) == 1
    assert lines_naming(capsys.readouterr().err, "image source:", "bookworm", "make up")

    (tmp_path / "cache/rocelab/nodes/image-0123456789ab.partial").mkdir(parents=True)
    assert nodes_image.main([]) == 1, "a build that was killed left no image"

    (tmp_path / "cache/rocelab/nodes/image-0123456789ab").mkdir()
    assert nodes_image.main([]) == 0, "with an image in the cache, nothing is needed to build one"
