"""`rl lake`, and what `rl runs rm` does to it."""

import os
import time
from datetime import timedelta

import pytest

from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.segments import folder_of
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.recording.table_refs import refs_writer
from tests.lake.rows import RUN, spool
from tests.ledger.samples import new_run

OTHER = RUN.replace("1", "a")


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as ledger:
        yield ledger


@pytest.fixture
def lake(settings):
    with Lake(settings) as lake:
        yield lake


def recorded(lake, ledger, run_id=RUN, *, status="completed", segments=2, deliver=True, store="iceberg"):
    """A run with that many segments."""
    recording = {"store": store, "train": "all", "sampled_from": None, "undelivered": 12, "problem": "no catalogue"}
    new_run(ledger, id=run_id, recording=recording)
    if status != "running":
        ledger.finish_run(run_id, status)
    for number in range(segments):
        spool(lake, run_id, number=number, first_episode=number, timesteps=3 * (number + 1))
        if deliver:
            deliver_all(lake, refs_writer(ledger), [run_id])


def rows_of(lake, run_id=RUN):
    """Rows by kind."""
    return {kind: sum(file.rows for file in lake.files(lake.identifier(kind), run_id)) for kind in KINDS}


def make_old(folder):
    then = time.time() - timedelta(days=2).total_seconds()
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


@pytest.mark.parametrize("verb", ["status", "commit", "compact", "expire", "sweep", "verify"])
def test_there_is_nothing_to_do_without_a_lake(rl, home, verb):
    answer = rl("lake", verb)
    assert answer.code == 0, answer.err
    assert rl("lake", verb, "--json").json is not None
    assert not (home / "lake").exists()


def test_status(rl, lake, ledger):
    recorded(lake, ledger)
    spool(lake, OTHER, kinds=["equity_curves"])
    document = rl("lake", "status", "--unknown", "--json").json
    assert [table["rows"] for table in document["tables"]] == [6, 6, 12, 12, 12, 6]
    assert all(table["unknown_files"] is not None for table in document["tables"])
    assert document["undelivered"] == [
        {"run_id": OTHER, "status": None, "segments": 1, "rows": 3, "unreadable": 0},
    ]
    out = rl("lake", "status").out
    assert "rl.trajectories" in out
    assert "rl lake commit" in out
    assert "UNKNOWN" not in out


def test_commit_delivers_and_tells_the_row(rl, lake, ledger):
    recorded(lake, ledger, deliver=False)
    recorded(lake, ledger, OTHER, deliver=False)
    answer = rl("lake", "commit", RUN[:8], "--json").json
    assert (answer["segments"], answer["rows"], answer["runs"]) == (12, 54, [RUN])
    assert list(rows_of(lake).values()) == [6, 6, 12, 12, 12, 6]
    assert sum(rows_of(lake, OTHER).values()) == 0
    recording = ledger.run(RUN).recording
    assert (recording["undelivered"], recording["problem"], recording["train"]) == (0, None, "all")
    assert ledger.run(OTHER).recording["undelivered"] == 12
    assert rl("lake", "commit").out == "delivered 12 segments with 54 rows\n"
    assert rl("lake", "commit").out == "delivered 0 segments with 0 rows\n"
    assert len(ledger.refs(RUN)) == len(ledger.refs(OTHER)) == 12
    assert rl("lake", "verify").code == 0


def test_commit_leaves_what_it_cannot_deliver(rl, lake, ledger):
    recorded(lake, ledger, deliver=False)
    recorded(lake, ledger, OTHER, deliver=False, store="parquet")
    unknown = RUN.replace("1", "b")
    spool(lake, unknown)
    broken = next(iter((lake.spool / RUN / "trajectories" / "train").iterdir()))
    broken.write_bytes(b"no Parquet")
    answer = rl("lake", "commit", "--json")
    assert answer.code == 1
    assert answer.json["segments"] == 11
    assert len(answer.json["problems"]) == 3
    assert ledger.run(RUN).recording["undelivered"] == 1
    assert broken.exists()
    assert len(list((lake.spool / OTHER).rglob("*.parquet"))) == 12
    assert len(list((lake.spool / unknown).rglob("*.parquet"))) == 6
    assert str(broken) in rl("lake", "commit").out


def test_compact_takes_runs_that_are_over(rl, lake, ledger):
    recorded(lake, ledger)
    recorded(lake, ledger, OTHER, status="interrupted")
    before = rows_of(lake)
    assert rl("lake", "compact", "--json").json == {"runs": {RUN: 12}, "files": 12}
    assert rows_of(lake) == before
    assert len(lake.files("rl.trajectories", RUN)) == 1
    assert len(lake.files("rl.trajectories", OTHER)) == 2
    assert rl("lake", "compact").out == "there is nothing to merge\n"
    assert rl("lake", "verify").code == 0


@pytest.mark.parametrize("status", ["running", "failed", "interrupted"])
def test_compact_refuses_runs_that_resuming_drops_files_of(rl, lake, ledger, status):
    recorded(lake, ledger, status=status)
    answer = rl("lake", "compact", RUN)
    assert answer.code == 2
    assert "resuming it drops whole files" in answer.err
    assert len(lake.files("rl.trajectories", RUN)) == 2


