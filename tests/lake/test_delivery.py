"""Segments come into their table once, whatever was left by whoever was killed before."""

import errno
import os
import shutil
from datetime import timedelta

import duckdb
import pyarrow.parquet as pq
import pytest

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake import producers
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.compaction import compact, merge_spooled
from alphaswarm_rl.lake.delivery import deliver, deliver_all, drop, phase_and_name
from alphaswarm_rl.lake.maintenance import expire, expired_by_commit, sweep
from alphaswarm_rl.lake.segments import Segment, SegmentName, merge, spooled
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.lake.views import ensure_duckdb_views
from alphaswarm_rl.settings import TrajectorySettings
from tests.lake.killing import rows_of
from tests.lake.rows import RUN, rows, spool

STEPS = ("trajectories",)


def nothing(segments):
    """An account that nobody keeps."""


def spooled_run(lake, count, **more):
    """So many segments of one episode each; gives those of the trajectories."""
    return [
        spool(lake, kinds=STEPS, number=number, first_episode=number, timesteps=3 * (number + 1), **more)[0]
        for number in range(count)
    ]


def episodes(lake, run_id=RUN):
    """The episodes in the table, one entry for each row."""
    return rows_of(lake, run_id)["trajectories"]["episode"].to_pylist()


def names(lake):
    return [str(phase_and_name(file)[1]) for file in lake.files(lake.identifier("trajectories"), RUN)]


def left(lake):
    return [path for path in lake.spool.rglob("*") if path.is_file()]


def test_all_segments_of_a_table_come_in_one_commit(lake):
    for number in range(4):
        spool(lake, number=number, first_episode=number)
    done = deliver_all(lake, nothing)
    assert (done.segments, done.problems) == (4 * len(KINDS), ())
    for kind in KINDS:
        assert len(lake.table(kind).metadata.snapshots) == 1
        assert rows_of(lake, RUN)[kind].num_rows == rows(kind, episodes=4).num_rows
    assert left(lake) == []


def test_the_account_is_told_once_for_all_tables(lake):
    accounted = []
    segments = spool(lake)
    deliver(lake, segments, accounted.append)
    assert accounted == [segments]
    assert left(lake) == []


def test_what_is_in_its_table_is_accounted_for_though_another_commit_fails(lake, monkeypatch):
    segments, accounted = spool(lake, kinds=("trajectories", "equity_curves", "fills")), []
    exchange = producers.exchange

    def failing(table, **more):
        if table.name()[-1].startswith("equity"):
            raise OSError(errno.ENOSPC, "No space left on device")
        exchange(table, **more)

    monkeypatch.setattr(producers, "exchange", failing)
    with pytest.raises(LakeError, match="No space left"):
        deliver(lake, segments, accounted.extend)
    assert accounted == segments[:1]
    assert left(lake) == [segment.path for segment in segments[1:]]
    monkeypatch.setattr(producers, "exchange", exchange)
    deliver_all(lake, accounted.extend)
    assert [one.name for one in accounted] == [one.name for one in segments]
    assert left(lake) == []


def test_kinds_of_which_nothing_is_left_to_do_are_said(lake):
    once = spool(lake, kinds=STEPS, number=0), spool(lake, kinds=("fills",), number=0)
    again = spool(lake, kinds=STEPS, number=1, first_episode=1, timesteps=6)
    other_phase = spool(lake, kinds=("fills",), phase="evaluate")
    assert deliver(lake, [*once[0], *once[1], *again, *other_phase], nothing) == {"fills"}
    # In the table there are others of the run, which may have to be merged with it.
    more = spool(lake, kinds=("fills",), number=1, first_episode=1, timesteps=6)
    assert deliver(lake, more, nothing) == set()
    assert deliver(lake, more, nothing) == set()


def test_snapshots_expire_in_the_commit_of_a_delivery(lake, monkeypatch):
    for number in range(4):
        (segment,) = spool(lake, kinds=STEPS, number=number, first_episode=number, timesteps=3 * (number + 1))
        deliver(lake, [segment], nothing)
    table = lake.table("trajectories")
    pinned, _, tagged, current = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    table.manage_snapshots().create_tag(tagged, "paper").commit()
    commits, commit_table = [], lake.catalog.commit_table
    monkeypatch.setattr(
        lake.catalog, "commit_table", lambda *args: (commits.append(args[0].name()), commit_table(*args))[1]
    )
    (last,) = spool(lake, kinds=STEPS, number=4, first_episode=4, timesteps=15)
    pin = {"class": "iceberg", "kwargs": {"table": "rl.trajectories", "snapshot_id": pinned}}
    deliver(lake, [last], nothing, expired=expired_by_commit(lake, [pin]))
    kept = [snapshot.snapshot_id for snapshot in lake.table("trajectories").metadata.snapshots]
    assert kept[:2] == [pinned, tagged]
    assert len(kept) == 3
    assert current not in kept
    assert len(commits) == 1
    assert sorted(set(episodes(lake))) == [0, 1, 2, 3, 4]


