"""Servers for the host program."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from stacks.lab import Lab
from tests.components.hosts.kernel import FakeHost
from tests.components.hosts.system_kernel import SystemHost
from tests.components.hosts.vendor_kernel import VendorHost


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
