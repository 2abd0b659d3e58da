"""The host program as one file: a zip archive that Python runs, the same bytes from the same sources.

Not compressed: every version of zlib would give other bytes, and on a host it can be read with any pager.
"""

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

from components.hosts.program.places import SCHEMA

SOURCES = Path(__file__).with_name("program")
PACKAGE = "rocelab_host"
TOO_OLD = (
    "sys.version_info>=(3,8) or (sys.stdin.buffer.read(),print(json.dumps(dict("
    f"schema={SCHEMA},host='',failed=dict(step='program',"
    "reason='python3 is %d.%d here, and this program needs 3.8'%sys.version_info[:2],"
    "hint='RHEL 8: dnf install python39, then alternatives --set python3 /usr/bin/python3.9; Ubuntu has it from 20.04'"
    ")))),sys.exit())"
)
"""One expression that every Python 3 reads: old versions answer with data instead of a traceback.
Without double quotes, since a shell has them around it."""
START = f"""import json
import sys

{TOO_OLD}

if sys.argv[1:] in (["look"], ["look", "firmware"]):
    # by itself, since the whole program takes three times as long to load
    from {PACKAGE}.look.run import look_around

    sys.exit(look_around(firmware="firmware" in sys.argv))

from {PACKAGE}.main import main

with open(sys.path[0], "rb") as archive:
    program = archive.read()
sys.exit(main(sys.argv[1:], program))
"""
"""Python puts the archive that it runs in front of its path; the program installs what it was started from."""
LOADER = (
    "import json,os,runpy,sys;"
    f"{TOO_OLD};"
    "size=int(sys.argv.pop(1));"
    "archive=os.memfd_create('host.pyz');"
    "os.write(archive,sys.stdin.buffer.read(size));"
    "runpy.run_path('/proc/self/fd/%d'%archive,run_name='__main__')"
)
"""Reads the program from stdin and leaves the document there, so a repair needs no rocelab file on the host."""
EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def packed() -> bytes:
    """The program as it is sent to a host."""
    packing = io.BytesIO()
    with zipfile.ZipFile(packing, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.py", START)
        for path in sorted(SOURCES.rglob("*.py")):
            _add(archive, f"{PACKAGE}/{path.relative_to(SOURCES).as_posix()}", path.read_text())
    return packing.getvalue()


@cache
def digest() -> str:
    """sha256 of the packed program, hexadecimal."""
    return hashlib.sha256(packed()).hexdigest()


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, text)
