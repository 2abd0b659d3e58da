"""A simulated vCenter of a test's own, and the objects in it."""

import hashlib
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyVim.task import WaitForTask
from pyVmomi import vim

from components.fabric.vcenter import Endpoint
from tests.conftest import ROOT

ADDRESS = "127.0.12.203"
PASSWORD = "canary-of-the-vcenter"
START_S = 60


@contextmanager
def running(folder: Path, *flags: str) -> Iterator[Endpoint]:
    """A vCenter with the first inventory, ended afterwards; `folder` takes its password's file."""
    (folder / "password").write_text(PASSWORD)
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        port = free.getsockname()[1]
    own = [f"-listen={ADDRESS}:{port}", "-username=rocelab", f"-password-file={folder / 'password'}"]
    process = subprocess.Popen(
        [ROOT / ".engine/bin/vcenter", *own, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        seen = thumbprint(ADDRESS, port)
        yield Endpoint(address=ADDRESS, port=port, user="rocelab", password=PASSWORD, thumbprint_sha256=seen)
    finally:
        process.terminate()
        process.wait()


def thumbprint(address: str, port: int) -> str:
    """sha256 of the certificate that answers there, as soon as something does."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            presented = ssl.get_server_certificate((address, port), timeout=5)
        except OSError:
            assert time.monotonic() < deadline, "the simulated vCenter does not answer"
            time.sleep(0.1)
        else:
            return hashlib.sha256(ssl.PEM_cert_to_DER_cert(presented)).hexdigest()


def machine_named(host: vim.HostSystem, name: str) -> Any:
    """A VM of the host's datacenter."""
    folder = host.parent.parent.parent.vmFolder
    return next(one for one in folder.childEntity if one.name == name)


def done(task: vim.Task) -> None:
    """Waits for the good end of a task."""
    assert WaitForTask(task) == "success"
