"""What a killed run leaves, and who may go on with it."""

from pathlib import Path

import pytest

from components.validation.benchmarks.verbs.ports import parse_ports, state_of
from components.validation.memory.journal import Head, Journal, JournalOptions, key_of
from components.validation.records import TransferResult
from tests.components.validation.labs import measured
from tests.conftest import ROOT

PORTS = f"boot 3f0c\n{(ROOT / 'tests' / 'samples' / 'lab' / 'ports_gpu01.txt').read_text()}"
DONE = measured("rail-a", "gpu01", "gpu02", 97.0, raw=("rail-a/0.client",))
NOW_S = 1_000_000.0


def head(run_id: str, hosts: str = "h1", began_s: float = NOW_S) -> Head:
    states = {"gpu01": hosts, "gpu02": hosts, "gpu03": "h3"}
    return Head(run_id=run_id, plan_digest="p1", fingerprint="", hosts=states, began_s=began_s)


def ended(kept: JournalOptions, run_id: str = "run-1", *results: TransferResult, text: str = "said") -> None:
    """A run that was killed after these results."""
    journal = Journal.open(kept, head(run_id), lambda _: None)
    journal.add(results, {"rail-a/0.client": text, "rail-a/0.server": text})
    journal.close(finished=False)


def gone_on(kept: JournalOptions, now: Head) -> Journal:
    """The next run."""
    journal = Journal.open(kept, now, lambda _: None)
    journal.close(finished=False)
    return journal


@pytest.mark.parametrize(("hosts", "after_s", "kept"), [("h1", 60, 1), ("h2", 60, 0), ("h1", 7 * 3600, 0)])
def test_a_run_continues_only_on_unchanged_hosts(tmp_path: Path, hosts: str, after_s: float, kept: int) -> None:
    where = JournalOptions(folder=tmp_path)
    ended(where, "run-1", DONE)

    journal = gone_on(where, head("run-2", hosts, NOW_S + after_s))

    assert len(journal.finished) == kept
    assert journal.head.run_id == ("run-1" if kept else "run-2")


@pytest.mark.parametrize(
    ("recorded", "changed", "same"),
    [
        ("boot 3f0c", "boot 77aa", False),
        ("mtu rxe0 enp5s0 9000", "mtu rxe0 enp5s0 1500", False),
        ("speed rxe0 1000", "speed rxe0 100", False),
        ("qps ", "qps  ", True),
    ],
)
def test_a_reboot_another_mtu_and_another_line_rate_make_other_hosts(recorded: str, changed: str, same: bool) -> None:
    assert recorded in PORTS
    before, after = (state_of({"gpu01": parse_ports(text)}) for text in (PORTS, PORTS.replace(recorded, changed)))

    assert (before == after) is same


def test_of_a_host_that_changed_nothing_is_taken_over_and_of_the_others_all_that_is_theirs(tmp_path: Path) -> None:
    where, said = JournalOptions(folder=tmp_path), list[str]()
    ended(where, "run-1", DONE, measured("rail-a", "gpu03", "gpu01", 12.0))
    changed = head("run-2").model_copy(
        update={"hosts": {"gpu01": "h1", "gpu02": "h1", "gpu03": "other", "gpu04": "h4"}}
    )

    journal = gone_on(where, changed)
    assert (journal.head.run_id, list(journal.finished)) == ("run-1", [key_of(DONE)])
    assert list(gone_on(where, head("run-3")).finished) == [key_of(DONE)], "nothing of gpu03 as it was comes back"

    Journal.open(where, head("run-4", "h2"), said.append).close(finished=False)
    assert [text.partition(" and ")[0] for text in said] == ["starts a new run"]


def test_a_fresh_run_reuses_nothing_and_can_be_continued(tmp_path: Path) -> None:
    ended(JournalOptions(folder=tmp_path), "run-1", DONE, measured("rail-b", "gpu01", "gpu02", 12.0))
    ended(JournalOptions(folder=tmp_path, fresh=True), "run-2", DONE)

    journal = gone_on(JournalOptions(folder=tmp_path), head("run-3"))

    assert journal.head.run_id == "run-2"
    assert list(journal.finished) == [key_of(DONE)], "nothing of the run before it"


def test_no_secret_is_written_down_before_the_run_has_ended(tmp_path: Path) -> None:
    where = JournalOptions(folder=tmp_path, secrets=("canary-password",))
    ended(where, "run-1", DONE, text="the vCenter said canary-password: no")

    (file,) = tmp_path.iterdir()
    assert "canary" not in file.read_text()
    taken = gone_on(where, head("run-2")).finished.get(key_of(DONE))
    assert taken
    assert set(taken.raw.values()) == {"the vCenter said [redacted]: no"}
