"""engine/setup: the three routes, the cache, and what an interruption leaves. Builds are of a module of a few lines."""

import hashlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
from ssh_host import free_port, wait_until

from engine import gobuild, install, installed, store
from engine.errors import EngineError
from engine.parts import PARTS, Build, Part, Release
from engine.programs import Interrupted, Programs
from engine.progress import Progress
from engine.release import Downloads

ROOT = Path(__file__).parents[2]
GO = pytest.mark.skipif(shutil.which("go") is None, reason="no go on PATH")

TINY = Part(
    name="tiny",
    version="1.0",
    binaries=("tiny",),
    build=Build(version_variable="main.version", version="1.0", seconds=1, disk_mb=1),
    wanted_by="tests",
)
SOURCE = 'package main\n\nvar version = ""\n\nfunc main() { println("tiny " + version) }\n'


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A cache, a module and logs of the test's own."""
    sources = tmp_path / "sources"
    (sources / "tiny").mkdir(parents=True)
    (sources / "tiny" / "go.mod").write_text("module tiny\n\ngo 1.21\n")
    (sources / "tiny" / "main.go").write_text(SOURCE)
    (sources / "pulumi").mkdir()
    shutil.copy(ROOT / "engine/pulumi/go.mod", sources / "pulumi")
    # Go keeps its own cache under the same variable; an empty one would compile the standard library per test.
    if shutil.which("go"):
        gocache = subprocess.run(["go", "env", "GOCACHE"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        monkeypatch.setenv("GOCACHE", gocache)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for module in (gobuild, store):
        monkeypatch.setattr(module, "SOURCES", sources)
    monkeypatch.setattr(gobuild, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(installed, "MEMORY", tmp_path / "versions.json")
    return SimpleNamespace(tiny=sources / "tiny", cache=tmp_path / "cache/rocelab/engine", logs=tmp_path / "logs")


def place(*parts: Part, **options: bool) -> tuple[list[install.Located], list[install.MissingError]]:
    out = io.StringIO()
    with Progress(out) as progress:
        return install.Setup(progress, Programs()).place(parts, **options)


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
def test_a_failed_build_leaves_nothing_and_shows_what_go_said(places: SimpleNamespace) -> None:
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
        import sys
        from pathlib import Path
        from engine import gobuild, install, store
        from engine.parts import Build, Part
        gobuild.SOURCES = store.SOURCES = Path({str(places.tiny.parent)!r})
        gobuild.LOGS = Path({str(places.logs)!r})
        install.PARTS = (Part(name="tiny", version="1", binaries=("tiny",), wanted_by="tests",
                              build=Build(prepare="slow.py", seconds=1, disk_mb=1)),)
        install.ENGINE = Path({str(tmp_path)!r})
        install.python_env.ensure = lambda *_: None
        sys.argv = ["setup"]
        sys.exit(install.main())
    """)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NOTE": str(note)}
    setup = subprocess.Popen([sys.executable, "-c", script], env=env, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: note.exists() and note.read_text() != "")

    setup.send_signal(signal.SIGINT)
    said = setup.communicate(timeout=15)[1]

    assert setup.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not (Path("/proc") / note.read_text()).exists(), "the build's program has ended too"
    assert [path for path in places.cache.iterdir() if path.is_dir()] == []


def test_nothing_starts_after_a_stop(tmp_path: Path) -> None:
    programs = Programs()
    programs.stop()

    with pytest.raises(Interrupted):
        programs.run(["touch", tmp_path / "there"], cwd=tmp_path, env={}, log=tmp_path / "log")

    assert not (tmp_path / "there").exists()


class Site:
    """A download site on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        handler = type("Handler", (SimpleHTTPRequestHandler,), {"log_message": self._note})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _note(self, _format: str, *arguments: object) -> None:
        self.asked.append(str(arguments[0]))

    def offer(self, *, sha256: str = "", member: str = "pulumi/bin/tiny") -> Part:
        content = b"#!/bin/sh\necho official\n"
        with tarfile.open(self.folder / "tiny.tar.gz", "w:gz") as tar:
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        sha256 = sha256 or hashlib.sha256((self.folder / "tiny.tar.gz").read_bytes()).hexdigest()
        (self.folder / "sums").write_text(f"{'0' * 64}  other.tar.gz\n{sha256}  tiny.tar.gz\n")
        release = Release(archive=f"{self.url}/tiny.tar.gz", checksums=f"{self.url}/sums")
        return Part(**{**vars(TINY), "release": release})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "site").mkdir()
    site = Site(tmp_path / "site")
    yield site
    site.server.shutdown()
    site.server.server_close()


def test_an_official_download_with_the_published_checksum_is_taken(site: Site) -> None:
    (found,), _ = place(site.offer())

    done = subprocess.run([found.folder / "tiny"], stdout=subprocess.PIPE, text=True, check=True)
    assert (found.origin, done.stdout) == ("official", "official\n")


@GO
def test_a_download_with_another_checksum_is_not_used(site: Site) -> None:
    (found,), _ = place(site.offer(sha256="f" * 64))

    assert found.origin == "built"


def test_a_path_in_an_archive_is_not_followed(site: Site, places: SimpleNamespace, tmp_path: Path) -> None:
    (found,), _ = place(site.offer(member="../../../../tiny"))

    assert (found.folder / "tiny").is_file()
    assert not (places.cache.parent / "tiny").exists()
    assert not (tmp_path / "tiny").exists()


def test_a_site_that_cannot_be_reached_is_asked_once(tmp_path: Path) -> None:
    port = free_port()
    release = Release(archive=f"http://127.0.0.1:{port}/tiny.tar.gz", checksums=f"http://127.0.0.1:{port}/sums")
    part = Part(**{**vars(TINY), "release": release})
    downloads = Downloads(Programs())

    def fetch() -> None:
        with pytest.raises(EngineError, match="cannot be reached"):
            downloads.fetch(part, tmp_path, lambda _: None)

    fetch()
    with socket.create_server(("127.0.0.1", port)) as awake:
        awake.settimeout(0.3)
        fetch()
        with pytest.raises(TimeoutError):
            awake.accept()


@GO
def test_asking_again_prefers_an_official_download_over_what_was_built(site: Site) -> None:
    place(TINY)
    part = site.offer()

    assert place(part)[0][0].origin == "built", "nothing is asked of the network when all is there"
    assert site.asked == []
    assert place(part, ask_again=True)[0][0].origin == "official"


def test_no_route_is_one_error_that_names_the_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HOME", "/nowhere")
    closed = f"https://127.0.0.1:{free_port()}"
    release = Release(archive=f"{closed}/tiny.tar.gz", checksums=f"{closed}/sums")
    parts = [Part(**{**vars(TINY), "name": name, "release": release}) for name in ("kubernetes", "vsphere")]

    found, missing = place(*parts)

    text = install.explain(missing)
    assert found == []
    assert text.splitlines()[0] == "no route to kubernetes, vsphere"
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["path:", "official:", "build:"]
    assert "no `go` on PATH" in text


@GO
def test_too_little_disk_is_said_before_anything_is_built() -> None:
    large = Part(**{**vars(TINY), "build": Build(**{**vars(TINY.build), "disk_mb": 10**9})})

    _, missing = place(large)

    assert "MB free under" in missing[0].lacks["build"]


def test_an_installed_cli_of_the_right_version_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = next(part for part in PARTS if part.name == "pulumi")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, says in [(part.binaries[0], f"v{part.version}"), *((name, "") for name in part.binaries[1:])]:
        (folder / name).write_text(f"#!/bin/sh\necho {says}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    assert installed.find(part) == folder

    (folder / part.binaries[1]).unlink()
    with pytest.raises(EngineError, match=f"has no {part.binaries[1]} beside it"):
        installed.find(part)


def test_an_installed_cli_of_another_version_is_named_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pulumi").write_text("#!/bin/sh\necho v3.1.0\n")
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(EngineError, match=r"is 3\.1\.0"):
        installed.find(next(part for part in PARTS if part.name == "pulumi"))


def test_a_plugin_that_pulumi_installed_is_found_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = next(part for part in PARTS if part.name == "command")
    folder = tmp_path / "plugins" / f"resource-command-v{part.version}"
    folder.mkdir(parents=True)
    (folder / part.binaries[0]).touch(mode=0o755)
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))

    assert installed.find(part) == folder
