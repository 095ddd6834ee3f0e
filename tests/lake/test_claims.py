"""Commits for a run are refused to a process whose claim is not the newest, and files of claims are kept apart."""

import os
import shutil
import time
from datetime import timedelta

import pytest

from alphaswarm_rl.core.claims import Claim, StaleClaim
from alphaswarm_rl.lake import catalog, producers, segments
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.claims import announce, newest_claim, withdraw
from alphaswarm_rl.lake.compaction import compact, merge_spooled
from alphaswarm_rl.lake.delivery import deliver, deliver_all, drop
from alphaswarm_rl.lake.segments import plain_files, put, spooled, take_over
from alphaswarm_rl.lake.sweeping import sweep
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.lake.views import register_run_views
from tests.lake.killing import rows_of
from tests.lake.rows import RUN, spool

FIRST, SECOND, THIRD = (Claim(RUN, number) for number in (1, 2, 3))


def nothing(delivered):
    """An account that nobody keeps."""


def count(lake):
    return {kind: table.num_rows for kind, table in rows_of(lake, RUN).items()}


def taken_over(lake, claim, unwanted=lambda path: False):
    take_over(lake.spool / RUN, claim, unwanted)


def test_every_table_knows_a_claim_from_the_second_one_on(lake):
    deliver(lake, spool(lake), nothing)
    assert {newest_claim(lake.table(kind), RUN) for kind in KINDS} == {1}
    before = count(lake)
    announce(lake, SECOND)
    assert {lake.table(kind).properties[f"alphaswarm.claim.{RUN}"] for kind in KINDS} == {"2"}
    assert {newest_claim(lake.table(kind), RUN) for kind in KINDS} == {2}
    assert {newest_claim(lake.table(kind), "another") for kind in KINDS} == {1}
    assert count(lake) == before


def test_to_announce_a_claim_twice_changes_nothing_and_an_older_one_is_refused(lake):
    announce(lake, SECOND)
    versions = [lake.table(kind).metadata_location for kind in KINDS]
    announce(lake, SECOND)
    assert [lake.table(kind).metadata_location for kind in KINDS] == versions
    announce(lake, THIRD)
    with pytest.raises(StaleClaim, match="claim 3, and this one has 2"):
        announce(lake, SECOND)
    assert newest_claim(lake.table("trajectories"), RUN) == 3


def test_what_an_older_claim_delivers_is_refused_and_stays_where_it_is(lake):
    waiting = spool(lake)
    announce(lake, SECOND)
    with pytest.raises(StaleClaim):
        deliver(lake, waiting, nothing)
    assert all(segment.path.exists() for segment in waiting)
    assert set(count(lake).values()) == {0}


@pytest.mark.parametrize("change", ["deliver", "compact", "drop"])
def test_a_committer_that_looked_before_the_claim_does_not_come_through(lake, settings, monkeypatch, change):
    for number in range(3):
        deliver(lake, spool(lake, number=number, first_episode=number), nothing)
    before = count(lake)
    more = spool(lake, number=3, first_episode=3)
    exchange, announced = producers.exchange, []

    def slow(table, **files):
        if not announced:
            announced.append(True)
            with Lake(settings) as other:
                announce(other, SECOND)
        exchange(table, **files)

    monkeypatch.setattr(producers, "exchange", slow)
    monkeypatch.setattr(catalog, "_LONGEST_TURN_S", 0.05)  # the committer has the turn, as one that is paused would
    changes = {
        "deliver": lambda: deliver(lake, more, nothing),
        "compact": lambda: compact(lake, FIRST),
        "drop": lambda: drop(lake, RUN, lambda phase, name: True, claim=FIRST),
    }
    with pytest.raises(StaleClaim):
        changes[change]()
    assert announced
    assert count(lake) == before
    assert len(lake.files(lake.identifier("trajectories"), RUN)) == 3


def test_other_runs_are_delivered_beside_one_whose_claim_is_stale(lake):
    other = RUN.replace("1", "9")
    stale = spool(lake)
    spool(lake, other)
    announce(lake, SECOND)
    done = deliver_all(lake, nothing)
    assert done.segments == len(KINDS)
    assert {segment.path for segment in done.stale} == {segment.path for segment in stale}
    assert set(count(lake).values()) == {0}
    assert rows_of(lake, other)["trajectories"].num_rows == 3


