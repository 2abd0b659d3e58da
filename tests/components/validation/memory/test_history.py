"""History: what is kept, which run is the baseline, and a file that outlives the stack and a killed writer."""

from multiprocessing.pool import ThreadPool
from pathlib import Path

from components.validation.history import KEPT, Entry, History, Value, history_in, history_of
from components.validation.store import HISTORY, append, read

CONFIG = {"nodes": "2", "nic": "ConnectX-5"}


def entry(number: int, *, passed: bool = True, config: dict[str, str] | None = None, gbit_s: float = 97.0) -> Entry:
    return Entry(
        lab="lab",
        run_id=f"20261121-0600{number:02}-abcd",
        started_at=f"2026-11-21T06:00:{number:02}Z",
        duration_s=12.5,
        simulated=False,
        function="pass",
        performance="pass" if passed else "fail",
        passed=passed,
        fingerprint="f",
        config=CONFIG if config is None else config,
        values={"ib_write_bw one_way rail-a": Value(median=gbit_s, unit="Gbit/s", cv=0.01)},
    )


def test_the_last_runs_stay_and_the_last_one_that_passed_however_old_it_is() -> None:
    history = History()
    for number in range(KEPT + 5):
        history = history.with_entry(entry(number, passed=number < 2))

    assert [one.run_id for one in history.entries] == [entry(n).run_id for n in range(5, KEPT + 5)]
    assert history.baseline == entry(1)
    assert history_in(history.model_dump(mode="json", exclude_defaults=True)) == history


def test_the_baseline_is_the_last_passing_run_of_the_same_configuration_else_of_any() -> None:
    other = {**CONFIG, "nodes": "4"}
    history = history_of([entry(1), entry(2, config=other), entry(3, passed=False)])

    assert history.baseline_for(CONFIG) == entry(1)
    assert history.baseline_for(other) == entry(2, config=other)
    assert history.baseline_for({"nodes": "8"}) == entry(2, config=other)
    assert history_of([entry(1, passed=False)]).baseline_for(CONFIG) is None


def test_a_run_that_state_and_store_both_remember_counts_once() -> None:
    merged = history_of([entry(2), entry(3)]).merged([entry(1), entry(2)])

    assert [one.run_id for one in merged.entries] == [entry(n).run_id for n in (1, 2, 3)]
    assert merged.before(entry(3).run_id).baseline == entry(2)


def test_a_state_without_a_history_or_with_another_version_s_begins_a_new_one() -> None:
    assert history_in(None) == history_in("{") == history_in({"entries": [{"schema_version": 9}]}) == History()


def test_the_file_gives_back_what_was_written_and_only_of_this_lab(tmp_path: Path) -> None:
    append(tmp_path, entry(1))
    append(tmp_path, entry(2).model_copy(update={"lab": "another"}))
    append(tmp_path, entry(3))

    assert read(tmp_path, "lab") == [entry(1), entry(3)]
    assert read(tmp_path / "nowhere", "lab") == []


def test_a_writer_that_was_killed_within_a_line_spoils_only_that_line(tmp_path: Path) -> None:
    append(tmp_path, entry(1))
    with (tmp_path / HISTORY).open("ab") as file:
        file.write(b'{"lab": "lab", "run_i')
    append(tmp_path, entry(3))

    assert read(tmp_path, "lab") == [entry(1), entry(3)]


def test_lines_of_two_writers_do_not_mix(tmp_path: Path) -> None:
    """Each opens the file for itself, as two processes do, and another one runs during each system call."""
    with ThreadPool(2) as pool:
        pool.starmap(append, [(tmp_path, entry(n)) for n in range(40)], chunksize=1)

    assert {one.run_id for one in read(tmp_path, "lab")} == {entry(n).run_id for n in range(40)}
