"""Makes what a release consists of in `dist/`: `make dist`.

- the source archive of the commit, the same bytes from each run
- its bill of materials, as CycloneDX: the Python packages of requirements.txt, the Go modules that
  engine/ builds from
- the SHA-256 of both
"""

import gzip
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
MODULE = re.compile(r"^(?:require )?\t?([\w.-]+\.[\w.-]+/\S+) (v\S+)", re.MULTILINE)
"""A required module of a go.mod, with its version."""


def version() -> str:
    """The version that pyproject.toml names."""
    text: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return text


def archive() -> bytes:
    """The files of the commit as tar.gz. Their time is the commit's, so nothing depends on this run."""
    prefix = f"--prefix=rocelab-{version()}/"
    command = ["git", "-c", "tar.umask=0022", "archive", "--format=tar", prefix, "HEAD"]
    tar = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    return gzip.compress(tar, mtime=0)


def go_modules() -> list[dict[str, str]]:
    """The modules that the go.mod files of engine/ pin, as components of the bill."""
    modules = set()
    for file in sorted((ROOT / "engine").glob("*/go.mod")):
        required = re.sub(r"^replace [^(].*$|^replace \((.|\n)*?^\)$", "", file.read_text(), flags=re.MULTILINE)
        modules.update(MODULE.findall(required))
    components = []
    for name, pinned in sorted(modules):
        purl = f"pkg:golang/{name}@{pinned}"
        components.append({"type": "library", "bom-ref": purl, "name": name, "version": pinned, "purl": purl})
    return components


def bill() -> bytes:
    """The bill of materials, without a time or a serial number of its own."""
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "requirements.txt"]
    command += ["--pyproject", "pyproject.toml", "--output-reproducible", "--output-format", "JSON"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    document["components"] += go_modules()
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def main() -> int:
    """Writes the files and prints their sums."""
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    if changed.stdout:
        sys.stderr.write("uncommitted changes are not in the archive; commit them first\n")
        return 1
    DIST.mkdir(exist_ok=True)
    name = f"rocelab-{version()}"
    sums = []
    for file, content in ((f"{name}.tar.gz", archive()), (f"{name}.cdx.json", bill())):
        (DIST / file).write_bytes(content)
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {file}\n")
    (DIST / "SHA256SUMS").write_text("".join(sums))
    sys.stdout.write("".join(sums))
    return 0


if __name__ == "__main__":
    sys.exit(main())
