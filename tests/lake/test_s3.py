"""The whole way with a warehouse on S3 and a catalogue in PostgreSQL; the stores' contract is tested there too."""

import os
import signal
from datetime import timedelta

import boto3
import duckdb
import pyarrow.parquet as pq
import pytest

from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake import maintenance, sweeping
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.delivery import deliver
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.lake.views import ensure_duckdb_views, register_run_views
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.operations.run_removals import RemoveRuns, remove_runs
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import LakeSettings, Settings
from tests.lake.killing import Moment, rl, rows_of
from tests.lake.rows import spool
from tests.lake.servers import CREDENTIALS, as_flags
from tests.lake.test_kill import SMALL, SPECS

#: Fewer commits than the local tests make: the server of the tests is slow.
FEW = (*SMALL, "--lake-commit-rows", 1500, "--lake-commit-seconds", 600)
COMPACTED = Moment("alphaswarm_rl.trajectory_stores.open_stores:compact", after=True)


def test_a_killed_run_resumes_and_all_that_reads_it_agrees(remote_settings, tmp_path, monkeypatch):
    settings, flags = remote_settings, (*FEW, *as_flags(remote_settings.lake))
    spec = tmp_path / "trading.yaml"
    spec.write_text(SPECS["trading"].replace("total_timesteps: 1500", "total_timesteps: 700"))
    undisturbed = rl("train", spec, *flags, "--json", home=settings.home)
    assert undisturbed.code == 0, undisturbed.err
    assert rl("train", spec, *flags, home=settings.home, moment=COMPACTED).code == -signal.SIGKILL
    with Ledger.open(settings) as ledger:
        (run,) = (row for row in ledger.runs() if row.status != "completed")
    resumed = rl("resume", run.id, *flags, home=settings.home)
    assert resumed.code == 0, resumed.err
    verified = rl("lake", "verify", *as_flags(settings.lake), "--json", home=settings.home)
    assert verified.json == {"ok": True, "findings": []}
    with Lake(settings) as lake:
        found, expected = rows_of(lake, run.id), rows_of(lake, undisturbed.json["run_id"])
        assert found == expected
        counts = {kind: rows.num_rows for kind, rows in found.items()}
        assert all(counts.values())
        _assert_read(settings, run, counts)
        exported = rl("lake", "export", run.id, tmp_path / "out", *as_flags(settings.lake), home=settings.home)
        assert exported.code == 0, exported.err
        for kind in KINDS:
            assert pq.read_metadata(tmp_path / "out" / f"{kind}.parquet").num_rows == counts[kind]
        # What was merged is no longer needed, and nothing else goes.
        monkeypatch.setattr(sweeping, "LEAST_AGE", timedelta(0))
        maintenance.expire(lake, [])
        assert maintenance.sweep(lake, timedelta(0)).files > 0
        assert maintenance.sweep(lake, timedelta(0)).files == 0
        assert rows_of(lake, run.id) == expected


def _assert_read(settings, run, counts):
    with duckdb.connect() as connection:
        ensure_duckdb_views(connection, settings)
        names = register_run_views(run.id, connection, settings)
        for kind, name in names.items():
            (count,) = connection.execute(f"SELECT count(*) FROM {name}").fetchone()
            assert count == counts[kind]
            of_all = f"SELECT count(*) FROM rl_{kind} WHERE run_id = ?"
            assert connection.execute(of_all, [run.id]).fetchone() == (count,)
            of_spec = f'SELECT count(*) FROM alphaswarm_silver_rl_{kind}."{run.spec_hash}"'
            assert connection.execute(of_spec).fetchone() == (2 * count,)


def test_a_table_whose_files_are_there_and_whose_catalogue_is_another_is_not_made_again(remote_settings, new_postgres):
    with Lake(remote_settings) as lake:
        deliver(lake, spool(lake, kinds=("trajectories",)), lambda _: None)
    other = remote_settings.lake.model_copy(update={"catalog_url": new_postgres()})
    with Lake(remote_settings.model_copy(update={"lake": other})) as lake:
        segments = spool(lake, kinds=("trajectories",), number=1)
        with pytest.raises(LakeError, match="the catalogue does not know it"):
            deliver(lake, segments, lambda _: None)
        assert segments[0].path.exists()


def test_a_server_that_does_not_answer_leaves_segments_in_the_spool(remote_settings):
    nowhere = LakeSettings(warehouse="s3://bucket/x", s3_endpoint="http://127.0.0.1:9", s3_region="us-east-1")
    with Lake(remote_settings.model_copy(update={"lake": nowhere})) as lake:
        segments = spool(lake, kinds=("trajectories",))
        with pytest.raises(LakeError, match="rl lake commit"):
            deliver(lake, segments, lambda _: None)
        assert segments[0].path.exists()


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_amazons_own_variable_reaches_tables_and_trackers(s3_server, tmp_path, monkeypatch, name):
    for variable, value in CREDENTIALS.items():
        monkeypatch.setenv(variable, value)
    bucket = f"bucket-{tmp_path.name}".replace("_", "-").lower()
    client = boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1")
    client.create_bucket(Bucket=bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # the one for S3 alone goes before
    monkeypatch.setenv(name, s3_server)
    flags = {"lake.warehouse": f"s3://{bucket}/lake", "lake.s3Region": "us-east-1", "store.backend": "s3",
             "store.trackingUri": f"s3://{bucket}/runs"}  # fmt: skip
    spec = {
        "name": "On S3",
        "env": {"class": "cartpole"},
        "agent": {"class": "random"},
        "training": {"total_timesteps": 64},
        "evaluation": {"episodes": 1},
    }
    result = RLRuntime(spec, load_settings(flags, os.environ)).train()
    assert result.notices == []
    keys = [found["Key"] for found in client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert any(key.startswith("lake/") and key.endswith(".parquet") for key in keys)
    assert any(key.startswith("runs/") and result.run_id in key for key in keys)
    # A name of ours goes before both.
    ours = load_settings({}, {**os.environ, "RL_LAKE_S3_ENDPOINT": "http://127.0.0.1:1"})
    assert ours.lake.s3_endpoint == "http://127.0.0.1:1"


def test_files_of_a_removed_run_leave_the_bucket_at_once_and_those_of_others_stay(s3_server, tmp_path, monkeypatch):
    for variable, value in CREDENTIALS.items():
        monkeypatch.setenv(variable, value)
    client = boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1")
    client.create_bucket(Bucket="removals")
    remote = LakeSettings(warehouse="s3://removals/lake", s3_endpoint=s3_server, s3_region="us-east-1")
    settings = Settings(home=tmp_path / "home", lake=remote)
    spec = {
        "name": "On S3",
        "env": {"class": "cartpole"},
        "agent": {"class": "random"},
        "training": {"total_timesteps": 64},
        "evaluation": {"episodes": 1},
    }
    gone, stays = (RLRuntime(spec, settings).train(seed=seed).run_id for seed in range(2))

    def files(run_id):
        found = client.list_objects_v2(Bucket="removals")["Contents"]
        return {each["Key"]: each["Size"] for each in found if f"run_id={run_id}/" in each["Key"]}

    before, others = files(gone), files(stays)
    freed = remove_runs(settings, RemoveRuns(runs=(gone,), now=True)).lake
    assert (freed.files, freed.bytes, freed.kept) == (len(before), sum(before.values()), ())
    assert freed.files > 0
    assert (files(gone), files(stays)) == ({}, others)
