"""remote.CopyToRemote: the contract of pulumi-command 1.2.1."""

from pathlib import Path

import grpc
import pytest
from plugin_client import SIGNATURE, UNKNOWN, Plugin, Properties, file_asset, folder_archive, is_secret, text_asset
from ssh_host import SshHost, wait_until

pytestmark = [pytest.mark.sim, pytest.mark.whole]

COPY = "command:remote:CopyToRemote"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `conf` with a file in it and one further down."""
    folder = tmp_path / "conf"
    (folder / "deep").mkdir(parents=True)
    (folder / "rails").write_text("a b\n")
    (folder / "deep" / "vf").write_bytes(bytes(range(256)) * 2000)
    return folder


def inputs(host: SshHost, source: Properties, remote_path: str, **more: object) -> Properties:
    return {"connection": host.connection(), "source": source, "remotePath": remote_path, **more}


def test_a_file_is_copied_and_missing_folders_are_made(plugin: Plugin, host: SshHost, folder: Path) -> None:
    created = plugin.create(COPY, inputs(host, file_asset(folder / "deep/vf"), "/etc/lab/vf"))

    assert (host.root / "etc/lab/vf").read_bytes() == (folder / "deep/vf").read_bytes()
    assert is_secret(created["connection"])
    assert created["id"]


def test_a_file_goes_into_an_existing_folder(plugin: Plugin, host: SshHost, folder: Path) -> None:
    (host.root / "etc").mkdir()

    plugin.create(COPY, inputs(host, file_asset(folder / "rails"), "/etc"))

    assert (host.root / "etc/rails").read_text() == "a b\n"


def test_an_existing_file_is_overwritten(plugin: Plugin, host: SshHost, folder: Path) -> None:
    (host.root / "rails").write_text("something longer than before\n")

    plugin.create(COPY, inputs(host, file_asset(folder / "rails"), "/rails"))

    assert (host.root / "rails").read_text() == "a b\n"


@pytest.mark.parametrize(
    "case",
    [("", False, "etc/conf"), ("", True, "etc/conf"), ("/", False, "etc"), ("/", True, "etc")],
    ids=["folder to nothing", "folder to folder", "content to nothing", "content to folder"],
)
def test_a_folder_is_copied_with_its_name_unless_it_ends_with_a_slash(
    plugin: Plugin, host: SshHost, folder: Path, case: tuple[str, bool, str]
) -> None:
    slash, there, lands_in = case
    if there:
        (host.root / "etc").mkdir()

    plugin.create(COPY, inputs(host, folder_archive(f"{folder}{slash}"), "/etc"))

    assert (host.root / lands_in / "rails").read_text() == "a b\n"
    assert (host.root / lands_in / "deep/vf").stat().st_size == 512_000


def test_a_folder_onto_a_file_is_refused(plugin: Plugin, host: SshHost, folder: Path) -> None:
    (host.root / "etc").write_text("a file\n")

    with pytest.raises(grpc.RpcError):
        plugin.create(COPY, inputs(host, folder_archive(str(folder)), "/etc"))

    assert (host.root / "etc").read_text() == "a file\n"


def test_a_text_becomes_a_file(plugin: Plugin, host: SshHost) -> None:
    plugin.create(COPY, inputs(host, text_asset("mtu=9000\n"), "/etc/lab/conf"))

    assert (host.root / "etc/lab/conf").read_text() == "mtu=9000\n"


def test_a_text_needs_a_name_of_its_own(plugin: Plugin, host: SshHost) -> None:
    (host.root / "etc").mkdir()

    with pytest.raises(grpc.RpcError, match="is a directory"):
        plugin.create(COPY, inputs(host, text_asset("x"), "/etc"))


@pytest.mark.parametrize(
    ("source", "remote_path", "copies"),
    [
        (text_asset("new", "h1"), "/conf", 0),
        (text_asset("new", "h2"), "/conf", 1),
        (text_asset("old", "h1"), "/other", 1),
    ],
    ids=["same hash", "other hash", "other path"],
)
def test_an_update_copies_when_hash_or_path_changed(
    plugin: Plugin, host: SshHost, source: Properties, remote_path: str, copies: int
) -> None:
    state = plugin.create(COPY, inputs(host, text_asset("old", "h1"), "/conf"))
    before = host.seen.connections

    plugin.update(COPY, state, inputs(host, source, remote_path))

    assert host.seen.connections - before == copies


def test_a_preview_copies_nothing(plugin: Plugin, host: SshHost) -> None:
    plugin.create(COPY, inputs(host, text_asset("x"), "/conf"), preview=True)

    assert host.seen.connections == 0


def test_a_change_of_triggers_replaces_and_any_other_updates(plugin: Plugin, host: SshHost) -> None:
    old = inputs(host, text_asset("x"), "/conf", triggers=[1])

    assert plugin.diff(COPY, old, old) == ("none", set())
    assert plugin.diff(COPY, old, old | {"triggers": [2]}) == ("replace", {"triggers"})
    assert plugin.diff(COPY, old, old | {"remotePath": "/other"}) == ("update", {"remotePath"})
    assert plugin.diff(COPY, old, old | {"source": text_asset("y", "h2")})[0] == "update"


def test_a_source_that_cannot_be_copied_is_refused_by_check(plugin: Plugin, host: SshHost) -> None:
    remote_asset = {SIGNATURE: text_asset("")[SIGNATURE], "uri": "https://example.org/x", "hash": "h"}

    _, failures = plugin.check(COPY, inputs(host, remote_asset, "/conf"))

    assert failures == ["asset must be a path-based file asset or a text asset"]


def test_a_source_that_is_not_known_yet_passes_check(ours: Plugin, host: SshHost) -> None:
    values = inputs(host, {}, "/conf") | {"source": UNKNOWN}

    assert ours.check(COPY, values)[1] == [], "the official build of this version refuses it at each preview"


def test_a_connection_is_closed_after_a_copy(ours: Plugin, host: SshHost) -> None:
    ours.create(COPY, inputs(host, text_asset("x"), "/conf"))

    wait_until(lambda: host.seen.open == 0)
