"""The routes of engine/setup that need no compiler: installed programs, official downloads, and none at all."""

import hashlib
import io
import shutil
import socket
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ssh_host import free_port
from tiny_part import GO, TINY, place

from engine import install, installed, needs
from engine.errors import EngineError
from engine.parts import PARTS, Part, Release
from engine.places import ROOT
from engine.programs import Programs
from engine.release import Downloads
from tests.messages import lines_naming

pytestmark = pytest.mark.usefixtures("places")


class Site:
    """A download site on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        handler = type("Handler", (SimpleHTTPRequestHandler,), {"log_message": self._note})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

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
        release = Release(url=f"{self.url}/tiny.tar.gz", checksums=f"{self.url}/sums")
        return Part(**{**vars(TINY), "releases": (release,)})


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


def test_programs_without_an_archive_and_a_script_that_calls_them_make_a_part(
    site: Site, places: SimpleNamespace
) -> None:
    for name, answer in (("one", "from one"), ("two-linux-amd64", "from two")):
        (site.folder / name).write_text(f"#!/bin/sh\necho {answer}\n")
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in site.folder.iterdir()}
    (site.folder / "one.sha256").write_text(f"{sums['one']}\n")
    (places.tiny / "tiny.sh").write_text('#!/bin/sh\n"$(dirname "$0")/one"; "$(dirname "$0")/two"\n')
    (places.tiny / "tiny.sh").chmod(0o755)
    one = Release(url=f"{site.url}/one", checksums=f"{site.url}/one.sha256", programs=("one",))
    two = Release(url=f"{site.url}/two-linux-amd64", sha256=sums["two-linux-amd64"], programs=("two",))

    (found,), _ = place(Part(**{**vars(TINY), "releases": (one, two), "adapter": "tiny.sh"}))

    done = subprocess.run([found.folder / "tiny"], stdout=subprocess.PIPE, text=True, check=True)
    assert (found.origin, done.stdout) == ("official", "from one\nfrom two\n")


@GO
def test_a_program_that_is_not_the_pinned_one_is_not_used(site: Site) -> None:
    (site.folder / "tiny-linux-amd64").write_text("another one")
    pinned = Release(url=f"{site.url}/tiny-linux-amd64", sha256="f" * 64, programs=("tiny",))

    (found,), _ = place(Part(**{**vars(TINY), "releases": (pinned,)}))

    assert found.origin == "built"


def test_official_programs_of_the_control_plane_get_the_flags_of_the_built_one(tmp_path: Path) -> None:
    shutil.copy(ROOT / "engine/go/plane/plane.sh", tmp_path / "plane")
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).write_text('#!/bin/sh\necho "${0##*/} $*"\n')
        (tmp_path / name).chmod(0o755)

    def said(*arguments: str) -> str:
        return subprocess.run([tmp_path / "plane", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout

    etcd = said("etcd", "--data-dir=/a b", "--listen=http://127.0.12.200:2379")
    assert said("apiserver", "--profiling=false") == "kube-apiserver --profiling=false\n"
    assert "--unsafe-no-fsync --data-dir=/a b --listen-client-urls=http://127.0.12.200:2379 " in etcd
    addresses = {word.partition("=")[2].removeprefix("default=") for word in etcd.split() if "http" in word}
    assert addresses == {"http://127.0.12.200:2379", "http://127.0.0.1:0"}, "loopback only"


def test_a_path_in_an_archive_is_not_followed(site: Site, places: SimpleNamespace, tmp_path: Path) -> None:
    (found,), _ = place(site.offer(member="../../../../tiny"))

    assert (found.folder / "tiny").is_file()
    assert not (places.cache.parent / "tiny").exists()
    assert not (tmp_path / "tiny").exists()


def test_a_site_that_cannot_be_reached_is_asked_once(tmp_path: Path) -> None:
    port = free_port()
    release = Release(url=f"http://127.0.0.1:{port}/tiny.tar.gz", checksums=f"http://127.0.0.1:{port}/sums")
    part = Part(**{**vars(TINY), "releases": (release,)})
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
    release = Release(url=f"{closed}/tiny.tar.gz", checksums=f"{closed}/sums")
    parts = [Part(**{**vars(TINY), "name": name, "releases": (release,)}) for name in ("kubernetes", "vsphere")]

    found, missing = place(*parts)

    text = install.explain(missing)
    assert found == []
    assert lines_naming(text.splitlines()[0], "kubernetes", "vsphere", "tests")
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["path:", "official:", "build:"]
    assert lines_naming(text, "build:", "`go`", "PATH")


def test_what_only_the_simulator_needs_is_labeled_so() -> None:
    lack = {"build": "no `go` on PATH"}
    simulators = [install.MissingError(part, lack) for part in PARTS if part.is_of_the_simulator]
    pulumi = install.MissingError(PARTS[0], lack)

    text = install.explain(simulators)

    assert {one.part.name for one in simulators} == {"plane", "kwok", "mpi-operator", "vcenter", *REAL_PODS}
    assert lines_naming(text, *(fact for one in simulators for fact in (one.part.name, one.part.wanted_by)))
    assert text.splitlines()[-1] == install.HARDWARE
    assert install.HARDWARE not in install.explain([pulumi, *simulators])


REAL_PODS = {
    *("kubelet", "containerd", "multus", "whereabouts", "whereabouts-control-loop", "whereabouts-reconciler"),
    *("rdma-cni", "sriov-cni", "sriov-device-plugin"),
}


@pytest.mark.parametrize(
    ("traits", "left_out"),
    [
        ("virtual cluster", {"vsphere", "vcenter", *REAL_PODS}),
        ("virtual cluster simulator", {"vsphere", "vcenter"}),
        ("virtual cluster fabric", REAL_PODS),
        ("hardware cluster", {"vsphere", "plane", "kwok", "mpi-operator", "vcenter", *REAL_PODS}),
        ("hardware fabric", {"kubernetes", "plane", "kwok", "mpi-operator", "vcenter", *REAL_PODS}),
        (None, {"plane", "kwok", "mpi-operator", "vcenter", *REAL_PODS}),
    ],
)
def test_a_lab_waits_for_no_part_that_it_does_not_need(
    traits: str | None, left_out: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if traits:
        kind, *sections = traits.split()
        lab = "".join(f"    {name}:\n      enabled: true\n" for name in sections)
        text = f"config:\n  rocelab:lab:\n    kind: {kind}\n    fabric: null\n{lab}  rocelab:vsphere: x\n"
        (tmp_path / "Pulumi.dgx.yaml").write_text(
            text.replace("    fabric: null\n", "") if "fabric" in sections else text
        )
    monkeypatch.setattr(needs, "ROOT", tmp_path)
    monkeypatch.setattr(install, "locate", lambda _: None)

    assert {part.name for part in PARTS} - {part.name for part in install.wanted_for("dgx")} == left_out
    assert install.wanted_for(None) == PARTS


STACK_FILES = sorted(
    [*ROOT.glob("Pulumi.*.yaml"), *ROOT.glob("examples/*/Pulumi.*.yaml"), *ROOT.glob("templates/*/Pulumi.*.yaml")]
)


@pytest.mark.parametrize("path", STACK_FILES, ids=[path.name for path in STACK_FILES])
def test_sections_are_found_as_a_yaml_parser_finds_them(path: Path) -> None:
    lab = yaml.safe_load(path.read_text())["config"]["rocelab:lab"]

    assert needs.traits(path.read_text()) == {lab["kind"], *lab}


@pytest.mark.parametrize(
    "text", ["", "config: {}", "config: {'rocelab:lab': {kind: virtual}}", "config:\n  rocelab:lab: {}"]
)
def test_of_a_lab_in_another_form_everything_is_wanted(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Pulumi.dgx.yaml").write_text(text)
    monkeypatch.setattr(needs, "ROOT", tmp_path)

    assert needs.needed(PARTS, "dgx") == PARTS


def test_a_part_that_is_there_stays_for_the_labs_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there = install.Located(PARTS[0], "built", Path("/x"))
    monkeypatch.setattr(install, "locate", lambda part: there if part.name == "vcenter" else None)

    assert {part.name for part in PARTS} - {part.name for part in install.wanted_for("lab")} == {"vsphere", *REAL_PODS}


@pytest.mark.parametrize(("stack", "status"), [("hardware", 0), ("lab", 1)])
def test_without_go_setup_ends_well_for_hardware_and_names_what_the_simulator_lacks_for_others(
    stack: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    linked: set[str] = set()

    def refuse(*_: object) -> None:
        raise EngineError("no network")

    monkeypatch.setattr(Downloads, "fetch", refuse)
    there = {part.name: install.Located(part, "official", tmp_path) for part in PARTS if not part.is_of_the_simulator}
    monkeypatch.setattr(install, "locate", lambda part: there.get(part.name))
    monkeypatch.setattr(install, "ENGINE", tmp_path)
    monkeypatch.setattr(install, "_lacks_image", lambda _: False)
    monkeypatch.setattr(install.python_env, "ensure", lambda *_: None)
    monkeypatch.setattr(install.links, "place", linked.update)
    monkeypatch.setattr(install.signal, "signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["setup", "--stack", stack])
    monkeypatch.setenv("PATH", "/nowhere")

    assert install.main() == status

    said = capsys.readouterr().err
    assert linked == set(there)
    assert (install.HARDWARE in said) == (status == 1)
    assert bool(lines_naming(said, "build:", "`go`", "PATH")) == (status == 1)

    assert ("4 parts ready" in said) == (status == 0)


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


def test_a_home_of_our_own_is_no_installation_whose_links_would_lead_to_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is in a shell with `make env`, where another setup follows."""
    part = next(part for part in PARTS if part.name == "command")
    folder = tmp_path / installed.ENGINE.name / "home" / "plugins" / f"resource-command-v{part.version}"
    folder.mkdir(parents=True)
    (folder / part.binaries[0]).touch(mode=0o755)
    monkeypatch.setenv("PULUMI_HOME", str(folder.parents[1]))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    with pytest.raises(EngineError, match=installed.NOTHING):
        installed.find(part)
