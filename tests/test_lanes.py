"""What a run of the tests leaves out is said at its end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.lanes import UNTIL

FILE = """
import pytest

@pytest.mark.sim
def test_on_the_simulator(): pass

@pytest.mark.whole
def test_of_a_size(): pass

def test_of_nothing(): pass
"""


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.whole)])
def test_a_lane_lists_what_it_leaves_out_by_choice_and_by_time(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_it.py").write_text(FILE)
    ini = "-o", "markers=sim\nwhole"
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", *ini, "-p", "tests.lanes", "-n", workers]

    done = subprocess.run(
        [*command, "-m", "not whole", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), UNTIL: "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 skipped" in done.stdout
    assert "left out: 1 tests, not in this lane" in done.stdout
    assert "left out: 1 tests, no time left for it" in done.stdout
    assert done.stdout.count("test_it.py (1)") == 2
