"""Status, expiry and sweep: what may leave the lake, and what never does."""

import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.errors import DataError, LakeError, OptionError
from alphaswarm_rl.lake import catalog
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.compaction import compact
from alphaswarm_rl.lake.delivery import deliver_all, drop
from alphaswarm_rl.lake.maintenance import expire, status, sweep
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.recording.table_refs import refs_writer
from tests.lake.rows import RUN, spool
from tests.ledger.samples import new_run

OTHER = RUN.replace("1", "a")
DAY = timedelta(hours=24)


def delivered(lake, ledger, run_id=RUN, segments=3, *, at_once=False):
    """A completed run with that many segments of each kind, each delivered by a commit of its own."""
    if run_id not in [row.id for row in ledger.runs()]:
        new_run(ledger, id=run_id)
        ledger.finish_run(run_id, "completed")
    for number in range(segments):
        spool(lake, run_id, number=number, first_episode=number, timesteps=3 * (number + 1))
        if not at_once:
            deliver_all(lake, refs_writer(ledger))
    deliver_all(lake, refs_writer(ledger))


def rows_of(lake, kind="trajectories", snapshot_id=None):
    """The rows of a table in order."""
    table = lake.catalog.load_table(lake.identifier(kind)).scan(snapshot_id=snapshot_id).to_arrow()
    keys = [name for name in ("env_idx", "episode", "step", "asset_idx", "term_name") if name in table.column_names]
    return table.sort_by([(key, "ascending") for key in keys])


def snapshots(lake, kind="trajectories"):
    return [one.snapshot_id for one in lake.catalog.load_table(lake.identifier(kind)).metadata.snapshots]


def make_old(folder, age=timedelta(days=2)):
    """Everything below a folder was written that long ago."""
    then = time.time() - age.total_seconds()
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


def files_below(folder):
    return {path for path in folder.rglob("*") if path.is_file()}


def test_status_of_nothing_makes_nothing(lake, ledger, settings):
    found = status(lake, ledger, unknown=True)
    assert found.tables == ()
    assert found.undelivered == ()
    assert not settings.lake_path.exists()


def test_status_counts_tables_spool_and_files_that_no_snapshot_has(lake, ledger):
    delivered(lake, ledger, segments=2)
    spool(lake, OTHER, kinds=["trajectories", "equity_curves"], steps=5)
    (segment, _) = lake.spool.rglob("*.parquet")
    segment.write_bytes(b"no Parquet")
    stray = lake.path(lake.warehouse) / "rl" / "trajectories" / "data" / "stray.parquet"
    stray.write_bytes(b"x" * 10)
    found = status(lake, ledger, unknown=True)
    by_kind = {table.kind: table for table in found.tables}
    assert [by_kind[kind].rows for kind in KINDS] == [6, 6, 12, 12, 12, 6]
    trajectories = by_kind["trajectories"]
    assert (trajectories.snapshots, trajectories.files, trajectories.runs) == (2, 2, 1)
    # Every commit leaves its metadata file; the log of earlier ones has three.
    assert trajectories.unknown_files >= 1
    assert trajectories.unknown_bytes >= 10
    (waiting,) = found.undelivered
    assert (waiting.run_id, waiting.status, waiting.segments, waiting.unreadable) == (OTHER, None, 2, 1)
    assert waiting.rows == 5
    assert status(lake, ledger).tables[0].unknown_files is None


def test_expire_keeps_the_current_snapshot_alone(lake, ledger):
    delivered(lake, ledger)
    before = {kind: rows_of(lake, kind) for kind in KINDS}
    current = snapshots(lake)[-1]
    assert expire(lake, []) == {lake.identifier(kind): 2 for kind in KINDS}
    assert snapshots(lake) == [current]
    assert {kind: rows_of(lake, kind) for kind in KINDS} == before
    assert expire(lake, []) == dict.fromkeys(map(lake.identifier, KINDS), 0)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("as_text", [False, True])
def test_expire_keeps_a_snapshot_that_a_stored_spec_names(lake, ledger, nested, as_text):
    delivered(lake, ledger)
    _, second, third = snapshots(lake)
    pin = {"class": "medallion_replay", "kwargs": {"table": "rl.trajectories", "snapshot_id": second}}
    if as_text:
        pin["kwargs"]["snapshot_id"] = str(second)
    expire(lake, [{"class": "joined", "kwargs": {"sources": [pin]}} if nested else pin])
    assert snapshots(lake) == [second, third]
    assert rows_of(lake, snapshot_id=second).num_rows == 6


