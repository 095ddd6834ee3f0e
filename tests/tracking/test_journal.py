import json
import resource
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from alphaswarm_rl.core.claims import Claim, StaleClaim
from alphaswarm_rl.core.errors import TrackingError
from alphaswarm_rl.tracking import waiting
from alphaswarm_rl.tracking.delivery import Delivery
from alphaswarm_rl.tracking.destination import Destination
from alphaswarm_rl.tracking.journal import (
    Journal,
    State,
    is_locked,
    journal_path,
    lock_path,
    operations,
    read_state,
    turn,
    write_state,
)
from alphaswarm_rl.tracking.local_tracker import LocalTracker
from alphaswarm_rl.tracking.waiting import forget, journals, standing

RUN = "run-1"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "tracking" / "journal"


def begun(folder):
    journal = Journal(folder, RUN)
    journal.append("begin", name="x", destination=Destination("local", "lab").as_data())
    return journal


def points(folder):
    lines = (folder.parent / "lab" / RUN / "metrics.jsonl").read_text().splitlines()
    return [(point["n"], point["metrics"]["loss"]) for point in map(json.loads, lines)]


def test_half_a_line_of_a_killed_process_is_dropped_and_the_numbers_go_on(folder):
    journal = begun(folder)
    journal.append("metrics", step=1, metrics={"loss": 1.0})
    journal.close()
    path = journal_path(folder, RUN)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    assert [operation.number for operation, _ in operations(path)] == [1, 2]
    assert Delivery(folder, RUN).once()
    Journal(folder, RUN).append("metrics", step=2, metrics={"loss": 2.0})
    assert [operation.number for operation, _ in operations(path)] == [1, 2, 3]
    assert Delivery(folder, RUN).once()
    assert points(folder) == [(2, 1.0), (3, 2.0)]


def test_half_a_line_in_the_trackers_own_file_is_told_again(folder):
    begun(folder).append("metrics", step=1, metrics={"loss": 1.0})
    assert Delivery(folder, RUN).once()
    path = folder.parent / "lab" / RUN / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    (folder / f"{RUN}.state.json").unlink()
    assert Delivery(folder, RUN).once()
    assert points(folder) == [(2, 1.0)]


def test_a_full_disk_loses_nothing_that_was_said(folder):
    journal = begun(folder)
    size = journal.path.stat().st_size
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        for step in range(3):
            journal.append("metrics", step=step, metrics={"loss": float(step)})
        assert "No space left" in journal.problem
        assert journal.path.stat().st_size == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    journal.append("metrics", step=3, metrics={"loss": 3.0})
    assert journal.problem is None
    assert Delivery(folder, RUN).once()
    assert points(folder) == [(2, 0.0), (3, 1.0), (4, 2.0), (5, 3.0)]


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path):
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "journal", RUN)
    journal.append("end", status="completed")
    assert "Not a directory" in journal.problem
    journal.close()


