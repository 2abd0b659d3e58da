"""What a run of the tests leaves out is said at its end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.lanes import PART, UNTIL

FILE = """
import pytest

@pytest.mark.sim
def test_on_the_simulator(): pass

@pytest.mark.whole
def test_of_a_size(): pass

@pytest.mark.sim
@pytest.mark.kills
def test_of_a_kill(): pass

def test_of_nothing(): pass
"""


def pytest_run(folder: Path, expression: str, workers: str = "0", **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the tests of a folder in a lane of their own."""
    ini = "-o", "markers=sim\nwhole\nkills"
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", *ini, "-p", "tests.lanes", "-n", workers]
    return subprocess.run(
        [*command, "-m", expression, *sorted(path.name for path in folder.glob("test_*.py"))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.whole)])
def test_a_lane_lists_what_it_leaves_out_by_choice_and_by_time(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_it.py").write_text(FILE)

    done = pytest_run(tmp_path, "not whole and not kills", workers, **{UNTIL: "1"})

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 skipped" in done.stdout
    assert "left out: 2 tests, not in this lane" in done.stdout
    assert "left out: 1 tests, no time left for it" in done.stdout
    assert "test_it.py (2)" in done.stdout
    assert "test_it.py (1)" in done.stdout


def test_each_part_runs_other_files_and_together_they_run_all(tmp_path: Path) -> None:
    names = [f"test_{letter}.py" for letter in "abcde"]
    for name in names:
        (tmp_path / name).write_text(FILE)

    left_out = []
    for part in range(2):
        shown = pytest_run(tmp_path, "whole", **{PART: f"{part}/2"}).stdout
        assert f"{(3, 2)[part]} passed" in shown
        line = shown.partition("not in this part")[2].splitlines()[1]
        left_out.append({name for name in names if name in line})

    assert left_out == [{"test_b.py", "test_d.py"}, {"test_a.py", "test_c.py", "test_e.py"}]
