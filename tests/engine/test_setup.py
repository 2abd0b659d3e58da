"""engine/setup: the three routes, the cache, and what an interruption leaves. Builds are of a module of a few lines."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
from ssh_host import wait_until
from tiny_part import GO, SOURCE, TINY, place

from engine import gobuild, install, python_env, store
from engine.parts import Build, Part
from engine.programs import Interrupted, Programs
from engine.progress import Progress

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("places")


@pytest.mark.row("A 111-121")
@GO
def test_a_part_is_built_once_and_then_found(places: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    (first,), missing = place(TINY)
    monkeypatch.setenv("PATH", "/nowhere")  # without go, a second build would fail
    (second,), _ = place(TINY)

    done = subprocess.run([first.folder / "tiny"], stderr=subprocess.PIPE, text=True, check=True)
    assert done.stderr == "tiny 1.0\n"
    assert missing == []
    assert (first.origin, second.folder) == ("built", first.folder)


@pytest.mark.parametrize(
    ("file", "text", "changes"),
    [
        ("main.go", SOURCE + "// more\n", True),
        ("go.sum", "x", True),
        ("main_test.go", "x", False),
        ("notes.txt", "x", False),
    ],
)
def test_the_name_in_the_cache_changes_with_what_decides_about_the_binary(
    places: SimpleNamespace, file: str, text: str, changes: bool
) -> None:
    before = store.built_folder(TINY)

    (places.tiny / file).write_text(text)

    assert (store.built_folder(TINY) != before) == changes


def test_an_estimate_corrected_builds_nothing_again() -> None:
    slower = Part(**{**vars(TINY), "build": Build(**{**vars(TINY.build), "seconds": 99})})
    newer = Part(**{**vars(TINY), "build": Build(**{**vars(TINY.build), "version": "2.0"})})

    assert store.content_hash(slower) == store.content_hash(TINY)
    assert store.content_hash(newer) != store.content_hash(TINY)


@GO
def test_a_failed_build_leaves_nothing_and_shows_go_s_output(places: SimpleNamespace) -> None:
    (places.tiny / "main.go").write_text("package main\n\nfunc main() { nonsense() }\n")

    found, missing = place(TINY)

    assert found == []
    assert "undefined: nonsense" in missing[0].lacks["build"]
    assert [path.name for path in places.cache.iterdir() if not path.name.endswith(".lock")] == []


@GO
def test_two_setups_at_once_build_once(places: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[str] = []
    build = gobuild.build
    monkeypatch.setattr(
        gobuild, "build", lambda part, *rest: (builds.append(part.name), time.sleep(0.5), build(part, *rest))
    )
    found: list[install.Located] = []

    threads = [threading.Thread(target=lambda: found.extend(place(TINY)[0])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert builds == ["tiny"]
    assert [one.folder for one in found] == [store.built_folder(TINY)] * 2


def test_what_a_killed_setup_left_is_cleared_away(places: SimpleNamespace) -> None:
    left = places.cache / f".{store.built_folder(TINY).name}.partial"
    left.mkdir(parents=True)
    (left / "half").write_text("x")

    with store.making(store.built_folder(TINY), lambda: None) as target:
        assert target
        assert list(target.iterdir()) == []
        store.write(target, store.Entry(origin="built", version="1.0", seconds=0))

    assert store.read(store.built_folder(TINY)) == store.Entry(origin="built", version="1.0", seconds=0)


@GO
def test_an_interrupt_ends_the_builds_and_leaves_no_partial(places: SimpleNamespace, tmp_path: Path) -> None:
    (places.tiny / "slow.py").write_text(
        "import os, time\nopen(os.environ['NOTE'], 'w').write(str(os.getpid()))\ntime.sleep(50)\n"
    )
    note = tmp_path / "note"
    script = dedent(f"""
        import signal
        import sys
        from pathlib import Path
        from engine import gobuild, install, python_env, store
        from engine.parts import Build, Part
        # a test run in the background has it ignored, and hands that down
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gobuild.SOURCES = store.SOURCES = Path({str(places.tiny.parent)!r})
        gobuild.LOGS = Path({str(places.logs)!r})
        install.PARTS = (Part(name="tiny", version="1", binaries=("tiny",), wanted_by="tests",
                              build=Build(module="tiny", prepare="slow.py", seconds=1, disk_mb=1)),)
        install.ENGINE = Path({str(tmp_path)!r})
        install.python_env.ensure = lambda *_: None
        sys.argv = ["setup"]
        sys.exit(install.main())
    """)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NOTE": str(note)}
    setup = subprocess.Popen([sys.executable, "-c", script], env=env, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: note.exists() and note.read_text() != "")

    setup.send_signal(signal.SIGINT)
    said = setup.communicate(timeout=45)[1]

    assert setup.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not (Path("/proc") / note.read_text()).exists(), "the build's program has ended too"
    assert [path for path in places.cache.iterdir() if path.is_dir()] == []


@GO
@pytest.mark.parametrize(("script", "said"), [("echo making it", "nodes' image: made"), ("exit 1", "not made, log in")])
def test_the_nodes_image_is_made_beside_the_builds_and_its_failure_is_left_to_the_simulator(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = tmp_path / "sim"
    sim.write_text(f"#!/bin/sh\necho $* > {tmp_path}/asked\n{script}\n")
    sim.chmod(0o755)
    monkeypatch.setattr(install, "SIM", sim)
    monkeypatch.setattr(install, "LOGS", tmp_path)
    out = io.StringIO()

    with Progress(out) as progress:
        (found,), missing = install.Setup(progress, Programs()).place([TINY], image_for="lab")

    assert (found.origin, missing) == ("built", [])
    assert (tmp_path / "asked").read_text() == "build --stack lab\n"
    assert said in out.getvalue()


@pytest.mark.parametrize(
    ("stack", "is_built", "lacks"),
    [("lab", False, True), ("lab", True, False), ("no-such-stack", False, False), (None, False, False)],
)
def test_only_a_simulated_lab_waits_for_an_image(
    stack: str | None, is_built: bool, lacks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install.nodes_image, "is_built", lambda: is_built)

    assert install._lacks_image(stack) == lacks


def test_nothing_starts_after_a_stop(tmp_path: Path) -> None:
    programs = Programs()
    programs.stop()

    with pytest.raises(Interrupted):
        programs.run(["touch", tmp_path / "there"], cwd=tmp_path, env={}, log=tmp_path / "log")

    assert not (tmp_path / "there").exists()


@GO
def test_too_little_disk_is_reported_before_anything_is_built() -> None:
    large = Part(**{**vars(TINY), "build": Build(**{**vars(TINY.build), "disk_mb": 10**9})})

    _, missing = place(large)

    assert "MB free under" in missing[0].lacks["build"]


def test_progress_shows_only_the_name_of_what_is_being_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_env, "LOGS", tmp_path)
    monkeypatch.setattr(python_env, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setattr(python_env, "_runs", lambda *_: True)
    told: list[str] = []
    progress = SimpleNamespace(doing=lambda _, what: told.append(what), done=lambda *_: None)

    def pip(*_: object, on_line: Callable[[str], None], **__: object) -> None:
        for line in ("Collecting yarl==1.25.1 (from -r /home/me/a lab/requirements.txt (line 9))", "Downloading yarl"):
            on_line(line)

    python_env.ensure(False, SimpleNamespace(run=pip), progress)

    assert told == ["installing packages", "Collecting yarl==1.25.1"]
