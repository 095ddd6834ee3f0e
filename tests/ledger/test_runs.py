from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import StatementError

from alphaswarm_rl.core.errors import LedgerError, RunError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.ledger import FamilyCount, Ledger
from alphaswarm_rl.ledger import runs as ledger_runs
from alphaswarm_rl.ledger.liveness import this_process
from alphaswarm_rl.ledger.tables import runs
from alphaswarm_rl.settings import Settings
from tests.ledger.samples import SampleSpec, new_run


def test_a_ledger_without_settings_is_the_one_that_environment_and_settings_file_name(tmp_path, monkeypatch) -> None:
    home = tmp_path / "elsewhere"
    monkeypatch.setenv("ALPHASWARM_RL_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    with Ledger.open() as ledger:
        run = new_run(ledger)
    with Ledger.open(Settings(home=home)) as same:
        assert same.run(run.id).id == run.id
    (home / "ledger.json").unlink()
    (home / "settings.yaml").write_text(f"ledger: {{url: 'sqlite:///{tmp_path / 'other.db'}'}}\n")
    with Ledger.open() as other:
        assert other.runs() == []
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / ".alphaswarm").exists()


def test_a_new_run_is_held_by_this_process_and_pins_its_version(ledger: Ledger) -> None:
    version = ledger.persist_spec(SampleSpec())
    run = ledger.create_run(version_id=version.id, target="train", seed=3, total_timesteps=1000, machine={"cpu": "x"})
    me = this_process()
    assert (run.host, run.pid, run.process_start) == (me.host, me.pid, me.process_start)
    assert (run.status, run.target, run.seed, run.family) == ("running", "train", 3, "cartpole")
    assert (run.spec_id, run.spec_hash, run.exec_hash) == (version.spec_id, version.spec_hash, version.exec_hash)
    assert (run.timesteps, run.total_timesteps, run.resumed, run.notices) == (0, 1000, 0, [])
    assert run.machine == {"cpu": "x"}
    assert run.ended_at is None
    assert ledger.run(run.id) == run


def test_the_caller_may_choose_the_id_and_the_parent(ledger: Ledger) -> None:
    parent = new_run(ledger, id="0" * 8 + "-0000-4000-8000-" + "0" * 12)
    child = new_run(ledger, parent_run_id=parent.id, target="replay", exec_hash="f" * 64)
    assert child.exec_hash == "f" * 64
    assert ledger.children(parent.id) == [child]
    assert ledger.children(child.id) == []


def test_a_run_is_found_by_its_beginning_or_as_the_latest(ledger: Ledger) -> None:
    with pytest.raises(RunError, match="no run"):
        ledger.run("latest")
    first = new_run(ledger, id="aaaa1111-0000-4000-8000-000000000000")
    second = new_run(ledger, id="aaaa2222-0000-4000-8000-000000000000")
    assert ledger.run("aaaa1") == first
    assert ledger.run("AAAA2") == second
    assert ledger.run("latest") == second
    with pytest.raises(RunError, match="several ids") as caught:
        ledger.run("aaaa")
    assert first.id in caught.value.why
    with pytest.raises(RunError, match="at least 4"):
        ledger.run("aaa")
    with pytest.raises(RunError, match="none with this id"):
        ledger.run("%%%%")
    with pytest.raises(RunError, match="Did you mean"):
        ledger.run(first.id[:-1] + "7")


