from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from alphaswarm_rl.ledger import Ledger
from tests.ledger.samples import new_run, segment_ref

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def _episode(number: int, timesteps: int, **columns: Any) -> dict[str, Any]:
    return {"phase": "train", "episode": number, "timesteps": timesteps, "mean_reward": 1.0, "length": 20, **columns}


def _evaluate(ledger: Ledger, run_id: str, timesteps: int) -> None:
    ledger.add_evaluation(
        run_id, phase="validation", timesteps=timesteps, seed=1, episodes=3, deterministic=True, started_at=NOON
    )


def _refer(ledger: Ledger, run_id: str, timesteps: int, phase: str = "train") -> None:
    kinds = ("trajectories", "equity_curves")
    ledger.add_refs([segment_ref(run_id, timesteps, kind=kind, timesteps=timesteps, phase=phase) for kind in kinds])


def test_episodes_are_stored_in_batches_and_a_row_may_stand_for_many(ledger: Ledger) -> None:
    run = new_run(ledger)
    batch = [
        _episode(0, 20, env_idx=3, portfolio_value=1.5),
        _episode(1, 90, last_episode=4, count=4),
        _episode(0, 90, phase="validation"),
    ]
    assert ledger.add_episodes(run.id, batch) == 3
    assert ledger.add_episodes(run.id, []) == 0
    one, many = ledger.episodes(run.id, "train")
    assert (one.episode, one.last_episode, one.count, one.env_idx, one.portfolio_value) == (0, 0, 1, 3, 1.5)
    assert (many.episode, many.last_episode, many.count, many.env_idx, many.length) == (1, 4, 4, None, 20.0)
    assert len(ledger.episodes(run.id)) == 3
    with pytest.raises(TypeError, match="no column reward"):
        ledger.add_episodes(run.id, [{"reward": 1}])


def test_a_batch_with_one_bad_row_stores_nothing(ledger: Ledger) -> None:
    run = new_run(ledger)
    ledger.add_episodes(run.id, [_episode(5, 100)])
    with pytest.raises(IntegrityError):
        ledger.add_episodes(run.id, [_episode(4, 80), _episode(5, 100)])
    assert [row.episode for row in ledger.episodes(run.id)] == [5]


def test_an_evaluation_comes_back_as_it_was_made(ledger: Ledger) -> None:
    run = new_run(ledger)
    made = ledger.add_evaluation(
        run.id,
        phase="evaluate",
        timesteps=100,
        seed=9,
        episodes=5,
        deterministic=False,
        started_at=NOON,
        mean_reward=3.5,
        in_sample=False,
        metrics={"lengths": [1, 2]},
    )
    assert (made.mean_reward, made.in_sample, made.deterministic, made.started_at) == (3.5, False, False, NOON)
    assert made.metrics == {"lengths": [1, 2]}
    assert made.ended_at > NOON
    assert ledger.evaluations(run.id) == [made]


def test_what_lies_beyond_a_checkpoint_is_dropped_but_not_the_events(ledger: Ledger) -> None:
    run, other = new_run(ledger), new_run(ledger)
    for each in (run, other):
        ledger.add_episodes(each.id, [_episode(0, 50), _episode(1, 100), _episode(2, 101), _episode(3, 200)])
        for timesteps in (100, 200):
            _evaluate(ledger, each.id, timesteps)
            _refer(ledger, each.id, timesteps)
        ledger.append_event(each.id, 1, "train.step", NOON, {"timesteps": 200})
    assert ledger.drop_beyond(run.id, 100) == {
        "rl_episodes": 2,
        "rl_evaluations": 1,
        "rl_trajectory_refs": 1,
        "rl_equity_curve_refs": 1,
    }
    assert [row.episode for row in ledger.episodes(run.id)] == [0, 1]
    assert [row.timesteps for row in ledger.evaluations(run.id)] == [100]
    assert len(ledger.events(run.id)) == 1
    assert len(ledger.episodes(other.id)) == 4
    assert [ref.timesteps for ref in ledger.refs(run.id)] == [100, 100]
    assert len(ledger.refs(other.id)) == 4
    ledger.add_episodes(run.id, [_episode(2, 101)])


def test_what_judged_the_checkpoint_itself_is_dropped_on_request(ledger: Ledger) -> None:
    run, other = new_run(ledger), new_run(ledger)
    for each in (run, other):
        ledger.add_episodes(each.id, [_episode(0, 100), _episode(0, 99, phase="validation")])
        for timesteps in (99, 100, 101):
            _evaluate(ledger, each.id, timesteps)
            _refer(ledger, each.id, timesteps, "train")
            _refer(ledger, each.id, timesteps, "validation")
    assert ledger.drop_beyond(run.id, 100, judged_too=True) == {
        "rl_episodes": 0,
        "rl_evaluations": 2,
        "rl_trajectory_refs": 3,
        "rl_equity_curve_refs": 3,
    }
    assert [row.timesteps for row in ledger.evaluations(run.id)] == [99]
    kept = [(ref.phase, ref.timesteps) for ref in ledger.refs(run.id) if ref.first_step is not None]
    assert kept == [("train", 99), ("train", 100), ("validation", 99)]
    assert len(ledger.refs(run.id)) == 2 * len(kept)
    assert len(ledger.evaluations(other.id)) == 3
    assert len(ledger.refs(other.id)) == 12


def test_events_are_numbered_and_read_on_from_a_number(ledger: Ledger) -> None:
    run = new_run(ledger)
    assert ledger.next_seq(run.id) == 1
    for stage in ("start", "env.built", "done"):
        ledger.append_event(run.id, ledger.next_seq(run.id), stage, NOON, {"stage": stage})
    assert [(event.seq, event.stage) for event in ledger.events(run.id)] == [
        (1, "start"),
        (2, "env.built"),
        (3, "done"),
    ]
    assert [event.seq for event in ledger.events(run.id, after=1)] == [2, 3]
    assert [event.seq for event in ledger.events(run.id, after=1, limit=1)] == [2]
    assert ledger.events(run.id)[0].ts == NOON
    with pytest.raises(IntegrityError):
        ledger.append_event(run.id, 3, "done", NOON, {})
    with pytest.raises(IntegrityError):
        ledger.append_event("no-such-run", 1, "start", NOON, {})