def test_expire_and_sweep(rl, lake, ledger, home):
    recorded(lake, ledger)
    rl("lake", "compact")
    before = rows_of(lake)
    assert set(rl("lake", "expire", "--json").json["expired"].values()) == {0}  # all were current within the hour
    assert rl("lake", "expire", "--keep", "0s", "--json").json["expired"] == {
        lake.identifier(kind): 2 for kind in KINDS
    }
    assert rl("lake", "sweep", "--json").json["files"] == 0
    make_old(home / "lake" / "warehouse")
    planned = rl("lake", "sweep", "--dry-run", "--json").json
    assert planned["files"] >= 12
    done = rl("lake", "sweep", "--older-than", "1d", "--json").json
    assert done == {**planned, "dry_run": False}
    assert rows_of(lake) == before
    assert rl("lake", "verify", "--json").json == {"ok": True, "findings": []}


@pytest.mark.parametrize("time", ["24", "h", "-1h", "1.5h", "1w", ""])
def test_times_are_a_number_and_a_unit(rl, time):
    answer = rl("lake", "sweep", "--older-than", time)
    assert answer.code == 2
    assert "is no time" in answer.err


def test_sweep_refuses_a_short_time(rl):
    answer = rl("lake", "sweep", "--older-than", "9m")
    assert answer.code == 2
    assert "on their way" in answer.err


def test_verify_names_what_is_wrong(rl, lake, ledger):
    recorded(lake, ledger)
    assert rl("lake", "verify").out == "all is well\n"
    file = lake.path(lake.files("rl.equity_curves", RUN)[0].location)
    file.unlink()
    answer = rl("lake", "verify", "latest")
    assert answer.code == 1
    assert str(file) in answer.out
    document = rl("lake", "verify", "--json").json
    assert document["ok"] is False
    assert [finding["check"] for finding in document["findings"]] == ["files"]


def test_verify_takes_undelivered_segments_for_a_notice(rl, lake, ledger):
    recorded(lake, ledger, deliver=False)
    answer = rl("lake", "verify")
    assert answer.code == 0
    assert "notice" in answer.out


def test_export(rl, lake, ledger, tmp_path):
    recorded(lake, ledger)
    answer = rl("lake", "export", "latest", tmp_path / "out", "--json").json
    assert answer["rows"] == rows_of(lake)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{kind}.parquet" for kind in KINDS}
    assert rl("lake", "export", "latest", tmp_path / "out").code == 2


def test_a_lake_that_does_not_answer(rl, lake, ledger):
    recorded(lake, ledger, deliver=False)
    for words in (["status"], ["commit"], ["compact"], ["expire"], ["sweep"], ["verify"]):
        answer = rl("lake", *words, "--lake-catalog-url", "postgresql://me:hunter2@127.0.0.1:1/none", "--json")
        assert answer.code == 1, words
        assert answer.error["type"] == "LakeError"
        assert "hunter2" not in answer.out
    assert len(list(lake.spool.rglob("*.parquet"))) == 12


def test_names_of_tables_are_followed(rl, lake, ledger):
    recorded(lake, ledger)
    names = [table["table"] for table in rl("lake", "status", "--trajectory-table", "steps", "--json").json["tables"]]
    assert names == [
        "rl.steps",
        "rl.equity_curves",
        "rl.action_logs",
        "rl.reward_decomposition",
        "rl.positions",
        "rl.fills",
    ]


def test_rm_takes_a_runs_steps_away(rl, lake, ledger, settings):
    recorded(lake, ledger)
    recorded(lake, ledger, OTHER)
    spool(lake, RUN, number=2, timesteps=9)
    plain = folder_of(settings, "trajectories", RUN) / "train" / "000000_000000000003.parquet"
    plain.parent.mkdir(parents=True)
    plain.write_bytes(b"x" * 100)
    answer = rl("runs", "rm", RUN, "--yes", "--json").json
    assert answer["freed_bytes"] >= 100
    assert sum(rows_of(lake).values()) == 0
    assert rows_of(lake, OTHER)["trajectories"] == 6
    assert not (lake.spool / RUN).exists()
    assert not plain.parent.parent.exists()
    assert ledger.refs(RUN) == []
    assert len(ledger.refs(OTHER)) == 12
    assert rl("lake", "verify").code == 0


def test_rm_without_a_lake_makes_none(rl, ledger, home):
    new_run(ledger, id=RUN)
    ledger.finish_run(RUN, "completed")
    assert rl("runs", "rm", RUN, "--yes").code == 0
    assert not (home / "lake").exists()


def test_rm_removes_nothing_when_the_lake_does_not_answer(rl, lake, ledger):
    recorded(lake, ledger)
    spool(lake, RUN, number=2, timesteps=9)
    answer = rl("runs", "rm", RUN, "--yes", "--lake-catalog-url", "postgresql://127.0.0.1:1/none")
    assert answer.code == 1
    assert ledger.run(RUN).removed_at is None
    assert len(ledger.refs(RUN)) == 12
    assert len(list(lake.spool.rglob("*.parquet"))) == 6
    assert rl("runs", "rm", RUN, "--yes").code == 0


def test_gc_leaves_the_lake_alone(rl, lake, ledger):
    recorded(lake, ledger, deliver=False)
    recorded(lake, ledger, OTHER)
    before = rows_of(lake, OTHER)
    assert rl("runs", "gc", "--yes").code == 0
    assert rows_of(lake, OTHER) == before
    assert len(list(lake.spool.rglob("*.parquet"))) == 12
