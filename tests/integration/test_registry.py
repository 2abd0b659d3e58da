"""Images built by buildah and pushed to a Docker registry, both Debian's own programs, on loopback."""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from components.jobs.image.pvrdma import judge, read_image
from components.jobs.image.pvrdma_inside import VENDOR_FOLDER
from components.jobs.registry import look
from simulator.nodes.cache import made_once, run
from simulator.nodes.debian import library_path, sources, unpacked
from simulator.nodes.tree import Tree, handles, make_tree
from stacks.images import MPI_BASE
from tests.conftest import ROOT

pytestmark = [pytest.mark.sim, pytest.mark.whole]

START_S = 30
BUILD_S = 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("registry")
    yield place
    shutil.rmtree(place, ignore_errors=True)  # pytest would keep its gigabyte


@pytest.fixture(scope="module")
def registry(folder: Path) -> Iterator[str]:
    """Host and port of a registry without images."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    content = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}},
        "http": {"addr": address},
    }
    (folder / "registry.yml").write_text(json.dumps(content))
    program = unpacked(("docker-registry",), print) / "usr/bin/docker-registry"
    with (folder / "registry.log").open("w") as log:
        server = subprocess.Popen([program, "serve", folder / "registry.yml"], stdout=log, stderr=log)
    try:
        wait_for(address)
        yield address
    finally:
        server.terminate()
        server.wait()


def wait_for(address: str) -> None:
    host, port = address.split(":")
    end = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            assert time.monotonic() < end, f"no registry at {address} after {START_S} s"
            time.sleep(0.1)
        else:
            return


@pytest.fixture(scope="module")
def tools(folder: Path, registry: str) -> Mapping[str, str]:
    """An environment whose PATH has buildah, which keeps images below the folder and knows the registry."""
    if os.geteuid() != 0:
        pytest.skip("buildah's chroot isolation takes root here")
    packages = unpacked(("buildah",), print)
    registries = folder / "registries.conf"
    registries.write_text(f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n')
    policy = folder / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    words = [
        str(packages / "usr/bin/buildah"),
        f"--root={folder / 'images'}",
        f"--runroot={folder / 'run'}",
        "--storage-driver=vfs",
        f"--registries-conf={registries}",
        f"--signature-policy={policy}",
    ]
    programs = folder / "bin"
    programs.mkdir()
    script = programs / "buildah"
    # buildah starts itself again without the caller's LD_LIBRARY_PATH: its libraries are in the loader's cache instead
    cache = folder / "ld.so.cache"
    run("/sbin/ldconfig", "-C", str(cache), *library_path(packages).split(":"))
    inside = f'mount --bind {cache} /etc/ld.so.cache && exec {shlex.join(words)} "$@"'
    script.write_text(f'#!/bin/sh\nexec unshare --mount sh -c {shlex.quote(inside)} sh "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "BUILDAH_ISOLATION": "chroot"}


@pytest.fixture(scope="module")
def base(tools: Mapping[str, str]) -> None:
    """The recipe's base under its own name: Debian 12, made here, with the package sources of this machine."""

    def make(place: Path) -> None:
        suites = sources("bookworm", "bookworm-updates", "bookworm-security")
        with handles(place / "base.tar") as outputs:
            hooks = [
                '--customize-hook=mkdir "$1.plain" && mount --bind "$1" "$1.plain"',
                f'--customize-hook=tar -c -C "$1.plain" . > {outputs[0]}',
                '--customize-hook=umount "$1.plain" && rmdir "$1.plain"',
            ]
            make_tree(Tree("bookworm", suites, ("ca-certificates",), hooks, outputs), "making a base image", print)

    archive = made_once("base", "bookworm with ca-certificates", make, print) / "base.tar"
    container = must(tools, "buildah", "from", "scratch")
    must(tools, "buildah", "add", container, str(archive), "/")
    must(tools, "buildah", "commit", "--rm", container, MPI_BASE)


