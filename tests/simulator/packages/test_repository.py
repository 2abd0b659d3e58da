"""The package repository: what dpkg, apt and kmod make of it, and that it is the same from the same recipe."""

import hashlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from simulator.nodes.machine import machines_of
from simulator.packages import catalogue
from simulator.packages.deb import File, Package
from simulator.packages.module import module_file
from simulator.packages.part import Packages
from simulator.packages.repository import REPOSITORY_PACKAGE, SNIPPET, kernel_release
from simulator.part import SimulatorError
from stacks.drivers import NicDriver
from stacks.lab import Lab
from tests.conftest import ROOT
from tests.messages import lines_naming
from tests.simulator.nodes.hardware import words

pytestmark = pytest.mark.sim

KERNEL = "6.1.0-1-amd64"
DEBIAN = pytest.mark.skipif(not shutil.which("apt-get"), reason="this machine has no apt")
ONE = Package(
    name="one",
    version="1.0",
    summary="a test",
    depends=("two",),
    files={"/usr/bin/one": File(content=b"#!/bin/sh\n", mode=0o755), "/etc/one/conf": File(content=b"a")},
    scripts={"postinst": "#!/bin/sh\n"},
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def part(tmp_path: Path) -> Iterator[Packages]:
    made = Packages(tmp_path, ("127.0.0.1", free_port()))
    made.make(KERNEL)
    yield made
    made.down(print)


@DEBIAN
def test_a_package_is_what_dpkg_understands(tmp_path: Path) -> None:
    file = tmp_path / "one.deb"
    file.write_bytes(ONE.packed())

    def says(*options: str) -> str:
        return subprocess.run(["dpkg-deb", *options], stdout=subprocess.PIPE, text=True, check=True).stdout

    assert says("--field", str(file), "Package", "Version", "Depends") == "Package: one\nVersion: 1.0\nDepends: two\n"
    listed = {line.split()[-1]: line.split()[0] for line in says("--contents", str(file)).splitlines()}
    assert (listed["./usr/bin/one"], listed["./etc/one/conf"]) == ("-rwxr-xr-x", "-rw-r--r--")
    assert listed["./etc/"] == "drwxr-xr-x"


def test_the_same_contents_make_the_same_package() -> None:
    assert ONE.packed() == ONE.packed()
    assert hashlib.sha256(ONE.packed()).hexdigest() in ONE.index_entry("pool")


def test_every_package_says_that_it_is_a_stand_in() -> None:
    for package in [*catalogue.packages(KERNEL), catalogue.repository_package(None)]:
        assert lines_naming(package.control, "Stand-in", "simulator")
        assert "(simulated)" in package.summary


def apt(tmp_path: Path, part: Packages, *words: str) -> subprocess.CompletedProcess[str]:
    """An apt of its own whose only source is the repository, trusted as doca-host says."""
    home, tree = tmp_path / "apt", tmp_path / "tree"
    for folder in ("lists/partial", "archives/partial", "parts"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "status").touch()
    repository = part.repository
    subprocess.run(["dpkg-deb", "-x", str(repository / REPOSITORY_PACKAGE), str(tree)], check=True)
    source = (tree / "etc/apt/sources.list.d/doca.sources").read_text()
    source = source.replace(catalogue.URL, f"file://{repository}").replace("/usr/share", f"{tree}/usr/share")
    (home / "parts/doca.sources").write_text(source)
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": str(home / "parts"),
        "Dir::State": str(home),
        "Dir::Cache": str(home),
        "Dir::State::Status": str(home / "status"),
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    options = [f"-o{key}={value}" for key, value in settings.items()]
    return subprocess.run(["apt-get", *options, *words], capture_output=True, text=True, check=False)


@DEBIAN
def test_apt_takes_the_index_and_knows_what_a_driver_needs(tmp_path: Path, part: Packages) -> None:
    assert apt(tmp_path, part, "update").returncode == 0

    planned = apt(tmp_path, part, "--simulate", "install", f"linux-headers-{KERNEL}", "doca-ofed").stdout

    for name in ("dkms", "mlnx-ofed-kernel-dkms", "ofed-scripts", "doca-ofed", f"linux-headers-{KERNEL}"):
        assert f"Inst {name} (" in planned
    assert "mlnx-fw-updater" not in planned


@DEBIAN
@pytest.mark.skipif(not shutil.which("gpg"), reason="this machine has no gpg: nothing is signed")
def test_apt_refuses_a_release_signed_with_another_key(tmp_path: Path, part: Packages) -> None:
    release = part.repository / "dists/stable/InRelease"
    lines = release.read_text().splitlines()
    release.write_text("\n".join(line.replace("Label: simulated", "Label: altered") for line in lines) + "\n")

    refused = apt(tmp_path, part, "update")

    assert refused.returncode != 0 or "not signed" in refused.stderr or "invalid" in refused.stderr
    assert apt(tmp_path, part, "--simulate", "install", "doca-ofed").returncode != 0


@DEBIAN
def test_without_gpg_the_source_says_that_it_is_trusted_as_it_is(
    tmp_path: Path, part: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("simulator.packages.repository.shutil.which", lambda _: None)
        part.make(KERNEL)

    assert apt(tmp_path, part, "update").returncode == 0
    assert "Trusted: yes" in (tmp_path / "apt/parts/doca.sources").read_text()
    assert "Inst doca-ofed" in apt(tmp_path, part, "--simulate", "install", "doca-ofed").stdout


def test_a_stack_file_can_take_the_section_as_it_is(part: Packages) -> None:
    section = yaml.safe_load((part.repository / SNIPPET).read_text())["driver"]
    driver = NicDriver.model_validate(section)

    content = (part.repository / REPOSITORY_PACKAGE).read_bytes()
    assert driver.download is not None
    assert driver.download.sha256 == hashlib.sha256(content).hexdigest()
    assert driver.version == catalogue.OFED_VERSION


def test_it_serves_and_stops(part: Packages) -> None:
    part.up(print)
    (line,) = part.status()
    assert line.state == "running"
    with urlopen(f"http://{line.address}/dists/stable/Release") as answer:
        assert b"Label: simulated" in answer.read()

    part.up(print)
    assert part.status()[0].pid == line.pid, "what runs is left as it is"
    part.down(print)
    assert part.status()[0].state == "stopped"


def test_a_taken_port_is_named(part: Packages) -> None:
    with socket.create_server(part._place), pytest.raises(SimulatorError, match="another process uses"):
        part.up(print)


def test_the_door_carries_a_connection_both_ways() -> None:
    """QEMU gives the guest's connection to the program as its stdin."""
    guest, inside = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(connection.recv(100).upper())

        answering = threading.Thread(target=answer)
        answering.start()
        address, port = server.getsockname()
        door = ROOT / "simulator" / "packages" / "door.py"
        command = [sys.executable, "-I", "-S", str(door), address, str(port)]
        with inside:
            running = subprocess.Popen(command, stdin=inside.fileno())
        with guest:
            guest.sendall(b"hello")
            assert guest.recv(100) == b"HELLO"
            assert guest.recv(100) == b"", "the end is carried too"
        answering.join(10)
        assert running.wait(10) == 0


def test_a_nodes_one_way_out_is_the_repository(lab: Lab) -> None:
    command = words(machines_of(lab)[0])

    assert command.count("guestfwd=") == 1
    assert "guestfwd=tcp:192.168.1.9:80-cmd:env -u LD_LIBRARY_PATH" in command
    assert re.search(r"door\.py'? 127\.0\.12\.202 8080", command), "quoted where the checkout's path has a blank"


def test_a_module_says_of_itself_what_modinfo_reads() -> None:
    content = module_file({"version": "25.07-0.9.7", "name": "mlx5_core"})
    table_at, count, names_index = (
        struct.unpack_from("<Q", content, 40)[0],
        *struct.unpack_from("<HH", content, 60),
    )
    offsets = [struct.unpack_from("<IIQQQQ", content, table_at + 64 * i) for i in range(count)]
    names_at = offsets[names_index][4]
    found = {
        content[names_at + name :].split(b"\0")[0]: content[at : at + size] for name, _, _, _, at, size in offsets[1:]
    }

    assert content[:4] == b"\x7fELF"
    assert found[b".modinfo"] == b"version=25.07-0.9.7\0name=mlx5_core\0"


def test_the_kernels_release_is_read_from_its_image(tmp_path: Path) -> None:
    image = bytearray(1024)
    image[0x20E:0x210] = (0x100).to_bytes(2, "little")
    image[0x300:0x330] = b"6.1.0-9-amd64 (build@host) #1 SMP".ljust(0x30, b"\0")
    (tmp_path / "kernel").write_bytes(image)

    assert kernel_release(tmp_path / "kernel") == "6.1.0-9-amd64"


@pytest.mark.parametrize("package", catalogue.packages(KERNEL), ids=lambda package: package.name)
def test_its_scripts_are_clean(package: Package) -> None:
    texts = [*package.scripts.values(), *(file.content.decode(errors="replace") for file in package.files.values())]
    for text in (text for text in texts if text.startswith("#!/bin/sh")):
        subprocess.run([ROOT / ".venv/bin/shellcheck", "-"], input=text, text=True, check=True)