@pytest.mark.parametrize("table", ["rl.trajectories", "trajectories"])
def test_expire_keeps_the_snapshot_of_a_moment_that_a_stored_spec_names(lake, ledger, table):
    delivered(lake, ledger)
    metadata = lake.catalog.load_table("rl.trajectories").metadata
    then = datetime.fromtimestamp(metadata.snapshots[1].timestamp_ms / 1000, UTC)
    pinned = [{"class": "iceberg", "kwargs": {"table": table, "as_of": then.isoformat()}}]
    for _ in range(2):  # the moment means the same snapshot after others are gone
        expire(lake, pinned)
        assert snapshots(lake) == [one.snapshot_id for one in metadata.snapshots[1:]]
    assert len(snapshots(lake, "action_logs")) == 1


def test_a_moment_that_cannot_be_read_expires_nothing(lake, ledger):
    delivered(lake, ledger, segments=2)
    with pytest.raises(DataError, match="last summer"):
        expire(lake, [{"class": "iceberg", "kwargs": {"table": "rl.trajectories", "as_of": "last summer"}}])
    assert len(snapshots(lake)) == 2


def test_expire_keeps_tagged_and_recent_snapshots(lake, ledger):
    delivered(lake, ledger)
    first, _, third = snapshots(lake)
    lake.catalog.load_table("rl.trajectories").manage_snapshots().create_tag(first, "paper").commit()
    expire(lake, [], keep=timedelta(hours=1))
    assert len(snapshots(lake)) == 3
    expire(lake, [])
    assert snapshots(lake) == [first, third]


def test_two_processes_may_expire_at_once(lake, ledger, settings, monkeypatch):
    delivered(lake, ledger)
    # The other one is in this process, and waits for its turn in vain.
    monkeypatch.setattr(catalog, "_LONGEST_TURN_S", 0.05)
    find, late = lake.find, []

    def find_and_be_late(identifier):
        table = find(identifier)
        if not late:
            late.append(True)
            with Lake(settings) as other:
                expire(other, [])
        return table

    monkeypatch.setattr(lake, "find", find_and_be_late)
    assert sum(expire(lake, []).values()) == 0
    assert len(snapshots(lake)) == 1


def test_sweep_deletes_what_compaction_replaced_once_it_is_old(lake, ledger):
    delivered(lake, ledger)
    folder = lake.path(lake.warehouse) / "rl" / "trajectories" / "data" / f"run_id={RUN}" / "train"
    small = files_below(folder)
    before = {kind: rows_of(lake, kind) for kind in KINDS}
    pinned = snapshots(lake)[1]
    at_pin = rows_of(lake, snapshot_id=pinned)
    assert compact(lake, Claim(RUN)) == 3 * len(KINDS)
    pins = [{"kwargs": {"table": "rl.trajectories", "snapshot_id": pinned}}]
    expire(lake, pins)
    assert sweep(lake, DAY).files == 0  # all of it is young
    make_old(lake.path(lake.warehouse))
    planned = sweep(lake, DAY, dry_run=True)
    assert small < files_below(folder)
    done = sweep(lake, DAY)
    assert done == planned
    assert done.bytes > 0
    # The pinned snapshot has the first two.
    assert len(small & files_below(folder)) == 2
    assert {kind: rows_of(lake, kind) for kind in KINDS} == before
    assert rows_of(lake, snapshot_id=pinned) == at_pin
    expire(lake, [])
    make_old(lake.path(lake.warehouse))
    sweep(lake, DAY)
    assert not small & files_below(folder)
    assert {kind: rows_of(lake, kind) for kind in KINDS} == before
    make_old(lake.path(lake.warehouse))
    assert sweep(lake, DAY).files == 0
    assert all(table.unknown_files == 0 for table in status(lake, ledger, unknown=True).tables)
    # The table can be written to as before.
    delivered(lake, ledger, OTHER, segments=1)
    assert rows_of(lake).num_rows == 12


def test_sweep_keeps_every_snapshot_that_is_left(lake, ledger):
    delivered(lake, ledger)
    before = {number: rows_of(lake, snapshot_id=number) for number in snapshots(lake)}
    compact(lake, Claim(RUN))
    make_old(lake.path(lake.warehouse))
    sweep(lake, DAY)
    assert {number: rows_of(lake, snapshot_id=number) for number in before} == before