def test_a_snapshot_that_another_process_expired_meanwhile_is_looked_for_again(lake, settings):
    spooled_run(lake, 1)
    deliver_all(lake, nothing)
    (more,) = spool(lake, kinds=STEPS, number=1, first_episode=1, timesteps=6)
    deliver(lake, [more], nothing)
    (last,) = spool(lake, kinds=STEPS, number=2, first_episode=2, timesteps=9)
    ask, asked = expired_by_commit(lake, []), []

    def expired(table, kind):
        asked.append(ask(table, kind))
        if len(asked) == 1:
            with Lake(settings) as other:
                assert expire(other, [])[other.identifier("trajectories")] == 1
        return asked[-1]

    assert deliver(lake, [last], nothing, expired=expired) == set()
    assert [len(found) for found in asked] == [2, 1]
    assert len(lake.table("trajectories").metadata.snapshots) == 1
    assert episodes(lake) == [0] * 3 + [1] * 3 + [2] * 3


def test_nothing_to_deliver_makes_nothing(lake, settings):
    assert deliver_all(lake, nothing).segments == 0
    assert not settings.lake_path.exists()


def test_only_the_runs_that_are_named_are_delivered(lake):
    spooled_run(lake, 1)
    other = "99999999-2222-4333-8444-555555555555"
    spooled_run(lake, 1, run_id=other)
    deliver_all(lake, nothing, [other])
    assert (episodes(lake), episodes(lake, other)) == ([], [0] * 3)


def test_who_was_killed_before_the_account_is_told_again(lake):
    (segment,) = spooled_run(lake, 1)

    def killed(segments):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(lake, [segment], killed)
    delivered = []
    deliver_all(lake, delivered.extend)
    assert [one.name for one in delivered] == [segment.name]
    assert episodes(lake) == [0] * 3
    assert left(lake) == []


def test_a_file_that_was_placed_and_not_committed_is_placed_again(lake, monkeypatch):
    (segment,) = spooled_run(lake, 1)
    exchange = producers.exchange

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(producers, "exchange", killed)
    with pytest.raises(KeyboardInterrupt):
        deliver(lake, [segment], nothing)
    monkeypatch.setattr(producers, "exchange", exchange)
    # The run was resumed, and its segment of this name has other rows now.
    segment.path.unlink()
    (other,) = spool(lake, kinds=STEPS, first_episode=7, timesteps=3)
    assert other.name == segment.name
    deliver_all(lake, nothing)
    assert episodes(lake) == [7] * 3


def test_a_part_of_a_merged_segment_that_is_in_the_table_adds_nothing(lake):
    segments = spooled_run(lake, 3)
    copies = {segment.path: segment.path.read_bytes() for segment in segments}
    merge_spooled(lake.spool, Claim(RUN))
    deliver_all(lake, nothing)
    for path, content in copies.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    deliver_all(lake, nothing)
    assert names(lake) == ["000000-000002_000000000009.parquet"]
    assert episodes(lake) == [0] * 3 + [1] * 3 + [2] * 3
    assert left(lake) == []


def test_a_merged_segment_takes_the_place_of_its_parts_in_the_table(lake):
    segments = spooled_run(lake, 3)
    whole = segments[0].path.with_name(str(SegmentName(0, 2, 9)))
    merge(segments, whole)
    copy = whole.read_bytes()
    whole.unlink()
    deliver(lake, segments[:2], nothing)
    whole.write_bytes(copy)
    deliver_all(lake, nothing)
    assert names(lake) == [whole.name]
    assert episodes(lake) == [0] * 3 + [1] * 3 + [2] * 3
    assert left(lake) == []


def test_parts_beside_a_merged_segment_in_the_spool_are_not_delivered_beside_it(lake):
    segments = spooled_run(lake, 3)
    whole = segments[0].path.with_name(str(SegmentName(0, 2, 9)))
    merge(segments, whole)
    assert list(spooled(lake.spool, RUN)) == [whole]
    assert len(spooled(lake.spool, RUN, parts=True)) == 4
    merge_spooled(lake.spool, Claim(RUN))
    assert [path.name for path in left(lake)] == [whole.name]
    deliver_all(lake, nothing)
    assert episodes(lake) == [0] * 3 + [1] * 3 + [2] * 3


def test_a_segment_goes_to_the_table_it_was_written_for(lake, settings):
    spooled_run(lake, 1)
    renamed = settings.model_copy(update={"trajectory": TrajectorySettings(namespace="lab", table="paths")})
    with Lake(renamed) as other:
        deliver_all(other, nothing)
        assert other.find("lab.paths") is None
    assert episodes(lake) == [0] * 3


def test_across_disks_files_are_copied(lake, monkeypatch):
    def refused(source, target, **more):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    spooled_run(lake, 2)
    deliver_all(lake, nothing)
    assert episodes(lake) == [0] * 3 + [1] * 3
    assert not list(lake.path(lake.warehouse).rglob(".copy-*"))
    assert left(lake) == []


