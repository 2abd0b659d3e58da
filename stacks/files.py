"""Files that a user named: read with an error that names what is wrong, and written whole."""

import lzma
import os
import secrets
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stacks.base import LabError

MAKE_UP_WRITES_IT = "For the simulator, `make up` writes it"


def state_folder(lab: str) -> Path:
    """Folder of what this machine keeps of a lab on hardware, in the user's state (XDG)."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rocelab" / lab


def read_text(path: Path, name: str = "", remedy: str = "") -> str:
    """The text of a file in UTF-8.

    Args:
        path: of the file.
        name: of the file in errors, if that is not the path.
        remedy: what to do about a file that cannot be read.

    Raises:
        LabError: when it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = f" ({error.strerror}). {remedy}" if remedy else f": {error.strerror}"
        raise LabError(f"{name or path} cannot be read{reason}") from None
    except UnicodeDecodeError as error:
        raise LabError(
            f"{name or path} is not UTF-8 (byte {error.start}); save it as UTF-8"
        ) from None


def read_simulator_file(field: str, path: Path | None, root: Path) -> str:
    """The text of a file that the simulator writes and a field of the lab file names.

    Raises:
        LabError: when it cannot be read.
    """
    return read_text(root / (path or ""), f"{field}: {path}", MAKE_UP_WRITES_IT)


@contextmanager
def opened_tar(path: Path, refusal: str) -> Iterator[tarfile.TarFile]:
    """A tar, compressed or not.

    Args:
        path: of the file.
        refusal: the error for a file that is no tar.

    Raises:
        LabError: when it is no tar, is cut off, or is damaged.
    """
    try:
        if not tarfile.is_tarfile(path):
            raise LabError(refusal)
        with tarfile.open(path) as tar:
            yield tar
    except (EOFError, tarfile.ReadError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise  # gzip and bz2 have OSErrors of their own, without a number
        raise LabError(f"{path} is cut off or damaged: {error}; copy it again") from None


def write_file(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Replaces a file in one step, so that a reader sees the old content or the new. A device or a
    pipe is written to.

    A symbolic link stays and its target is replaced; an existing file keeps its mode, unless it
    becomes private.

    Args:
        path: of the file; its folder exists.
        content: text is written as UTF-8.
        private: only the owner may read the file.

    Raises:
        OSError: naming the path; the old content stays.
    """
    data = content.encode() if isinstance(content, str) else content
    with _naming(path):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(Path(os.path.realpath(path)), data, private=private)


def _replace(path: Path, data: bytes, *, private: bool) -> None:
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        mode = 0o600 if private else 0o666
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            if not private and path.exists():
                os.fchmod(descriptor, path.stat().st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def require_writable(path: Path) -> None:
    """Call this before long work whose result goes to the file.

    Raises:
        LabError: when its folder is missing.
        OSError: naming the path, when its folder takes no file.
    """
    if path.exists() and not path.is_file():
        return  # a device or a pipe
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise LabError(f"{path}: there is no folder {folder}; create it")
    with _naming(path):
        tempfile.TemporaryFile(dir=folder).close()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors name the path that the user wrote."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {error.strerror}", str(path)) from None
