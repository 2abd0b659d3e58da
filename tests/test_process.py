"""What a test leaves of the process for the next one."""

import os
import signal
import sys
from pathlib import Path

from tests.process import Process


def test_what_a_test_changed_of_the_process_is_reported_and_restored(tmp_path: Path) -> None:
    before, folder, home = Process(), Path.cwd(), os.environ["PATH"]

    os.environ["ROCELAB_LEFT_BEHIND"] = "1"
    os.environ["PATH"] = "/nowhere"
    os.chdir(tmp_path)
    sys.path.insert(0, str(tmp_path))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)

    assert before.restore() == [
        "variable PATH",
        "variable ROCELAB_LEFT_BEHIND",
        f"folder {tmp_path}",
        "sys.path",
        "handler of SIGPIPE",
    ]
    assert "ROCELAB_LEFT_BEHIND" not in os.environ
    assert (Path.cwd(), os.environ["PATH"]) == (folder, home)
    assert before.restore() == []


def test_a_test_that_changes_nothing_is_not_accused() -> None:
    assert Process().restore() == []
