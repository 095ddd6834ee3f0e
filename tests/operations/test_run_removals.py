"""Removing many runs: which are chosen, which stay and why, and what the lake gives back at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings
from alphaswarm_rl.core.errors import OptionError, RunError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.freeing import Freed
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.operations import run_removals
from alphaswarm_rl.operations.operation import RequestError
from alphaswarm_rl.operations.removals import begin_removal
from alphaswarm_rl.operations.run_removals import KeptRun, RemovedRuns, RemoveRuns, remove_runs


def trained(settings: Settings, seed: int = 0, name: str = "Random", episodes: int = 2, **changes: Any) -> str:
    spec = RLExperimentSpec.from_data(
        {
            "name": name,
            "env": {"class": "cartpole"},
            "agent": {"class": "random"},
            "training": {"total_timesteps": 40},
            "evaluation": {"episodes": episodes},
            **changes,
        }
    )
    return RLRuntime(spec, settings).train(seed=seed).run_id


def left(settings: Settings) -> set[str]:
    with Ledger.open(settings) as ledger:
        return {run.id for run in ledger.runs(limit=None)}


def ids(result: RemovedRuns) -> list[str]:
    return [each.run_id for each in result.removed]


def score(settings: Settings, run: str, reward: float | None, **columns: Any) -> None:
    with Ledger.open(settings) as ledger:
        ledger.update_run(run, mean_reward=reward, **columns)


def set_age(settings: Settings, run: str, age: timedelta) -> None:
    from sqlalchemy import update

    from alphaswarm_rl.ledger.tables import runs

    with Ledger.open(settings) as ledger, ledger.engine.begin() as connection:
        connection.execute(update(runs).where(runs.c.id == run).values(created_at=datetime.now(UTC) - age))


def test_conditions_choose_as_in_lists_and_all_must_hold(settings: Settings) -> None:
    runs = [trained(settings, seed, name) for seed, name in ((0, "One"), (1, "One"), (2, "Two"))]
    result = remove_runs(settings, RemoveRuns(where=("seed > 0", "family = one")))
    assert ids(result) == [runs[1]]
    assert result.kept == ()
    assert result.freed_bytes > 0
    assert left(settings) == {runs[0], runs[2]}
    assert remove_runs(settings, RemoveRuns(where=("seed = 9",))).removed == ()
    with pytest.raises(OptionError, match="runs have no such column"):
        remove_runs(settings, RemoveRuns(where=("sead = 9",)))
    with Ledger.open(settings) as ledger:
        assert ledger.run(runs[1]).removed_at is not None


def test_older_than_goes_by_the_beginning_of_a_run(settings: Settings) -> None:
    runs = [trained(settings, seed) for seed in range(3)]
    set_age(settings, runs[0], timedelta(hours=49))
    set_age(settings, runs[1], timedelta(hours=47))
    assert ids(remove_runs(settings, RemoveRuns(older_than=timedelta(days=2)))) == [runs[0]]
    assert left(settings) == set(runs[1:])


def test_the_best_of_each_spec_stay_among_those_that_were_judged_alike(settings: Settings) -> None:
    one = [trained(settings, seed, "One") for seed in range(4)]
    longer = trained(settings, 9, "One", episodes=3)
    two = trained(settings, 0, "Two")
    for run, reward in zip(one, (5.0, 7.0, None, 7.0), strict=True):
        score(settings, run, reward)
    score(settings, longer, 1.0)
    score(settings, two, 0.0)
    result = remove_runs(settings, RemoveRuns(keep_best=1))
    # Of equal ones the older; a run without a score is not among the best; other episodes are another contest.
    assert {kept.run_id for kept in result.kept} == {one[1], longer, two} == left(settings)
    assert {kept.why for kept in result.kept} == {"one of the 1 best of its spec"}
    assert ids(result) == [one[3], one[2], one[0]]


def test_what_is_needed_or_live_stays_and_says_why_and_users_go_first(settings: Settings) -> None:
    spec = {"agent": {"class": "ppo_inhouse", "kwargs": {"n_steps": 16, "batch_size": 16, "net_arch": [8]}}}
    first = trained(settings, 0, **spec)
    second = trained(settings, 1, **spec)
    judged = RLRuntime.from_run(first, settings).evaluate().run_id
    result = remove_runs(settings, RemoveRuns(where=("target = train",)))
    assert ids(result) == [second]
    (kept,) = result.kept
    assert (kept.run_id, kept.why) == (first, f"its checkpoint is what {judged} was judged by")
    with pytest.raises(RunError, match="was judged by"):
        remove_runs(settings, RemoveRuns(runs=(first,)))
    # The evaluation is newer than what it stands on, and goes before it.
    assert ids(remove_runs(settings, RemoveRuns(runs=(first, judged)))) == [judged, first]
    live = trained(settings, 2)
    from sqlalchemy import update

    from alphaswarm_rl.ledger.tables import runs

    with Ledger.open(settings) as ledger, ledger.engine.begin() as connection:
        connection.execute(update(runs).where(runs.c.id == live).values(status="running"))
        connection.execute(update(runs).where(runs.c.id == live).values(heartbeat_at=datetime.now(UTC)))
    (kept,) = remove_runs(settings, RemoveRuns(where=("seed = 2",))).kept
    assert kept == type(kept)(live, "it is running")


def everything(settings: Settings) -> dict[Path, bytes]:
    files = (path for path in settings.home.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm")))
    return {path: path.read_bytes() for path in files}


def test_a_dry_run_says_what_the_removal_then_does_and_changes_nothing(settings: Settings) -> None:
    spec = {"agent": {"class": "ppo_inhouse", "kwargs": {"n_steps": 16, "batch_size": 16, "net_arch": [8]}}}
    first, second, alone = (trained(settings, seed, **spec) for seed in range(3))
    judged = RLRuntime.from_run(first, settings).evaluate().run_id
    needed = RLRuntime.from_run(second, settings).evaluate().run_id
    before = everything(settings)

    def ask(question: str) -> bool:
        raise AssertionError(question)

    # What stands on the first goes before it; what stands on the second is not chosen.
    for request in (RemoveRuns(runs=(first, second, alone, judged)), RemoveRuns(where=(f"id != {needed}",))):
        planned = remove_runs(settings, replace(request, dry_run=True), confirm=ask)
        assert planned.dry_run
        assert ids(planned) == [judged, alone, first]
        assert not any(each.removed for each in planned.removed)
        assert planned.kept == (KeptRun(second, f"its checkpoint is what {needed} was judged by"),)
        assert planned.freed_bytes == sum(each.freed_bytes for each in planned.removed) > 0
    with pytest.raises(RunError, match="was judged by"):
        remove_runs(settings, RemoveRuns(runs=(first,), dry_run=True))
    with pytest.raises(RequestError, match="--now"):
        remove_runs(settings, RemoveRuns(runs=(alone,), dry_run=True, now=True))
    assert everything(settings) == before
    done = remove_runs(settings, request)
    assert [(each.run_id, each.freed_bytes) for each in done.removed] == [
        (each.run_id, each.freed_bytes) for each in planned.removed
    ]
    assert done.kept == planned.kept
    with pytest.raises(RunError, match="removed already"):
        remove_runs(settings, RemoveRuns(runs=(alone,), dry_run=True))


def test_one_question_is_asked_for_all_and_no_is_no(settings: Settings) -> None:
    runs = [trained(settings, seed) for seed in range(7)]
    asked: list[str] = []

    def answer(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(OptionError, match="--yes"):
        remove_runs(settings, RemoveRuns(where=("seed >= 0",)), confirm=answer)
    assert asked == [f"Remove the files of 7 runs: {', '.join(reversed(runs[2:]))} and 2 more?"]
    assert left(settings) == set(runs)


@pytest.mark.parametrize(
    ("fields", "why"),
    [({}, "--keep-best 3"), ({"runs": ("abcd",), "where": ("seed = 1",)}, "not both")],
)
def test_runs_are_named_or_chosen(settings: Settings, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestError, match=why):
        remove_runs(settings, RemoveRuns(**fields))


def files_of(settings: Settings, run: str) -> list[Any]:
    with Lake(settings) as lake:
        tables = [lake.find(lake.identifier(kind)) for kind in KINDS]
        return [
            path
            for table in tables
            if table is not None
            for path in lake.path(table.location()).rglob(f"data/run_id={run}/**/*.parquet")
        ]


def test_the_lake_gives_files_back_at_once_and_rows_of_others_stay(settings: Settings) -> None:
    first, second, third = (trained(settings, seed) for seed in range(3))
    later = remove_runs(settings, RemoveRuns(runs=(first,)))
    assert later.lake is None
    # What was removed before is given back too.
    assert files_of(settings, first)
    size = sum(path.stat().st_size for run in (first, second) for path in files_of(settings, run))
    count = sum(len(files_of(settings, run)) for run in (first, second))
    result = remove_runs(settings, RemoveRuns(runs=(second,), now=True))
    assert result.lake is not None
    assert (result.lake.files, result.lake.bytes, result.lake.kept) == (count, size, ())
    assert result.lake.snapshots > 0
    assert not files_of(settings, first) + files_of(settings, second)
    assert files_of(settings, third)
    with Lake(settings) as lake:
        assert {file.run_id for file in lake.files(lake.identifier("trajectories"))} == {third}


@pytest.mark.parametrize("named", [True, False])
def test_a_removal_that_was_cut_short_before_files_were_given_back_is_finished_by_the_same_command(
    settings: Settings, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [trained(settings, seed) for seed in range(2)]
    request = RemoveRuns(runs=(runs[0],), now=True) if named else RemoveRuns(where=("seed >= 0",), now=True)
    gone = runs[:1] if named else runs

    def cut_short(*_: object) -> Freed:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(run_removals, "free", cut_short)
        with pytest.raises(OSError, match="no room"):
            remove_runs(settings, request)
    assert all(files_of(settings, run) for run in gone)
    result = remove_runs(settings, request)
    assert (result.removed, result.kept) == ((), ())
    assert result.lake is not None
    assert result.lake.files > 0
    assert not any(files_of(settings, run) for run in gone)
    again = remove_runs(settings, request).lake
    assert again is not None
    assert (again.files, again.kept) == (0, ())


def test_a_removal_that_is_under_way_elsewhere_keeps_its_files(settings: Settings) -> None:
    first, second = (trained(settings, seed) for seed in range(2))
    remove_runs(settings, RemoveRuns(runs=(first,)))
    removal = begin_removal(settings, first, force=False)
    remove_runs(settings, RemoveRuns(runs=(second,), now=True))
    assert files_of(settings, first)
    assert not files_of(settings, second)
    removal.end()


def test_files_that_a_pinned_snapshot_has_stay_and_the_reason_is_said(settings: Settings) -> None:
    first = trained(settings, 0)
    with Lake(settings) as lake:
        table = lake.find(lake.identifier("trajectories"))
        assert table is not None
        snapshot = table.metadata.current_snapshot_id
    with Ledger.open(settings) as ledger:
        pinned = {"class": "iceberg", "kwargs": {"table": "rl.trajectories", "snapshot_id": snapshot}}
        ledger.persist_spec(
            RLExperimentSpec.from_data(
                {
                    "name": "Pins",
                    "env": {"class": "stock_trading"},
                    "agent": {"class": "random"},
                    "data_pipeline": pinned,
                }
            )
        )
    result = remove_runs(settings, RemoveRuns(runs=(first,), now=True))
    assert result.lake is not None
    (kept,) = result.lake.kept
    assert (kept.run_id, kept.table) == (first, "rl.trajectories")
    assert kept.files == len(files_of(settings, first)) > 0
    assert "a stored spec" in kept.why
