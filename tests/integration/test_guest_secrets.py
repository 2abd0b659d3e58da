"""Secrets of guests through the real engine, and the port matrix on real nodes.

Bitfusion's client is a package of ours, built on the node by dpkg-deb: apt, the token's files and the engine are real,
the product is not there.
"""

import base64
import hashlib
import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.ports.connect import OPEN, SILENT
from tests.conftest import ROOT
from tests.integration.stack import KEY, Done, Stack, on_node
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

NODE = "gpu01"
PLACE = "/var/tmp/bitfusion-client-stub"
PACKAGE = f"{PLACE}.deb"
CONTROL = (
    r"Package: bitfusion-client-stub\nVersion: 3.0.1-4\nArchitecture: all\n"
    r"Maintainer: nobody <nobody@lab>\nDescription: stub\n"
)
STUB = f"""set -e
sudo rm -rf {PLACE}; mkdir -p {PLACE}/DEBIAN {PLACE}/usr/bin
printf '{CONTROL}' > {PLACE}/DEBIAN/control
printf '#!/bin/sh\\ntest -s ~root/.bitfusion/client.yaml\\n' > {PLACE}/usr/bin/bitfusion
chmod 0755 {PLACE}/usr/bin/bitfusion
dpkg-deb --root-owner-group --build {PLACE} {PACKAGE} > /dev/null
sha256sum {PACKAGE}
"""


def token(canary: str) -> str:
    """The plug-in's token as a stack holds it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("client.yaml", "servers.conf", "ca.crt"):
            member = tarfile.TarInfo(name)
            member.size = len(f"{canary} {name}")
            tar.addfile(member, io.BytesIO(f"{canary} {name}".encode()))
    return base64.b64encode(archive.getvalue()).decode()


@pytest.fixture(scope="module")
def stack(simulator: Path) -> Iterator[Stack]:
    """The reference lab's hosts alone; gpu01 is a client with a token."""
    sha256 = on_node(NODE, STUB).split()[0]
    stack = Stack.make(simulator / "tests-guests")
    content = yaml.safe_load(stack.file.read_text())
    lab: dict[str, Any] = content["config"][KEY]
    lab.pop("cluster")
    lab["benchmarks"] = {**lab["benchmarks"], "mode": "off"}
    lab["benchmarks"].pop("nccl", None)
    lab["bitfusion_client"] = {
        "nodes": [NODE],
        "package": {"url": f"file://{PACKAGE}", "sha256": sha256},
        "servers": ["10.10.11.60"],
        "authorisation": "token",
    }
    stack.file.write_text(yaml.safe_dump(content, sort_keys=False))
    yield stack
    stack.pulumi("destroy").succeeded()
    assert (
        on_node(NODE, "sudo ls -A ~root/.bitfusion /etc/bitfusion/tls; ls -A ~ | grep -c secret || true").split()[-1]
        == "0"
    )
    on_node(NODE, f"sudo apt-get -q -y purge bitfusion-client-stub > /dev/null; rm -rf {PLACE} {PACKAGE}")


def keep(stack: Stack, canary: str) -> str:
    """Sets the stack's secret as a user does, over stdin; the text that must not turn up anywhere."""
    text = token(canary)
    words = ["pulumi", "config", "set", "--secret", "rocelab:bitfusionToken", "--stack", stack.name]
    subprocess.run(
        [*words, "--config-file", str(stack.file)], input=text, text=True, cwd=ROOT, env=dict(stack.env), check=True
    )
    return text


def in_clear(stack: Stack, text: str, canary: str) -> list[str]:
    """Where the secret can be read: the whole state and its file, and all that the engine has printed."""
    places = {"state": stack.state_text(), "printed": "".join(done.text for done in stack.ran)}
    return [place for place, content in places.items() if text[:60] in content or canary in content]


@pytest.mark.row("C 380")
def test_a_token_reaches_the_client_and_is_nowhere_else(stack: Stack) -> None:
    text = keep(stack, "first-canary")

    stack.up().succeeded()

    assert stack.outputs()["hosts"][NODE] == {"status": "ready"}
    assert on_node(NODE, "sudo cat ~root/.bitfusion/client.yaml") == "first-canary client.yaml"
    assert (
        on_node(NODE, "sudo stat -c %a ~root/.bitfusion/client.yaml ~/.rocelab-secret-bitfusion").split() == ["600"] * 2
    )
    assert on_node(NODE, "sudo bitfusion list_gpus && echo yes") == "yes"
    assert on_node("gpu02", "ls ~/.rocelab-secret-bitfusion 2>&1 | grep -c 'No such file'") == "1", "it is no client"
    assert in_clear(stack, text, "first-canary") == []
    assert hashlib.sha256(text.encode()).hexdigest() not in stack.state_text(), "its digest is a secret too"
    stack.unchanged()


def test_another_token_gets_to_its_place_though_no_document_changes(stack: Stack) -> None:
    text = keep(stack, "second-canary")

    done = stack.up().succeeded()

    assert on_node(NODE, "sudo cat ~root/.bitfusion/client.yaml") == "second-canary client.yaml"
    assert "gpu01: repairs bitfusion_token" in done.text
    assert in_clear(stack, text, "second-canary") == []


def checked(stack: Stack) -> Done:
    return stack.run("python", "-m", "components.cli", "ports", "--config-file", str(stack.file), "--check")


@pytest.mark.row("B 148-150", "B 152-160")
def test_every_way_of_the_matrix_is_tried_and_a_blocked_one_named(stack: Stack) -> None:
    good = checked(stack)
    assert good.status == 1, "there is no Bitfusion server"
    faults = [line for line in good.text.splitlines() if line.startswith("FAULT")]
    assert len(faults) == 1, good.text
    assert lines_naming(faults[0], "gpu01 ->", "10.10.11.60", "tcp 56001", SILENT)
    assert lines_naming(good.text, "here -> gpu01", "tcp 2222", OPEN)
    assert lines_naming(good.text, "gpu01 ->", "gpu02 enp5s0", "tcp 18515", "reachable")
    assert lines_naming(good.text, "worker -> worker", "udp 4791", "not checkable")

    on_node("gpu02", "sudo ip link set enp132s0 down")
    try:
        bad = checked(stack)
    finally:
        on_node("gpu02", "sudo ip link set enp132s0 up")

    assert lines_naming(bad.text, "gpu01 ->", "gpu02 enp132s0", "tcp 18516", SILENT)
