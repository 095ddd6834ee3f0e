"""Many processes that commit to one table at the same time."""

import os
import time
import uuid
from pathlib import Path

import pytest

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.lake import producers
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.compaction import compact
from alphaswarm_rl.lake.delivery import deliver
from alphaswarm_rl.lake.maintenance import expire
from alphaswarm_rl.settings import LakeSettings, Settings
from tests.lake.killing import CONTEXT, rows_of
from tests.lake.rows import RUN, rows, spool

KINDS = ("trajectories", "equity_curves")


def writer(settings: Settings, run_id: str, commits: int, start, environ=()) -> None:
    """What one process does: so many commits, and then what the end of a run brings."""
    os.environ.update(environ)
    with Lake(settings) as lake:
        start.wait()
        for number in range(commits):
            segments = spool(lake, run_id, number=number, kinds=KINDS, first_episode=number, timesteps=number + 1)
            deliver(lake, segments, lambda segments: None)
        compact(lake, Claim(run_id))
        expire(lake, [])


def _check(*homes: Settings, writers: int, commits: int) -> None:
    run_ids = [str(uuid.uuid4()) for _ in range(writers)]
    start = CONTEXT.Barrier(writers)
    processes = [
        CONTEXT.Process(target=writer, args=(homes[number % len(homes)], run_id, commits, start, dict(os.environ)))
        for number, run_id in enumerate(run_ids)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(500)
    assert [process.exitcode for process in processes] == [0] * writers
    with Lake(homes[0]) as lake:
        for run_id in run_ids:
            found = rows_of(lake, run_id)
            for kind in KINDS:
                expected = rows(kind, run_id, episodes=commits).drop_columns("run_id")
                keys = ["episode", "step"]
                assert found[kind].select(keys).equals(expected.select(keys)), kind
            assert len(lake.files(lake.identifier("trajectories"), run_id)) == 1
        assert len(lake.files(lake.identifier("trajectories"))) == writers
    for settings in homes:
        assert list((settings.lake_path / "spool").rglob("*.parquet")) == []


def test_no_row_is_lost_or_doubled_on_sqlite(tmp_path):
    _check(Settings(home=tmp_path / "home"), writers=4, commits=5)


def test_no_row_is_lost_or_doubled_on_postgresql(tmp_path, new_postgres):
    _check(Settings(home=tmp_path / "home", lake=LakeSettings(catalog_url=new_postgres())), writers=4, commits=3)


@pytest.mark.slow
def test_no_row_is_lost_or_doubled_on_s3_and_postgresql(remote_settings):
    _check(remote_settings, writers=4, commits=5)


@pytest.mark.slow
@pytest.mark.parametrize("catalogue", ["sqlite", "postgresql"])
def test_no_row_of_eight_writers_with_twenty_commits_each_is_lost_or_doubled(request, tmp_path, catalogue):
    url = request.getfixturevalue("new_postgres")() if catalogue == "postgresql" else None
    _check(Settings(home=tmp_path / "home", lake=LakeSettings(catalog_url=url)), writers=8, commits=20)


@pytest.mark.slow
@pytest.mark.parametrize("catalogue", ["sqlite", "postgresql"])
def test_no_row_of_eight_writers_with_homes_of_their_own_is_lost_or_doubled(request, tmp_path, catalogue):
    postgresql = catalogue == "postgresql"
    url = request.getfixturevalue("new_postgres")() if postgresql else f"sqlite:///{tmp_path / 'catalog.db'}"
    shared = LakeSettings(catalog_url=url, warehouse=str(tmp_path / "warehouse"))
    _check(*(Settings(home=tmp_path / f"home-{number}", lake=shared) for number in range(8)), writers=8, commits=20)


def commits_and_denies(monkeypatch, times):
    """Lets commits go through and then say that nobody knows; gives how often it did."""
    from pyiceberg.exceptions import CommitStateUnknownException

    exchange, denied = producers.exchange, []

    def uncertain(*args, **kwargs):
        exchange(*args, **kwargs)
        if len(denied) < times:
            denied.append(None)
            raise CommitStateUnknownException("the connection broke after the commit was sent")

    monkeypatch.setattr(producers, "exchange", uncertain)
    return denied


def test_a_commit_of_which_nobody_knows_whether_it_went_through_is_made_once(tmp_path, monkeypatch):
    denied = commits_and_denies(monkeypatch, times=2)
    with Lake(Settings(home=tmp_path / "home")) as lake:
        delivered = []
        deliver(lake, spool(lake, kinds=KINDS), delivered.extend)
        assert len(denied) == 2
        for kind in KINDS:
            (file,) = lake.files(lake.identifier(kind), RUN)
            assert file.rows == 3
            assert len(lake.table(kind).metadata.snapshots) == 1
        assert [segment.facts.kind for segment in delivered] == list(KINDS)
        assert list(lake.spool.rglob("*.parquet")) == []


def test_a_compaction_of_which_nobody_knows_whether_it_went_through_is_made_once(tmp_path, monkeypatch):
    with Lake(Settings(home=tmp_path / "home")) as lake:
        for number in range(3):
            deliver(lake, spool(lake, number=number, first_episode=number, kinds=KINDS[:1]), lambda _: None)
        before = rows_of(lake, RUN)
        commits_and_denies(monkeypatch, times=1)
        compact(lake, Claim(RUN))
        assert len(lake.files(lake.identifier("trajectories"), RUN)) == 1
        assert rows_of(lake, RUN) == before


def test_a_writer_that_is_killed_while_others_commit_disturbs_nobody(tmp_path):
    settings = Settings(home=tmp_path / "home")
    start = CONTEXT.Barrier(2)
    victim = CONTEXT.Process(target=writer, args=(settings, str(uuid.uuid4()), 50, start))
    other = CONTEXT.Process(target=writer, args=(settings, RUN, 5, start))
    victim.start()
    other.start()
    _wait_for(settings.lake_path / "warehouse")
    victim.kill()
    other.join(120)
    victim.join()
    assert other.exitcode == 0
    with Lake(settings) as lake:
        assert rows_of(lake, RUN)["trajectories"].num_rows == 15


def _wait_for(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not any(folder.rglob("*.avro")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