def test_undelivered_segments_survive_all_maintenance(lake, ledger):
    delivered(lake, ledger)
    waiting = spool(lake, RUN, number=3, first_episode=3, timesteps=12)
    # One is in the warehouse already, and its commit did not come.
    for segment in waiting:
        target = lake.path(lake.warehouse) / "rl" / segment.facts.kind / f"data/run_id={RUN}/train" / segment.path.name
        os.link(segment.path, target)
    half = waiting[0].path.with_name(".open-000009")
    half.write_bytes(b"being written")
    make_old(lake.settings.lake_path)
    before = {path: path.read_bytes() for path in files_below(lake.spool)}
    compact(lake, Claim(RUN))
    expire(lake, [])
    sweep(lake, DAY)
    status(lake, ledger, unknown=True)
    assert {path: path.read_bytes() for path in files_below(lake.spool)} == before
    assert all(
        (lake.path(lake.warehouse) / "rl" / s.facts.kind / f"data/run_id={RUN}/train" / s.path.name).exists()
        for s in waiting
    )
    deliver_all(lake, refs_writer(ledger))
    assert rows_of(lake).num_rows == 12


def test_sweep_deletes_leftovers_and_empty_folders(lake, ledger):
    delivered(lake, ledger, segments=1)
    delivered(lake, ledger, OTHER, segments=1)
    drop(lake, OTHER, lambda phase, name: True)
    expire(lake, [])
    warehouse = lake.path(lake.warehouse)
    scratch = warehouse / ".compact-killed"
    scratch.mkdir()
    copy = warehouse / f"rl/trajectories/data/run_id={RUN}/train/.copy-000009_000000000009.parquet"
    for leftover in (scratch / ".open-000000", copy):
        leftover.write_bytes(b"half")
    sweep(lake, DAY)
    assert scratch.exists()
    assert copy.exists()
    make_old(warehouse)
    sweep(lake, DAY)
    assert not scratch.exists()
    assert not copy.exists()
    assert [path.name for path in (warehouse / "rl/trajectories/data").iterdir()] == [f"run_id={RUN}"]
    assert rows_of(lake).num_rows == 3


def test_sweep_leaves_a_file_that_came_anew_meanwhile(lake, ledger, monkeypatch):
    delivered(lake, ledger, segments=1)
    drop(lake, RUN, lambda phase, name: True)
    expire(lake, [])
    warehouse = lake.path(lake.warehouse)
    (orphan,) = (warehouse / "rl/trajectories/data").rglob("*.parquet")
    make_old(warehouse)
    load = lake.catalog.load_table

    def load_and_be_late(identifier):
        table = load(identifier)
        shutil.copyfile(orphan, orphan.with_name("copy"))
        orphan.with_name("copy").rename(orphan)  # what a resumed run does
        return table

    monkeypatch.setattr(lake.catalog, "load_table", load_and_be_late)
    sweep(lake, DAY)
    assert orphan.exists()


def test_sweep_refuses_times_within_which_files_may_be_on_their_way(lake):
    with pytest.raises(OptionError, match="on their way"):
        sweep(lake, timedelta(minutes=9))


def test_sweep_refuses_a_catalogue_that_is_older_than_its_files(lake, ledger, settings):
    delivered(lake, ledger, segments=1)
    lake.close()
    catalogue = settings.lake_path / "catalog.db"
    copy = catalogue.read_bytes()
    delivered(lake, ledger, segments=3)
    lake.close()
    catalogue.write_bytes(copy)
    before = files_below(lake.path(lake.warehouse))
    make_old(lake.path(lake.warehouse))
    with pytest.raises(LakeError, match="older than its files"):
        sweep(lake, DAY)
    assert files_below(lake.path(lake.warehouse)) == before


def test_the_same_on_s3(s3_lake, ledger, monkeypatch):
    delivered(s3_lake, ledger, at_once=True)
    before = rows_of(s3_lake)
    compact(s3_lake, Claim(RUN))
    expire(s3_lake, [])
    waiting = spool(s3_lake, RUN, number=3, first_episode=3, timesteps=12)
    assert sweep(s3_lake, DAY).files == 0
    unknown = sum(table.unknown_files for table in status(s3_lake, ledger, unknown=True).tables)
    assert unknown >= 12

    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=2)

    monkeypatch.setattr("alphaswarm_rl.lake.sweeping.datetime", Tomorrow)
    assert sweep(s3_lake, DAY).files == unknown
    assert rows_of(s3_lake) == before
    assert all(Path(segment.path).exists() for segment in waiting)