def test_segments_of_a_later_claim_go_to_a_folder_of_its_own_and_are_read_as_all_others(lake, ledger, settings):
    import duckdb

    deliver(lake, spool(lake), nothing)
    announce(lake, SECOND)
    taken_over(lake, SECOND)
    for number in (1, 2):
        for segment in spool(lake, number=number, first_episode=number):
            kind = segment.facts.kind
            target = SECOND.folder(lake.spool / RUN) / kind / "train" / segment.path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            segment.path.rename(target)
    assert all("claim-000002" in str(path) for path in spooled(lake.spool, RUN))
    merge_spooled(lake.spool, SECOND)
    assert deliver_all(lake, nothing).segments == len(KINDS)
    places = [file.location for file in lake.files(lake.identifier("trajectories"), RUN)]
    assert sorted(f"run_id={RUN}/claim-000002/train/" in place for place in places) == [False, True]
    assert rows_of(lake, RUN)["trajectories"]["episode"].to_pylist() == [0] * 3 + [1] * 3 + [2] * 3
    with duckdb.connect() as connection:
        names = register_run_views(RUN, connection, settings)
        answer = connection.execute(f"SELECT count(*), min(run_id), min(phase) FROM {names['trajectories']}").fetchone()
    assert answer == (9, RUN, "train")
    compact(lake, SECOND)
    (merged,) = lake.files(lake.identifier("trajectories"), RUN)
    assert f"run_id={RUN}/claim-000002/train/000000-000002" in merged.location


def test_a_file_that_is_in_its_place_is_not_replaced(lake, tmp_path):
    first, second, target = tmp_path / "a", tmp_path / "b", tmp_path / "folder" / "c"
    first.write_text("first")
    second.write_text("second")
    put(first, target)
    put(second, target)
    assert target.read_text() == "first"
    assert [path.name for path in target.parent.iterdir()] == ["c"]


def test_the_sweep_leaves_what_a_later_claim_has_in_its_spool(lake):
    announce(lake, SECOND)
    taken_over(lake, SECOND)
    (segment,) = spool(lake, kinds=("trajectories",))
    twin = SECOND.folder(lake.spool / RUN) / "trajectories" / "train" / segment.path.name
    twin.parent.mkdir(parents=True, exist_ok=True)
    segment.path.rename(twin)
    folder = lake.path(lake.table("trajectories").location()) / "data" / f"run_id={RUN}" / "claim-000002" / "train"
    folder.mkdir(parents=True)
    for name in (f"{twin.stem}.0123456789abcdef.parquet", "000009_000000000099.0123456789abcdef.parquet"):
        shutil.copyfile(twin, folder / name)
        _make_old(folder / name)
    swept = sweep(lake, timedelta(hours=1))
    assert [path.rpartition("/")[2][:6] for path in swept.paths if "/data/" in path] == ["000009"]
    twin.unlink()
    assert any("/data/" in path for path in sweep(lake, timedelta(hours=1)).paths)
    assert not folder.exists()


def _make_old(path):
    import os

    os.utime(path, (0, 0))


def test_a_removed_run_has_no_claims_any_more(lake):
    announce(lake, SECOND)
    withdraw(lake, RUN)
    assert all(f"alphaswarm.claim.{RUN}" not in lake.table(kind).properties for kind in KINDS)


def test_to_withdraw_makes_no_table(lake):
    withdraw(lake, RUN)
    assert lake.find(lake.identifier("trajectories")) is None


def test_the_compaction_of_a_stale_claim_is_refused(lake):
    for number in range(3):
        deliver(lake, spool(lake, number=number, first_episode=number), nothing)
    announce(lake, SECOND)
    with pytest.raises(StaleClaim):
        compact(lake, FIRST)
    assert compact(lake, SECOND) == 3 * len(KINDS)


def test_who_takes_a_run_over_keeps_what_is_wanted_and_deletes_the_rest(lake):
    for number in range(3):
        spool(lake, number=number, first_episode=number, timesteps=number)
    half = lake.spool / RUN / "trajectories" / "train" / ".open-000003"
    half.write_text("half")
    taken_over(lake, SECOND, lambda path: path.name.startswith("000002"))
    kept = spooled(lake.spool, RUN)
    assert sorted(name.first for name in kept.values()) == sorted([0, 1] * len(KINDS))
    assert [path.name for path in (lake.spool / RUN).iterdir()] == ["claim-000002"]
    assert spooled(lake.spool, RUN, claim=SECOND) == kept
    taken_over(lake, SECOND, lambda path: True)
    assert spooled(lake.spool, RUN) == kept, "what is taken over is not looked at again"


def test_what_a_stale_process_writes_after_that_is_not_looked_at(lake):
    spool(lake, number=0)
    taken_over(lake, SECOND)
    spool(lake, number=1)
    assert {name.first for name in spooled(lake.spool, RUN).values()} == {0}
    taken_over(lake, THIRD)
    assert {name.first for name in spooled(lake.spool, RUN).values()} == {0}
    assert [path.name for path in (lake.spool / RUN).iterdir()] == ["claim-000003"]


def test_a_takeover_that_was_cut_short_begins_again(lake, monkeypatch):
    for number in range(3):
        spool(lake, number=number, first_episode=number)
    calls = []

    def failing(source, target):
        calls.append(source)
        if len(calls) == 3:
            raise OSError("the disk is full")
        put(source, target)

    monkeypatch.setattr(segments, "put", failing)
    with pytest.raises(OSError, match="full"):
        taken_over(lake, SECOND)
    assert {name.first for name in spooled(lake.spool, RUN).values()} == {0, 1, 2}, "it is as it was"
    monkeypatch.undo()
    taken_over(lake, SECOND)
    assert len(spooled(lake.spool, RUN)) == 3 * len(KINDS)


