"""A guest with the vGPU driver and Bitfusion's client, whose answers are written after their documentation."""

import base64
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from components.hosts.program.machine import Done
from tests.components.hosts.kernel import FakeHost, done
from tests.components.hosts.vendor_kernel import smi_of

SMI = smi_of("vgpu")
CANARY = "eyJhbGciOiJSUzI1NiJ9.canary-of-the-licence.c2lnbmF0dXJl"
GRIDD_FILE, TOKENS = "/etc/nvidia/gridd.conf", "/etc/nvidia/ClientConfigToken"
"""Where NVIDIA's guide has them; the daemon takes every token of the folder."""
GRIDD = "# the site's own\nServerAddress=\n#ServerPort=7070\nFeatureType=0\nEnableUI=FALSE\n"
HOME, ROOT_HOME = "/home/nvidia", "/root"


class LicensedGuest(FakeHost):
    """A guest with the vGPU driver, which is licensed when token or server are what gridd wants."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.file("/etc/passwd", f"root:x:0:0::{ROOT_HOME}:/bin/sh\nnvidia:x:1000:1000::/home/nvidia:/bin/sh\n")
        self.file("/etc/os-release", "ID=ubuntu\nVERSION_ID=20.04\n")
        self.file(GRIDD_FILE, GRIDD)
        self.has_driver, self.reachable, self.licensed = True, True, False
        self.installed: dict[str, str] = {}
        self.gives_gpus = True
        self.in_step = "yes"

    def brought(self, name: str, content: bytes | str) -> None:
        """As the stack brings it."""
        place = self.folder / HOME[1:] / f".rocelab-secret-{name}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())

    def answer(self, words: tuple[str, ...]) -> Done | None:  # noqa: PLR0911  # one line a program
        match words:
            case ("nvidia-smi", "-q", "-x"):
                status = "Licensed (Expiry: 2026-11-22 8:0:0 GMT)" if self.licensed else "Unlicensed (Unrestricted)"
                text = SMI.replace("Licensed (Expiry: 2026-11-22 8:0:0 GMT)", status)
                return Done(0, text, "") if self.has_driver else Done(127, "", "nvidia-smi is not installed")
            case ("timedatectl", *_):
                return done(self.in_step + "\n")
            case ("systemctl", "cat", "nvidia-gridd.service"):
                return Done(0 if self.has_driver else 1, "", "")
            case ("systemctl", "restart", "nvidia-gridd.service"):
                settings, tokens = self.read(GRIDD_FILE), [self.read(f"{TOKENS}/{name}") for name in self.names(TOKENS)]
                good = "ServerAddress=172.16.7.9" in settings or CANARY in tokens
                self.licensed = self.reachable and good and "FeatureType=1" in settings
                return done()
            case ("bitfusion", "list_gpus"):
                if "bitfusion-client-ubuntu2004" not in self.installed:
                    return Done(127, "", "bitfusion is not installed")
                return done() if self.gives_gpus else Done(1, "", "[ERRO] Token expired at: 2026-01-01\n")
            case ("dpkg-query", *_):
                return done("".join(f"{name} {version} installed\n" for name, version in self.installed.items()))
            case ("env", *rest) if "install" in rest:
                self.installed["bitfusion-client-ubuntu2004"] = "3.0.1-4"
                return done()
            case ("tar", *_):  # the real one, since it reads a real archive
                ended = subprocess.run(words, capture_output=True, text=True, check=False)
                return Done(ended.returncode, ended.stdout, ended.stderr)
        return None


def licence_section() -> dict[str, Any]:
    """A licence from a licence service, which takes the token."""
    return {"kind": "nls", "server": "dls.site.example", "settings": {"FeatureType": "1"}}


def client_section(folder: Path) -> dict[str, Any]:
    """A client of bare metal, which takes the token, and whose package lies in the folder."""
    package = folder / "bitfusion-client-ubuntu2004_3.0.1-4_amd64.deb"
    package.write_bytes(b"a package")
    download = {"url": f"file://{package}", "sha256": hashlib.sha256(b"a package").hexdigest()}
    return {"version": "3.0.1-4", "package": download, "authorisation": "token"}


def bitfusion_token(*names: str) -> str:
    """The archive that a Bitfusion server gives out, as the stack brings it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in names or ("./ca.crt", "./client.yaml", "./servers.conf"):
            content = f"{name} canary".encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return base64.b64encode(archive.getvalue()).decode()
