"""The host program as one file: a zip archive that Python runs, equal bytes from equal sources.

Not compressed: every version of zlib would give other bytes, and on a host it can be read with any
pager.
"""

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

from components.hosts.program.places import READER_FILE, SCHEMA, copy_of

SOURCES = Path(__file__).with_name("program")
PACKAGE = "rocelab_host"
TOO_OLD = (
    "sys.version_info>=(3,8) or (sys.stdin.buffer.read(),print(json.dumps(dict("
    f"schema={SCHEMA},host='',failed=dict(step='program',"
    "reason='python3 is %d.%d here, and this program needs 3.8'%sys.version_info[:2],"
    "hint='RHEL 8: dnf install python39, then alternatives --set python3 /usr/bin/python3.9; "
    "Ubuntu has it from 20.04'"
    ")))),sys.exit())"
)
"""One expression that every Python 3 reads: old versions answer with data instead of a
traceback."""
START = f"""import json
import os
import sys

{TOO_OLD}

if sys.argv[0] == "{READER_FILE}":
    # the program that was sent is this one; the document is behind it
    sys.stdin.buffer.readline()
    sys.stdin.buffer.read(os.path.getsize(sys.argv[0]))

if sys.argv[1:] in (["look"], ["look", "firmware"]):
    # by itself, since the whole program takes three times as long to load
    from {PACKAGE}.look.run import look_around

    sys.exit(look_around(firmware="firmware" in sys.argv))

if sys.argv[1:] in (["evidence"], ["evidence", "firmware"]):
    from {PACKAGE}.look.record import record_around

    sys.exit(record_around(firmware="firmware" in sys.argv))

if sys.argv[1:2] == ["bench"]:
    from {PACKAGE}.look.bench import print_bench_facts

    sys.exit(print_bench_facts(sys.argv[2:]))

if sys.argv[1:] == ["gpu-copy"]:
    from {PACKAGE}.gpu_copy import copy_around

    sys.exit(copy_around())

if sys.argv[1:] == ["watch"]:
    # Python keeps no compiled modules of an archive, and compiling them takes half of the time
    cache = os.environ.get("CACHE_DIRECTORY")
    if cache:
        unpacked = "%s/%d" % (cache, os.stat(sys.argv[0]).st_mtime_ns)
        if not os.path.isdir(unpacked):
            import shutil
            import zipfile

            for old in os.listdir(cache):
                shutil.rmtree(cache + "/" + old)
            zipfile.ZipFile(sys.argv[0]).extractall(unpacked + ".new")
            os.rename(unpacked + ".new", unpacked)
        sys.path[0] = unpacked

    from {PACKAGE}.watch import watch_around

    sys.exit(watch_around())

from {PACKAGE}.main import main

with open(sys.path[0], "rb") as archive:
    program = archive.read()
sys.exit(main(sys.argv[1:], program))
"""
"""Python puts the archive that it runs in front of its path; the program installs what it was
started from."""
BOOT = "import sys;exec(sys.stdin.buffer.readline())"
"""All that Python gets on its command line. The text is the same in every version, so a line in
sudoers can name it."""
PYTHON = "python3 -I -B"
"""-B: as root it would write bytecode beside modules that have none yet."""
LOADER = (
    "import json,os,runpy,sys;"
    f"{TOO_OLD};"
    "archive=os.memfd_create('host.pyz');"
    "os.write(archive,sys.stdin.buffer.read(SIZE));"
    "runpy.run_path('/proc/self/fd/%d'%archive,run_name='__main__')"
)
"""The first line on stdin: reads the program from stdin and leaves the document there, so that a
call needs no rocelab file on the host."""
NO_COPY = 76
"""Exit code of a login without a copy of this very program in its home."""
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


def started(verb: str) -> str:
    """The command that runs a verb of the program on its stdin, without sudo."""
    return f"{PYTHON} -c '{BOOT}' {verb}"


def read_as_root(verb: str) -> str:
    """The command for a verb that only reads, of the program that the administrator installed.

    It takes the same stdin. It fails, and has read nothing, unless that program is this one and
    sudo allows the verb.
    """
    installed = f'echo "{digest()}  {READER_FILE}" | sha256sum --check --status 2>/dev/null'
    return f"{installed} && sudo -n {PYTHON} {READER_FILE} {verb}"


def copied(verb: str) -> str:
    """The command that runs a verb of the copy in the login's home, without sudo; exits with
    `NO_COPY` if there is no copy.
    """
    copy = copy_of(digest())
    there = f'echo "{digest()}  {copy}" | sha256sum --check --status 2>/dev/null'
    return f'cd "$HOME" && {there} || exit {NO_COPY}; exec {PYTHON} {copy} {verb}'


def on_stdin(document: str = "") -> bytes:
    """What a started program reads."""
    return (
        LOADER.replace("SIZE", str(len(packed()))).encode() + b"\n" + packed() + document.encode()
    )


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, text)