def test_two_who_deliver_take_turns(folder):
    journal = begun(folder)
    for step in range(200):
        journal.append("metrics", step=step, metrics={"loss": float(step)})
    threads = [threading.Thread(target=Delivery(folder, RUN).once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert points(folder) == [(step + 2, float(step)) for step in range(200)]
    assert standing(folder, RUN).waiting == 0


def test_who_does_not_get_the_turn_leaves_it(folder):
    begun(folder)
    with turn(folder, RUN) as ours, turn(folder, RUN, wait=0.05) as others:
        assert ours
        assert not others
    with turn(folder, RUN, wait=0) as ours:
        assert ours


def test_a_state_that_cannot_be_read_means_from_the_beginning(folder):
    begun(folder).append("metrics", step=1, metrics={"loss": 1.0})
    assert Delivery(folder, RUN).once()
    (folder / f"{RUN}.state.json").write_text("{")
    assert read_state(folder, RUN).offset == 0
    assert Delivery(folder, RUN).once()
    assert points(folder) == [(2, 1.0)]


def test_a_journal_that_lost_its_last_lines_is_delivered_from_the_beginning(folder):
    journal = begun(folder)
    journal.append("metrics", step=1, metrics={"loss": 1.0})
    kept = journal.path.read_bytes()
    journal.append("tags", tags={"team": "blue"})
    journal.close()
    assert Delivery(folder, RUN).once()
    delivered = read_state(folder, RUN).offset
    assert delivered == journal.path.stat().st_size
    journal.path.write_bytes(kept)
    assert read_state(folder, RUN).offset == 0
    again = Journal(folder, RUN)
    again.append("tags", tags={"team": "red and green and yellow"})
    again.close()
    assert journal.path.stat().st_size > delivered
    assert Delivery(folder, RUN).once()
    assert standing(folder, RUN).set_aside == ()
    assert points(folder) == [(2, 1.0)]
    assert json.loads((folder.parent / "lab" / RUN / "tags.json").read_text())["team"].startswith("red")


def test_a_forgotten_journal_is_gone(folder):
    begun(folder).append("end", status="completed")
    assert Delivery(folder, RUN).once()
    assert journals(folder) == [RUN]
    assert forget(folder, RUN) > 0
    assert journals(folder) == []
    assert list(folder.iterdir()) == []


def test_nobody_forgets_a_journal_while_it_is_delivered(folder, monkeypatch):
    begun(folder)
    monkeypatch.setattr(waiting, "turn", partial(turn, wait=0.05))
    with turn(folder, RUN):
        with pytest.raises(TrackingError, match="another process delivers"):
            forget(folder, RUN)
        assert journals(folder) == [RUN]
    assert forget(folder, RUN) > 0
    assert forget(folder, RUN) == 0


def test_a_lock_that_was_deleted_since_it_was_opened_gives_no_turn(folder):
    folder.mkdir(parents=True)
    path = lock_path(folder, RUN)
    with path.open("a") as opened:
        path.unlink()
        assert not is_locked(opened, path)
        with turn(folder, RUN, wait=0) as others:  # another made it anew
            assert others
            assert not is_locked(opened, path)


def test_one_appends_at_a_time_and_the_other_later_without_a_gap(folder):
    first, second = begun(folder), Journal(folder, RUN)
    second.append("metrics", step=2, metrics={"loss": 2.0})
    assert "somebody else appends" in second.problem
    first.append("metrics", step=1, metrics={"loss": 1.0})
    first.close()
    second.write()
    assert second.problem is None
    assert [operation.number for operation, _ in operations(first.path)] == [1, 2, 3]


def test_a_journal_is_taken_over_from_a_process_whose_run_is_anothers_now(folder):
    stale = begun(folder)
    stale.append("metrics", step=1, metrics={"loss": 1.0})
    Delivery(folder, RUN).once()
    resumed = Journal(folder, RUN)
    resumed.take_over()
    resumed.append("drop", step=0, evaluated_too=False)
    stale.append("metrics", step=2, metrics={"loss": 9.0})  # it woke up
    resumed.append("metrics", step=2, metrics={"loss": 2.0})
    assert (stale.problem, resumed.problem) == (None, None)
    stale.close()
    assert [operation.number for operation, _ in operations(resumed.path)] == [1, 2, 3, 4]
    assert Delivery(folder, RUN).once()
    assert points(folder) == [(4, 2.0)]
    assert resumed.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    third = Journal(folder, RUN)
    third.append("end", status="completed")
    assert "somebody else appends" in third.problem
    resumed.close()
    third.take_over()  # nobody holds it: the same file
    assert third.problem is not None
    third.write()
    assert third.problem is None


def test_saying_something_costs_microseconds(folder):
    journal = begun(folder)
    metrics = {f"train/{index}": index / 3 for index in range(12)}
    times = []
    for step in range(2000):
        began = time.perf_counter()
        journal.append("metrics", step=step, metrics=metrics)
        times.append(time.perf_counter() - began)
    assert sorted(times)[1000] < 0.001


def test_who_finds_a_later_claim_in_a_journal_does_not_append_to_it(folder):
    for number in (1, 2, 3):
        with_claim = Journal(folder, RUN, Claim(RUN, number))
        with_claim.append("begin", name="n", destination={}, claim=number)
        with_claim.close()
    stale, newest, anybody = (Journal(folder, RUN, claim) for claim in (Claim(RUN, 2), Claim(RUN, 3), None))
    with pytest.raises(StaleClaim, match="claim 3, and this one has 2"):
        stale.append("metrics", step=1, metrics={"loss": 1.0})
    newest.append("metrics", step=1, metrics={"loss": 2.0})  # the one that was refused holds nothing
    newest.close()
    anybody.append("end", status="completed")
    assert [operation.kind for operation, _ in operations(newest.path)] == ["begin"] * 3 + ["metrics", "end"]


def test_a_journal_from_before_claims_is_that_of_the_first(folder):
    begun(folder).close()
    Journal(folder, RUN, Claim(RUN)).append("end", status="completed")
    assert [operation.kind for operation, _ in operations(folder / f"{RUN}.jsonl")][-1] == "end"


@pytest.mark.parametrize("write", ["state", "tracker", "journal"])
def test_two_processes_of_one_id_write_the_same_file(folder, tmp_path, monkeypatch, write):
    holder = begun(folder)
    tracker = LocalTracker(tmp_path / "files", "experiment", RUN)
    changes = {
        "state": lambda: write_state(folder, RUN, State(offset=7)),
        "tracker": lambda: tracker.tags({"a": "b"}),
        "journal": lambda: Journal(folder, RUN, Claim(RUN, 2)).take_over(),
    }
    rename, other = Path.replace, []

    def slow(unfinished, target):
        if not other:
            other.append(True)
            changes[write]()
        return rename(unfinished, target)

    monkeypatch.setattr(Path, "replace", slow)
    changes[write]()
    assert other
    holder.close()
