"""Servers for the host program."""

from pathlib import Path

import pytest

from tests.components.hosts.system_kernel import SystemHost


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