def must(env: Mapping[str, str], *words: str) -> str:
    done = subprocess.run(words, env=dict(env), cwd=ROOT, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()


@pytest.mark.row("A 247, 258", "C 420-424")
@pytest.mark.usefixtures("base")
def test_the_mpi_image_is_built_pushed_found_and_named_by_its_digest(
    tools: Mapping[str, str], registry: str, folder: Path
) -> None:
    name = f"{registry}/lab/mpi"
    words = [sys.executable, "-m", "components.cli", "image", "push", "--config-file", "Pulumi.lab.yaml"]
    words += ["--which", "mpi", "--tool", "buildah", "--to", name]
    assert look(f"{name}:any").outcome == "missing"

    pinned = must(tools, *words, "--json")
    image = json.loads(pinned)

    assert image["tool"] == "buildah"
    status = look(image["tag"])
    assert (status.outcome, f"{name}@{status.digest}") == ("present", image["image"])
    assert look(image["image"]).outcome == "present"
    assert look(f"{name}:any").outcome == "missing"

    layout = folder / "layout"
    must(tools, "buildah", "push", image["tag"], f"oci:{layout}:mpi")
    verbs = judge(read_image(layout))
    assert (verbs.distribution, verbs.codename) == ("debian", "bookworm")
    assert {"ibverbs-providers", "libibverbs1"} <= set(verbs.packages)
    assert not verbs.vendor


VENDOR_VERSION = "51mlnx1-1.51246"
VENDOR_LIBRARIES = ("ibverbs-providers", "libibverbs1")
VENDOR_IMAGE = f"""FROM {MPI_BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends ibverbs-utils
WORKDIR {VENDOR_FOLDER}/5.1
RUN apt-get download {" ".join(VENDOR_LIBRARIES)}
COPY pack /usr/local/bin/pack
RUN sh -eu /usr/local/bin/pack && dpkg -i *.deb && touch /etc/apt/sources.list.d/mlnx_ofed.list
"""
PACK = f"""for file in *.deb; do
  dpkg-deb -R $file /tmp/package
  rm -f $file /tmp/package/etc/libibverbs.d/vmw_pvrdma.driver
  sed -i 's/^Version: .*/Version: {VENDOR_VERSION}/' /tmp/package/DEBIAN/control
  test ! -e /tmp/package/DEBIAN/conffiles || sed -i '/vmw_pvrdma.driver/d' /tmp/package/DEBIAN/conffiles
  dpkg-deb -b /tmp/package .
  rm -r /tmp/package
done
"""
"""Debian's libraries, packed once more as the vendor's are: another version, and no PVRDMA."""


def built(tools: Mapping[str, str], folder: Path, name: str, dockerfile: str) -> Path:
    """An image of that name, as an OCI layout."""
    context = folder / f"{name}.context"
    context.mkdir()
    (context / "Dockerfile").write_text(dockerfile)
    (context / "pack").write_text(PACK)
    must(tools, "buildah", "build", "--tag", name, str(context))
    layout = folder / f"{name}.layout"
    must(tools, "buildah", "push", name, f"oci:{layout}:{name}")
    return layout


def rocelab(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "components.cli", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=START_S, check=False)


@pytest.mark.row("C 355-376", "C 384-411")
@pytest.mark.usefixtures("base")
def test_an_image_with_another_builds_libraries_is_refused_and_its_own_dockerfile_repairs_it(
    tools: Mapping[str, str], folder: Path
) -> None:
    layout = built(tools, folder, "vendor", VENDOR_IMAGE)

    refused = rocelab("image", "check", str(layout), "--json")
    repair = rocelab("image", "repair", str(layout), "--from", "localhost/vendor")
    repaired = built(tools, folder, "repaired", repair.stdout)
    accepted = rocelab("image", "check", str(repaired), "--json")

    assert (refused.returncode, repair.returncode, accepted.returncode) == (1, 0, 0)
    before, after = json.loads(refused.stdout), json.loads(accepted.stdout)
    assert (before["codename"], tuple(before["vendor"])) == ("bookworm", VENDOR_LIBRARIES)
    assert before["packages"]["libibverbs1"] == VENDOR_VERSION
    assert before["brings_vendor_packages"]
    assert (after["vendor"], after["reasons"], after["brings_vendor_packages"]) == ([], [], False)
    assert after["packages"]["libibverbs1"] != VENDOR_VERSION
    assert {"perftest", "infiniband-diags"} <= set(after["packages"])
