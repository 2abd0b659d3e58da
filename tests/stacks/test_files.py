"""Files that a user named."""

import os
import stat
import threading
from pathlib import Path

import pytest

from stacks.base import LabError
from stacks.files import read_text, require_writable, write_file
from tests.disk import full_disk
from tests.messages import stating


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("new")

    write_file(tmp_path / "link", "new")
    write_file(tmp_path / "dangling", "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dangling").is_symlink()
    assert (tmp_path / "target").read_text() == (tmp_path / "new").read_text() == "new"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()

    require_writable(pipe)
    write_file(pipe, "report")
    reader.join(timeout=30)

    assert received == ["report"]
    assert pipe.is_fifo()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_written_to(tmp_path: Path) -> None:
    null, full = tmp_path / "null", tmp_path / "full"
    for device, minor in ((null, 3), (full, 7)):
        try:
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, minor))
            device.open("wb").close()
        except PermissionError:
            pytest.skip("this container makes no devices")

    write_file(null, "report")
    with pytest.raises(OSError, match="cannot be written: No space left on device"):
        write_file(full, "report")

    assert null.is_char_device()
    assert full.is_char_device()


@pytest.mark.parametrize(("mode", "private", "then"), [(0o640, False, 0o640), (0o644, True, 0o600)])
def test_a_replaced_file_keeps_its_mode_unless_it_becomes_private(
    tmp_path: Path, mode: int, private: bool, then: int
) -> None:
    file = tmp_path / "report.html"
    file.touch()
    file.chmod(mode)

    write_file(file, "new", private=private)

    assert file.stat().st_mode & 0o777 == then


def test_a_full_disk_leaves_the_old_file_and_no_half_one(tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()

    with pytest.raises(OSError, match="cannot be written") as refused, full_disk():
        write_file(tmp_path / "report.html", "new")

    assert refused.value.filename == str(tmp_path / "report.html")
    assert names_in(tmp_path) == ["report.html"]
    assert not (tmp_path / "report.html").stat().st_size


def test_a_missing_folder_is_named_before_and_the_path_after(tmp_path: Path) -> None:
    file = tmp_path / "no" / "i.json"

    with pytest.raises(LabError, check=stating(file, "no folder", tmp_path / "no", "create it")):
        require_writable(file)
    with pytest.raises(FileNotFoundError) as refused:
        write_file(file, "new")

    assert refused.value.filename == str(file)


def test_a_folder_that_takes_no_file_is_found_before(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc/self/inventory.json")  # root may write everywhere else

    with pytest.raises(OSError, match="cannot be written"):
        require_writable(tmp_path / "link")
    require_writable(tmp_path / "inventory.json")

    assert names_in(tmp_path) == ["link"]


def test_a_file_that_holds_no_text_is_refused_with_its_first_wrong_byte(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"ab\xff")

    with pytest.raises(LabError, check=stating(tmp_path / "binary", "UTF-8", "byte 2")):
        read_text(tmp_path / "binary")
    with pytest.raises(LabError, check=stating("--key", "No such file or directory", "make up")):
        read_text(tmp_path / "nowhere", "--key", "Run make up")
