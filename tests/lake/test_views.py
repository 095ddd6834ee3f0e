"""Views over recorded steps: what they show, what they open, and what they are called."""

import shutil
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake import tables
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.compaction import compact
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.segments import folder_of
from alphaswarm_rl.lake.tables import COLUMNS, KINDS, arrow_schema
from alphaswarm_rl.lake.views import create_run_views, ensure_duckdb_views, register_run_views, run_view
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.identity import adopt
from alphaswarm_rl.settings import Settings, TrajectorySettings
from tests.lake.rows import RUN, rows, spool
from tests.ledger.samples import SampleSpec

#: Before the first in the order of names, so that what looks into the first file for all of them meets it.
OTHER = RUN.replace("1", "0")
#: What views have beside the columns of their tables: what the run's row knows. No row knows these runs.
OF_THE_ROW = {"action_logs": pa.field("symbol", pa.string()), "positions": pa.field("stages", pa.list_(pa.string()))}


pytestmark = pytest.mark.usefixtures("ledger")


@pytest.fixture
def connection():
    with duckdb.connect() as connection:
        yield connection


def deliver(lake, *run_ids, **more):
    for run_id in run_ids:
        spool(lake, run_id, **more)
    deliver_all(lake, lambda segments: None)


def fetched(connection, query):
    return connection.sql(query).to_arrow_table()


def seen(kind, table):
    """Rows of a table as its views show them, where no row of the ledger knows more."""
    field = OF_THE_ROW.get(kind)
    return table if field is None else table.append_column(field, pa.nulls(table.num_rows, field.type))


def damage(lake, kind, run_id):
    for file in lake.files(lake.identifier(kind), run_id):
        lake.path(file.location).write_bytes(b"not Parquet")


def with_empty_ledger(settings):
    """The same settings, where a ledger without runs is right."""
    with Ledger.open(settings) as ledger:
        adopt(ledger.engine, settings, "the tables of these tests have steps of runs that no ledger knows")
    return settings


def run_in_ledger(settings, run_id, number):
    """A run of a spec of its own; gives the spec's hash."""
    with Ledger.open(settings) as ledger:
        version = ledger.persist_spec(SampleSpec(number=number))
        ledger.create_run(version_id=version.id, target="train", seed=1, id=run_id)
    return version.spec_hash


@pytest.mark.parametrize("kind", KINDS)
def test_views_give_back_what_was_recorded(lake, settings, connection, kind):
    deliver(lake, RUN, OTHER, episodes=2)
    ensure_duckdb_views(connection, settings)
    names = register_run_views(RUN, connection, settings)
    order = ", ".join(name for name, type_ in COLUMNS[kind] if not pa.types.is_list(type_))
    expected = seen(kind, rows(kind, episodes=2).sort_by([(name, "ascending") for name in order.split(", ")]))
    assert fetched(connection, f"FROM {names[kind]} ORDER BY {order}").cast(expected.schema).equals(expected)
    of_run = fetched(connection, f"FROM rl_{kind} WHERE run_id = '{RUN}' ORDER BY {order}")
    assert of_run.cast(expected.schema).equals(expected)
    assert fetched(connection, f"FROM rl_{kind}").num_rows == 2 * expected.num_rows