def test_a_claim_in_between_that_takes_over_at_the_same_moment_loses_nothing(lake, monkeypatch):
    for number in range(3):
        spool(lake, number=number, first_episode=number)
    meanwhile = []

    def slow(source, target):
        if not meanwhile:
            meanwhile.append(True)
            monkeypatch.setattr(segments, "put", put)
            taken_over(lake, SECOND)
        put(source, target)

    monkeypatch.setattr(segments, "put", slow)
    taken_over(lake, THIRD)
    assert len(spooled(lake.spool, RUN, claim=THIRD)) == 3 * len(KINDS)
    assert [path.name for path in (lake.spool / RUN).iterdir()] == ["claim-000003"]


def test_plain_files_are_those_of_the_newest_claim(settings):
    folder = segments.folder_of(settings, "trajectories", RUN)
    for name in ("train", "claim-000002/train"):
        (folder / name).mkdir(parents=True)
        (folder / name / "000000_000000000003.parquet").write_text("")
    assert plain_files(settings, "trajectories") == {
        folder / "claim-000002" / "train" / "000000_000000000003.parquet": RUN
    }
    assert list(plain_files(settings, "trajectories", RUN, claim=FIRST)) == [
        folder / "train" / "000000_000000000003.parquet"
    ]


@pytest.mark.parametrize("announced", [False, True])
def test_a_removal_gives_every_table_a_snapshot_and_takes_the_claim_away(lake, announced):
    deliver(lake, spool(lake), nothing)
    if announced:
        announce(lake, SECOND)
    before = {kind: lake.table(kind).metadata.current_snapshot_id for kind in KINDS}
    rows = count(lake)
    withdraw(lake, RUN)
    after = {kind: lake.table(kind).metadata.current_snapshot_id for kind in KINDS}
    assert all(after[kind] != before[kind] for kind in KINDS)
    assert all(f"alphaswarm.claim.{RUN}" not in lake.table(kind).properties for kind in KINDS)
    assert count(lake) == rows


@pytest.mark.parametrize("has_rows", [False, True])
def test_a_committer_that_looked_before_the_removal_does_not_come_through(lake, settings, monkeypatch, has_rows):
    if has_rows:
        deliver(lake, spool(lake), nothing)
    else:
        for kind in KINDS:
            lake.table(kind)
    more = spool(lake, number=1, first_episode=1)
    exchange, removed = producers.exchange, []

    def check(claims):
        assert claims == {FIRST}
        if removed:
            raise FIRST.stale(None)

    def slow(table, **files):
        if not removed:
            removed.append(True)
            with Lake(settings) as other:
                withdraw(other, RUN)
                monkeypatch.setattr(producers, "exchange", exchange)
                drop(other, RUN, lambda phase, name: True)
        exchange(table, **files)

    monkeypatch.setattr(producers, "exchange", slow)
    monkeypatch.setattr(catalog, "_LONGEST_TURN_S", 0.05)  # the committer has the turn, as one that is paused would
    with pytest.raises(StaleClaim, match="it was removed"):
        deliver(lake, more, nothing, check=check)
    assert removed
    assert set(count(lake).values()) == {0}


def test_what_lies_in_the_spool_of_a_removed_run_is_not_delivered(lake):
    spool(lake)

    def check(claims):
        raise next(iter(claims)).stale(None)

    with pytest.raises(StaleClaim, match="it was removed"):
        deliver_all(lake, nothing, check=check)
    assert set(count(lake).values()) == {0}


def test_who_keeps_the_turn_for_long_is_not_waited_for_again_until_it_is_free(lake, monkeypatch):
    monkeypatch.setattr(catalog, "_LONGEST_TURN_S", 0.4)

    def waited():
        began = time.monotonic()
        with lake._turn():
            return time.monotonic() - began

    with Lake(lake.settings)._turn():
        assert waited() >= 0.4
        assert waited() < 0.2
    assert waited() < 0.2
    with Lake(lake.settings)._turn():
        assert waited() >= 0.4


def test_two_processes_of_one_id_put_the_same_file(tmp_path, monkeypatch):
    source, target, link, other = tmp_path / "a", tmp_path / "b" / "c", os.link, []
    source.write_text("rows")

    def linked(*paths):
        link(*paths)
        if not other:
            other.append(True)
            put(source, target)

    monkeypatch.setattr(os, "link", linked)
    put(source, target)
    assert target.read_text() == "rows"
    assert [path.name for path in target.parent.iterdir()] == ["c"]


def test_a_file_that_cannot_be_put_leaves_nothing_behind(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("rows")

    def refused(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", refused)
    monkeypatch.setattr(segments, "sync_file", refused)
    with pytest.raises(OSError, match="No space"):
        put(tmp_path / "a", tmp_path / "b" / "c")
    assert list((tmp_path / "b").iterdir()) == []