def test_the_latest_run_is_the_one_that_was_made_last_whatever_clocks_say(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = new_run(ledger)
    monkeypatch.setattr(ledger_runs, "utc_now", lambda: datetime(1999, 12, 31, tzinfo=UTC))
    second = new_run(ledger, parent_run_id=first.id)
    third = new_run(ledger, parent_run_id=first.id)
    assert second.created_at < first.created_at
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert ledger.run("latest") == third
    assert [run.id for run in ledger.runs()] == [third.id, second.id, first.id]
    assert [run.id for run in ledger.runs(limit=1)] == [third.id]
    assert ledger.children(first.id) == [second, third]
    assert ledger.runs_by_spec_hash() == {first.spec_hash: [first.id, second.id, third.id]}
    with pytest.raises(RunError, match=f"The newest are {third.id}, {second.id}, {first.id}"):
        ledger.run("zzzzzzzz")


def test_runs_are_listed_by_status_target_and_slug(ledger: Ledger) -> None:
    one = new_run(ledger)
    two = new_run(ledger, target="replay")
    ledger.finish_run(one.id, "completed")
    assert [run.id for run in ledger.runs()] == [two.id, one.id]
    assert [run.id for run in ledger.runs(status="completed")] == [one.id]
    assert [run.id for run in ledger.runs(target="replay")] == [two.id]
    assert [run.id for run in ledger.runs(slug="cartpole", limit=1)] == [two.id]
    with pytest.raises(LedgerError, match="Did you mean 'cartpole'"):
        ledger.runs(slug="cartpool")
    with pytest.raises(RunError, match="Did you mean 'completed'"):
        ledger.runs(status="complete")


def test_columns_are_updated_and_mistakes_are_named(ledger: Ledger) -> None:
    run = new_run(ledger)
    ledger.update_run(run.id, timesteps=500, notices=["one"], best_reward=1.5)
    seen = ledger.run(run.id)
    assert (seen.timesteps, seen.notices, seen.best_reward) == (500, ["one"], 1.5)
    with pytest.raises(TypeError, match="no column no_such"):
        ledger.update_run(run.id, no_such=1)
    with pytest.raises(TypeError, match="status"):
        ledger.update_run(run.id, status="completed")
    with pytest.raises(RunError, match="none with this id"):
        ledger.update_run("no-such-run", timesteps=1)


def test_numbers_of_numpy_are_stored_as_numbers_and_what_is_not_finite_as_null(ledger: Ledger) -> None:
    run = new_run(ledger, seed=np.int64(2**40))
    ledger.update_run(
        run.id, timesteps=np.int64(9), sharpe=np.float32(0.5), mean_reward=math.nan, total_return=math.inf
    )
    ledger.update_run(run.id, result_summary={"a": math.nan, "b": [np.float64(1.5), -math.inf]})
    seen = ledger.run(run.id)
    assert (seen.seed, seen.timesteps, seen.sharpe) == (2**40, 9, 0.5)
    assert (seen.mean_reward, seen.total_return) == (None, None)
    assert seen.result_summary == {"a": None, "b": [1.5, None]}
    assert isinstance(seen.timesteps, int)


def test_a_run_ends_once(ledger: Ledger) -> None:
    run = new_run(ledger)
    done = ledger.finish_run(run.id, "completed", mean_reward=2.0)
    assert (done.status, done.mean_reward) == ("completed", 2.0)
    assert done.ended_at is not None
    with pytest.raises(RunError, match="completed already"):
        ledger.finish_run(run.id, "failed", error="late")
    assert ledger.run(run.id) == done
    with pytest.raises(ValueError, match="running"):
        ledger.finish_run(run.id, "running")


def test_a_run_that_another_process_took_over_is_not_ours_to_end(ledger: Ledger) -> None:
    run = new_run(ledger)
    with write(ledger.engine) as connection:
        connection.execute(update(runs).values(host="elsewhere", pid=1))
    for attempt in (lambda: ledger.heartbeat(run.id), lambda: ledger.finish_run(run.id, "completed")):
        with pytest.raises(RunError, match="process 1 on elsewhere holds it"):
            attempt()


@pytest.mark.parametrize("status", ["interrupted", "halted", "failed"])
def test_an_ended_run_can_be_claimed_for_resume(ledger: Ledger, status: str) -> None:
    run = new_run(ledger)
    ledger.finish_run(run.id, status, error="why", halt_reason="because")
    claimed = ledger.claim_for_resume(run.id)
    assert (claimed.status, claimed.resumed, claimed.ended_at) == ("running", 1, None)
    assert (claimed.error, claimed.halt_reason) == (None, None)
    assert (claimed.started_at, claimed.pid) == (run.started_at, this_process().pid)


def test_a_live_a_completed_and_a_removed_run_cannot_be_claimed(ledger: Ledger) -> None:
    run = new_run(ledger)
    with pytest.raises(RunError, match=f"it is running: process {run.pid} on {run.host} holds it"):
        ledger.claim_for_resume(run.id)
    ledger.finish_run(run.id, "completed")
    with pytest.raises(RunError, match="it is completed"):
        ledger.claim_for_resume(run.id)
    removed = new_run(ledger)
    ledger.finish_run(removed.id, "failed")
    ledger.mark_removed(removed.id)
    with pytest.raises(RunError, match="its files were removed"):
        ledger.claim_for_resume(removed.id)
    with pytest.raises(RunError, match="none with this id"):
        ledger.claim_for_resume("no-such-run")


def test_a_removed_run_stays_in_the_ledger_but_not_in_the_list(ledger: Ledger) -> None:
    run = new_run(ledger)
    with pytest.raises(RunError, match="holds it"):
        ledger.mark_removed(run.id)
    ledger.finish_run(run.id, "completed")
    first = ledger.mark_removed(run.id)
    assert first.removed_at is not None
    assert ledger.mark_removed(run.id) == first
    assert ledger.runs() == []
    assert ledger.runs(include_removed=True) == [first]
    assert ledger.run(run.id) == first


def test_a_row_is_ready_for_json(ledger: Ledger) -> None:
    run = new_run(ledger)
    document = json.loads(json.dumps(run.as_dict()))
    assert document["created_at"].endswith("+00:00")
    assert document["id"] == run.id
    assert set(document) == set(runs.c.keys())


def test_a_moment_of_any_zone_comes_back_as_the_same_moment_in_utc(ledger: Ledger) -> None:
    moment = datetime(2024, 3, 31, 2, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    if ledger.engine.dialect.name == "postgresql":
        with write(ledger.engine) as connection:
            connection.execute(text("SET TIME ZONE 'Asia/Tokyo'"))
    run = new_run(ledger, started_at=moment)
    assert run.started_at == moment
    assert run.started_at is not None
    assert run.started_at.tzinfo is UTC


def test_a_moment_without_a_zone_is_refused(ledger: Ledger) -> None:
    with pytest.raises(StatementError, match="has no time zone"):
        new_run(ledger, started_at=datetime(2024, 1, 1))


def test_a_family_counts_its_training_runs_and_how_many_differ(ledger: Ledger) -> None:
    assert ledger.count_family("cartpole") == FamilyCount("cartpole", 0, 0, 0)
    first = new_run(ledger)
    new_run(ledger)
    new_run(ledger, exec_hash="e" * 64)
    new_run(ledger, target="replay", exec_hash="d" * 64)
    new_run(ledger, family="another")
    ledger.finish_run(first.id, "failed")
    ledger.mark_removed(first.id)
    assert ledger.count_family("cartpole") == FamilyCount("cartpole", runs=3, specs=2, trials=1)
