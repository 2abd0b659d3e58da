"""Servers for the host program."""

import base64
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from stacks.lab import Lab
from tests.components.hosts.kernel import FakeHost
from tests.components.hosts.system_kernel import SystemHost
from tests.components.hosts.vendor_kernel import VendorHost

KEY_DEARMORED = b"a key of the lab"
KEY = (
    b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n"
    + base64.encodebytes(KEY_DEARMORED)
    + b"=njUN\n-----END PGP PUBLIC KEY BLOCK-----\n"
)


@pytest.fixture(params=["debian", "rhel"])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemHost:
    """A server of each family of distributions."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return SystemHost(tmp_path, request.param).with_grub()


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemHost:
    """A server of the Debian family, where the family makes no difference."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return SystemHost(tmp_path, "debian").with_grub()


@pytest.fixture(params=["debian", "rhel"])
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VendorHost:
    """A server of each family with NVIDIA's NICs."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    (tmp_path / "root").mkdir()
    return VendorHost(tmp_path / "root", request.param)


@pytest.fixture
def doca(tmp_path: Path) -> dict[str, str]:
    """The vendor's repository package: a file whose text names what the repository has."""
    file = tmp_path / "doca-host.pkg"
    file.write_text("doca-ofed dkms")
    return {"url": f"file://{file}", "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A node after its first boot."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return FakeHost(tmp_path)


@pytest.fixture
def document(lab: Lab) -> dict[str, Any]:
    """The document of the reference lab's first node."""
    return host_document(lab, lab.nodes[0])


@pytest.fixture
def repository() -> Iterator[dict[str, str]]:
    """A server on loopback that has the signing key and nothing else."""

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(KEY if self.path.endswith(".key") else b"")

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Keys)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1.36/"
    yield {"url": url, "key_sha256": hashlib.sha256(KEY).hexdigest()}
    server.shutdown()
    thread.join()
    server.server_close()