def test_a_file_that_is_no_segment_in_such_a_table_is_an_error(lake):
    spooled_run(lake, 1)
    deliver_all(lake, nothing)
    lake.append_arrow(lake.identifier("trajectories"), rows("trajectories"))
    with pytest.raises(LakeError, match=r"no segment's.*table of their own"):
        compact(lake, Claim(RUN))


# -- dropping and merging --------------------------------------------------------------------------------------------


def test_what_is_unwanted_leaves_the_table(lake):
    segments = spooled_run(lake, 4)
    deliver(lake, segments[:3], nothing)
    drop(lake, RUN, lambda phase, name: name.timesteps > 6)
    assert episodes(lake) == [0] * 3 + [1] * 3
    assert left(lake) == [segments[3].path]
    version = lake.table("trajectories").metadata_location
    drop(lake, RUN, lambda phase, name: name.timesteps > 6)
    assert lake.table("trajectories").metadata_location == version


@pytest.mark.parametrize("where", ["spool", "table"])
@pytest.mark.parametrize(
    ("phase", "merged"),
    [
        ("train", ["000000-000003_000000000012.parquet"]),
        # A run that is resumed at its end drops what was judged last, and nothing else.
        ("validation", ["000000-000002_000000000009.parquet", "000003_000000000012.parquet"]),
    ],
)
def test_neighbours_are_merged_but_for_what_was_judged_last(lake, where, phase, merged):
    spooled_run(lake, 4, phase=phase)
    if where == "spool":
        merge_spooled(lake.spool, Claim(RUN))
        deliver_all(lake, nothing)
    else:
        deliver_all(lake, nothing)
        assert compact(lake, Claim(RUN)) > 0
        assert compact(lake, Claim(RUN)) == 0
    assert sorted(names(lake)) == merged
    assert episodes(lake) == [number for number in range(4) for _ in range(3)]


def test_segments_with_a_gap_between_them_are_not_merged(lake):
    for number in (0, 1, 3):
        spool(lake, kinds=STEPS, number=number, first_episode=number, timesteps=number)
    merge_spooled(lake.spool, Claim(RUN))
    found = list(spooled(lake.spool, RUN).values())
    assert found == [SegmentName(0, 1, 1), SegmentName(3, 3, 3)]


def test_a_merged_segment_knows_what_its_parts_knew(lake):
    segments = spool(lake, number=0, first_episode=0) + spool(lake, number=1, first_episode=5, steps=4)
    for kind in KINDS:
        parts = [segment for segment in segments if segment.facts.kind == kind]
        whole = merge(parts, lake.spool / f"{kind}.parquet")
        assert isinstance(whole, Segment)
        facts = whole.facts
        assert facts.rows == pq.read_metadata(whole.path).num_rows == sum(part.facts.rows for part in parts)
        assert (facts.first_episode, facts.last_episode, facts.first_step, facts.last_step) == (0, 5, 0, 3)
        total = sum(int(part.facts.checksum, 16) for part in parts) % 2**64
        assert int(facts.checksum, 16) == total


def test_a_snapshot_keeps_its_rows_when_a_resumed_run_brings_others_under_the_same_number(lake):
    (first,) = spool(lake, kinds=STEPS, steps=3)
    deliver(lake, [first], nothing)
    identifier = lake.identifier("trajectories")
    pinned = lake.find(identifier).current_snapshot().snapshot_id
    drop(lake, RUN, lambda phase, name: True)
    (other,) = spool(lake, kinds=STEPS, steps=4, timesteps=3)
    assert other.name == first.name
    deliver(lake, [other], nothing)
    assert episodes(lake) == [0] * 4
    assert lake.find(identifier).scan(snapshot_id=pinned).to_arrow().num_rows == 3


def test_a_copied_home_does_not_write_into_the_original(lake, settings, tmp_path):
    deliver(lake, spooled_run(lake, 1), nothing)
    shutil.copytree(settings.home, tmp_path / "copy")
    with Lake(settings.model_copy(update={"home": tmp_path / "copy"})) as copied:
        spooled_run(copied, 2)
        with pytest.raises(LakeError, match="copied or moved"):
            deliver_all(copied, nothing)
        with pytest.raises(LakeError, match="copied or moved"):
            sweep(copied, timedelta(days=1))
        assert len(left(copied)) == 2


def test_to_look_for_a_lake_makes_none(settings, tmp_path):
    url = f"sqlite:///{tmp_path / 'typo' / 'lake.db'}"
    elsewhere = settings.model_copy(update={"lake": settings.lake.model_copy(update={"catalog_url": url})})
    with Lake(elsewhere) as lake, duckdb.connect() as connection:
        assert not lake.exists
        ensure_duckdb_views(connection, elsewhere)
        assert connection.sql("SELECT count(*) FROM rl_trajectories").fetchall() == [(0,)]
    assert not (tmp_path / "typo").exists()
