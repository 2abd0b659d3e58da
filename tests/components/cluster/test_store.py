"""The store of upstream files: four routes, one hash, and an error that says what each route lacked."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from components.cli.app import main
from components.cluster.upstream import Store, parse_definition, upstream_files, without_prose
from stacks.base import LabError
from stacks.bill import Upstream
from tests.messages import states, stating

TEXT = "kind: CustomResourceDefinition\n"


def file_of(text: str, version: str = "v1.0.0") -> Upstream:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Upstream(module="github.com/example/thing", version=version, path="deploy/crd.yaml", sha256=digest)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(cache=tmp_path / "cache", mirror=tmp_path / "mirror")


@pytest.fixture(autouse=True)
def no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing in it; a test may put a `go` of its own there."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder


class Release(BaseHTTPRequestHandler):
    content: bytes | None = None

    def do_GET(self) -> None:
        content = type(self).content
        self.send_response(404 if content is None else 200)
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture(autouse=True)
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Release]]:
    """The release's page on loopback, without the file until a test puts it there."""
    server = HTTPServer(("127.0.0.1", 0), Release)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setattr(Upstream, "url", property(lambda _: f"http://127.0.0.1:{server.server_port}/file"))
    Release.content = None
    yield Release
    server.shutdown()
    thread.join()
    server.server_close()


def fill(mirror: Path | None, file: Upstream, text: str) -> Path:
    assert mirror is not None
    path = mirror / f"{file.name}-{file.version}" / "crd.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def fake_go(folder: Path, module: Path | None, error: str = "") -> None:
    """A `go` that answers `go mod download -json` as the real one does."""
    answer = f'{{"Dir": "{module}"}}' if module else f'{{"Error": "{error}"}}'
    go = folder / "go"
    go.write_text(f"#!/bin/sh\necho '{answer}'\nexit {0 if module else 1}\n")
    go.chmod(0o755)


@pytest.mark.row("A 43")
def test_a_file_of_the_mirror_is_kept_in_the_cache(store: Store) -> None:
    file = file_of(TEXT)
    source = fill(store.mirror, file, TEXT)

    assert store.fetch(file) == (TEXT, "mirror")
    source.unlink()
    assert store.fetch(file) == (TEXT, "cache")
    assert [path.name for path in store.path(file).parent.iterdir()] == ["crd.yaml"], "no partial file stays"


def test_a_file_of_the_module_is_taken_where_go_has_it(store: Store, no_go: Path, tmp_path: Path) -> None:
    module = tmp_path / "module"
    (module / "deploy").mkdir(parents=True)
    (module / "deploy" / "crd.yaml").write_text(TEXT)
    fake_go(no_go, module)

    assert store.fetch(file_of(TEXT)) == (TEXT, "module")


def test_a_file_of_the_release_is_the_last_resort(store: Store, release: type[Release]) -> None:
    release.content = TEXT.encode()

    assert store.fetch(file_of(TEXT)) == (TEXT, "release")


def test_content_with_another_hash_is_never_used(store: Store, release: type[Release]) -> None:
    file = file_of(TEXT)
    fill(store.mirror, file, "kind: Evil\n")
    release.content = b"kind: Evil\n"

    with pytest.raises(LabError) as refused:
        store.fetch(file)

    assert str(refused.value).count("its sha256 is") == 2
    assert not store.path(file).exists()


def test_the_next_route_replaces_a_damaged_cache(store: Store) -> None:
    file = file_of(TEXT)
    fill(store.mirror, file, TEXT)
    store.path(file).parent.mkdir(parents=True)
    store.path(file).write_text("half a fi")

    assert store.fetch(file) == (TEXT, "mirror")
    assert store.fetch(file) == (TEXT, "cache")


@pytest.mark.row("A 43")
def test_a_program_under_the_engine_never_downloads(store: Store, release: type[Release]) -> None:
    file = file_of(TEXT)
    release.content = TEXT.encode()

    with pytest.raises(LabError, check=stating("deploy/crd.yaml", "make setup")):
        store.read(file)

    assert not store.path(file).exists()


def test_another_release_is_another_place(store: Store) -> None:
    assert store.path(file_of(TEXT)) != store.path(file_of(TEXT, "v1.0.1"))
    assert store.path(file_of(TEXT)) != store.path(file_of("other"))


def test_the_error_names_every_route_and_how_to_open_one(tmp_path: Path, no_go: Path) -> None:
    fake_go(no_go, None, "thing@v1.0.0: 403 Forbidden")
    store = Store(cache=tmp_path / "cache")

    with pytest.raises(LabError) as refused:
        store.fetch(file_of(TEXT))

    lines = str(refused.value).splitlines()
    assert states(lines[0], "deploy/crd.yaml", "thing v1.0.0")
    assert [line.split()[0] for line in lines[1:5]] == ["cache", "mirror", "module", "release"]
    assert states(lines[2], "ROCELAB_MIRROR")
    assert "403 Forbidden" in lines[3]
    assert "404" in lines[4] or "Not Found" in lines[4]
    assert states(lines[5], "thing-v1.0.0/crd.yaml", "ROCELAB_MIRROR")
    assert len(lines) <= 15


def test_a_machine_without_go_gets_that_reason(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"\bgo is not\b"):
        Store(cache=tmp_path / "cache").fetch(file_of(TEXT))


def test_the_cache_lies_where_the_user_keeps_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("ROCELAB_MIRROR", raising=False)
    assert Store.from_environment() == Store(cache=tmp_path / "xdg" / "rocelab" / "store")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ROCELAB_MIRROR", str(tmp_path / "m"))
    assert Store.from_environment() == Store(cache=tmp_path / ".cache/rocelab/store", mirror=tmp_path / "m")


def test_fetching_all_fails_when_one_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ROCELAB_MIRROR", raising=False)

    assert main(["store"]) == 4
    said = capsys.readouterr().err
    assert all(states(said, file.path, f"{file.name} {file.version}") for file in upstream_files())


def test_prose_is_left_out_and_a_property_called_description_stays() -> None:
    definition = {
        "description": "what it is",
        "properties": {"description": {"type": "string", "description": "of the thing"}},
        "items": [{"description": "gone", "type": "object"}],
    }

    assert without_prose(definition) == {
        "properties": {"description": {"type": "string"}},
        "items": [{"type": "object"}],
    }


def test_a_file_that_is_no_definition_is_refused() -> None:
    with pytest.raises(LabError, match="not a CustomResourceDefinition"):
        parse_definition("kind: ConfigMap\n")