def test_names_begin_with_twelve_digits_of_the_run(lake, settings, connection):
    assert register_run_views(RUN, connection, settings) == {kind: f"rl_{kind}_run_111111112222" for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_without_files_views_are_empty_and_have_their_types(settings, connection, kind):
    ensure_duckdb_views(connection, settings)
    names = register_run_views(RUN, connection, settings)
    for view in (f"rl_{kind}", names[kind]):
        expected = seen(kind, arrow_schema(kind).empty_table())
        assert fetched(connection, f"FROM {view}").cast(expected.schema).equals(expected)
    assert not settings.lake_path.exists()  # a look makes no catalogue


def test_times_are_in_utc(lake, settings, connection):
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    deliver(lake, RUN)
    view = register_run_views(RUN, connection, settings)["equity_curves"]
    types = dict(connection.sql(f"SELECT column_name, column_type FROM (DESCRIBE {view})").fetchall())
    assert types["ts"] == "TIMESTAMP WITH TIME ZONE"
    assert fetched(connection, f"SELECT max(ts) AS last FROM {view}")["last"][0].as_py() == datetime(
        1970, 1, 3, tzinfo=UTC
    )
    assert connection.execute(f"SELECT CAST(max(ts) AS VARCHAR) FROM {view}").fetchone() == ("1970-01-03 00:00:00+00",)


def test_a_query_for_one_run_opens_no_file_of_another(lake, settings, connection):
    deliver(lake, OTHER, RUN)
    for kind in KINDS:
        damage(lake, kind, OTHER)
    ensure_duckdb_views(connection, settings)
    names = register_run_views(RUN, connection, settings)
    for kind in KINDS:
        count = rows(kind).num_rows
        conditions = (f"run_id = '{RUN}'", f"run_id IN ('{RUN}', 'none')", f"run_id LIKE '{RUN[:9]}%' AND step >= 0")
        for query in (f"FROM {names[kind]}", *(f"FROM rl_{kind} WHERE {condition}" for condition in conditions)):
            assert fetched(connection, query).num_rows == count
        with pytest.raises(duckdb.Error, match="Parquet"):
            fetched(connection, f"FROM rl_{kind}")


def test_only_columns_that_are_asked_for_and_rows_that_can_match_are_read(lake, settings, connection):
    deliver(lake, OTHER, RUN)
    ensure_duckdb_views(connection, settings)
    plan = connection.execute(
        f"EXPLAIN SELECT reward FROM rl_trajectories WHERE run_id = '{RUN}' AND step > 1"
    ).fetchone()
    scan = plan[1].partition("Read Parquet")[2]
    assert "Scanning Files: 1/2" in scan
    assert "step > 1" in scan
    assert "reward" in scan
    assert "obs_hash" not in scan


def test_only_files_of_the_current_snapshot_are_read(lake, settings, connection):
    for number in range(3):
        deliver(lake, RUN, number=number, first_episode=number)
    compact(lake, Claim(RUN))  # the files that were merged are still there
    ensure_duckdb_views(connection, settings)
    assert fetched(connection, "FROM rl_trajectories").num_rows == 9


def test_calling_again_shows_what_came_meanwhile(lake, settings, connection):
    deliver(lake, RUN)
    ensure_duckdb_views(connection, settings)
    view = register_run_views(RUN, connection, settings)["trajectories"]
    deliver(lake, RUN, number=1, first_episode=1)
    assert fetched(connection, "FROM rl_trajectories").num_rows == fetched(connection, f"FROM {view}").num_rows == 3
    ensure_duckdb_views(connection, settings)
    register_run_views(RUN, connection, settings)
    assert fetched(connection, "FROM rl_trajectories").num_rows == fetched(connection, f"FROM {view}").num_rows == 6


def test_a_name_that_another_run_has_is_refused(lake, settings, connection):
    register_run_views(RUN, connection, settings)
    register_run_views(RUN, connection, settings)
    with pytest.raises(LakeError, match=RUN):
        register_run_views(RUN[:-1] + "6", connection, settings)


def test_what_is_no_run_is_refused(settings, connection):
    with pytest.raises(LakeError, match="no id"):
        register_run_views("../../somewhere/else", connection, settings)


def test_views_of_a_spec_show_its_runs_and_open_no_others(lake, settings, connection):
    own, other = run_in_ledger(settings, RUN, 1), run_in_ledger(settings, OTHER, 2)
    deliver(lake, RUN, spec_hash=own)
    deliver(lake, RUN, number=0, phase="replay", spec_hash=own)
    deliver(lake, OTHER, spec_hash=other)
    for kind in KINDS:
        damage(lake, kind, OTHER)
    ensure_duckdb_views(connection, settings)
    for kind in KINDS:
        found = fetched(connection, f'FROM alphaswarm_silver_rl_{kind}."{own}"')
        assert found.num_rows == 2 * rows(kind).num_rows
        assert set(found["phase"].to_pylist()) == {"train", "replay"}


def test_the_view_of_a_spec_without_runs_goes(lake, settings, connection):
    own = run_in_ledger(settings, RUN, 1)
    ensure_duckdb_views(connection, settings)
    assert fetched(connection, f'FROM alphaswarm_silver_rl_trajectories."{own}"').num_rows == 0
    with Ledger.open(settings) as ledger:
        ledger.finish_run(RUN, "completed")
        ledger.mark_removed(RUN)
    ensure_duckdb_views(connection, settings)
    with pytest.raises(duckdb.CatalogException):
        connection.sql(f'FROM alphaswarm_silver_rl_trajectories."{own}"')


def test_views_keep_their_names_whatever_the_tables_are_called(tmp_path, connection):
    names = TrajectorySettings(
        namespace="mine", table="a", equity_table="b", action_log_table="c", reward_decomp_table="d"
    )
    settings = with_empty_ledger(Settings(home=tmp_path / "home", trajectory=names))
    with Lake(settings) as lake:
        deliver(lake, RUN)
        assert lake.find("mine.b") is not None
    ensure_duckdb_views(connection, settings)
    register_run_views(RUN, connection, settings)
    for kind in KINDS:
        count = rows(kind).num_rows
        assert fetched(connection, f"FROM rl_{kind}").num_rows == count
        assert fetched(connection, f"FROM {run_view(kind, RUN)}").num_rows == count


def test_without_settings_the_environment_is_read(lake, connection):
    deliver(lake, RUN)  # the environment of a test names the same home
    ensure_duckdb_views(connection)
    register_run_views(RUN, connection)
    assert fetched(connection, "FROM rl_trajectories").num_rows == 3


def test_files_without_a_catalogue_are_read_too(lake, settings, connection):
    deliver(lake, RUN)
    for segment in spool(lake, OTHER):
        folder = folder_of(settings, segment.facts.kind, OTHER) / "train"
        folder.mkdir(parents=True)
        shutil.move(segment.path, folder)
    ensure_duckdb_views(connection, settings)
    names = register_run_views(OTHER, connection, settings)
    for kind in KINDS:
        assert set(fetched(connection, f"FROM rl_{kind}")["run_id"].to_pylist()) == {RUN, OTHER}
        assert fetched(connection, f"FROM {names[kind]}").num_rows == rows(kind).num_rows


def test_odd_characters_in_paths_do_no_harm(tmp_path, connection):
    settings = with_empty_ledger(Settings(home=tmp_path / """it's [a] "run_id=7" * home"""))
    with Lake(settings) as lake:
        deliver(lake, OTHER, RUN)
        ensure_duckdb_views(connection, settings)
        view = create_run_views(lake, RUN, connection, recording={})["trajectories"]
    assert fetched(connection, f"FROM {view}").num_rows == 3
    assert set(fetched(connection, "FROM rl_trajectories")["run_id"].to_pylist()) == {RUN, OTHER}


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_was_upgraded_in_place_reads_null_in_its_older_files(
    lake, settings, connection, monkeypatch, kind
):
    newest = COLUMNS[kind][-1][0]
    older = COLUMNS[kind][:-1]
    with monkeypatch.context() as patch:
        patch.setitem(tables.COLUMNS, kind, older)
        table = lake.table(kind)
        file = lake.path(table.location()) / f"data/run_id={OTHER}/train/000000_000000000003.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(rows(kind, OTHER).select([name for name, _ in older]), file, store_schema=False)
        table.add_files([str(file)])
    deliver(lake, RUN, kinds=[kind])
    assert len(lake.table(kind).metadata.schemas) > 1
    ensure_duckdb_views(connection, settings)
    names = register_run_views(OTHER, connection, settings)
    found = fetched(connection, f"FROM rl_{kind}")
    expected = seen(kind, pa.concat_tables([rows(kind, RUN), rows(kind, OTHER)]))
    assert found.num_rows == expected.num_rows
    assert found.schema.names == expected.schema.names
    assert fetched(connection, f"FROM {names[kind]}")[newest].null_count == rows(kind).num_rows
    of_run = fetched(connection, f"FROM rl_{kind} WHERE run_id = '{RUN}'")
    assert of_run[newest].null_count == rows(kind)[newest].null_count


def test_on_s3_the_same_views_read_and_prune(s3_lake, connection):
    settings = s3_lake.settings
    own = run_in_ledger(settings, RUN, 1)
    deliver(s3_lake, OTHER)
    deliver(s3_lake, RUN, spec_hash=own)
    for kind in KINDS:
        (file,) = s3_lake.files(s3_lake.identifier(kind), OTHER)
        filesystem, named = s3_lake.filesystem(s3_lake.table(kind))
        filesystem.delete_file(named(file.location))
    ensure_duckdb_views(connection, settings)
    names = register_run_views(RUN, connection, settings)
    for kind in KINDS:
        expected = rows(kind, spec_hash=own)
        for query in (
            f"FROM {names[kind]}",
            f"FROM rl_{kind} WHERE run_id = '{RUN}'",
            f'FROM alphaswarm_silver_rl_{kind}."{own}"',
        ):
            assert fetched(connection, query).num_rows == expected.num_rows
        assert fetched(connection, f"FROM {names[kind]} WHERE step > 1")["spec_hash"][0].as_py() == own
