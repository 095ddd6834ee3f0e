"""`rl sql` reads the recorded steps and nothing else: what a hostile statement tries, and what comes of it."""

import hashlib
from pathlib import Path

import duckdb
import pytest

from alphaswarm_rl.core.errors import DataError, LakeError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.queries import _connection, _lock, query
from alphaswarm_rl.lake.read_only_files import ReadOnlyFiles
from alphaswarm_rl.lake.views import create_views
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.identity import adopt
from alphaswarm_rl.settings import Settings
from tests.lake.rows import RUN, spool

SECRET = "correct horse battery staple"

#: Statements that would read or write a file, change the engine or run something else; `{...}` are paths.
ATTEMPTS = [
    # Writing, plainly and behind something.
    "COPY (SELECT 1) TO '{new}'",
    "COPY rl_trajectories TO '{ledger}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{ledger}'",
    "/* first */ EXPLAIN ANALYZE COPY (SELECT 1) TO '{ledger}'",
    "-- first\nEXPLAIN ANALYZE COPY (SELECT 1) TO '{ledger}'",
    "EXPLAIN /* second */ ANALYZE COPY (SELECT 1) TO '{ledger}'",
    "EXPLAIN ANALYZE /* third */ COPY (SELECT 1) TO '{ledger}'",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{ledger}'",
    "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{ledger}'",
    "EXPLAIN /* a */ (ANALYZE /* b */) /* c */ COPY (SELECT 1) TO '{ledger}'",
    "EXPLAIN ANALYZE EXPORT DATABASE '{new}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{lake}/new.parquet'",
    "EXPLAIN COPY (SELECT 1) TO '{new}'",
    "EXPORT DATABASE '{new}'",
    "SELECT 1; COPY (SELECT 1) TO '{new}'",
    ";;COPY (SELECT 1) TO '{new}'",
    "COPY (SELECT 1) TO '{lake}/new.parquet'",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{new}''')",
    "ATTACH '{new}' AS other",
    "ATTACH '{ledger}' AS other (TYPE sqlite)",
    "CREATE TABLE mine AS SELECT 1",
    "CREATE OR REPLACE VIEW rl_trajectories AS SELECT 1",
    "CREATE MACRO reading(x) AS TABLE SELECT * FROM read_text(x)",
    "INSERT INTO rl_trajectories SELECT 1",
    "DELETE FROM rl_trajectories",
    "UPDATE rl_trajectories SET reward = 0",
    "DROP VIEW rl_trajectories",
    "ALTER VIEW rl_trajectories RENAME TO other",
    # Writing inside of something that reads.
    "WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}' (FORMAT parquet)) SELECT * FROM x",
    "WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO 'steps://{file}' (FORMAT parquet)) SELECT * FROM x",
    "WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{lake}/new.parquet') SELECT * FROM x",
    "WITH x AS (COPY (SELECT 1 a) TO '{new}') SELECT * FROM x",
    "WITH x AS (COPY rl_trajectories TO '{file}' (USE_TMP_FILE false)) SELECT * FROM x",
    "EXPLAIN ANALYZE WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') SELECT * FROM x",
    "EXPLAIN WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') SELECT * FROM x",
    "SELECT (WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') SELECT count(*) FROM x)",
    "SELECT * FROM (WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') SELECT * FROM x)",
    "SELECT 1 WHERE EXISTS (WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') FROM x)",
    "SELECT [y FOR y IN (WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') SELECT list(x) FROM x)]",
    "WITH y AS (WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') FROM x) FROM y",
    "WITH RECURSIVE y AS (SELECT 1 UNION ALL (WITH x AS (COPY (SELECT 1) TO '{file}') FROM x)) FROM y",
    "SELECT 1 UNION ALL (WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') SELECT 1 FROM x)",
    "DESCRIBE WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') SELECT * FROM x",
    "SUMMARIZE WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') SELECT * FROM x",
    "PIVOT (WITH x AS (COPY (SELECT 1 a) TO '{file}') FROM x) ON a IN (1) USING count(*)",
    "UNPIVOT (WITH x AS (COPY (SELECT 1 a) TO '{file}') FROM x) ON a",
    "FROM (COPY (SELECT 1) TO '{new}')",
    "FROM (DESCRIBE (COPY (SELECT 1) TO '{new}'))",
    "VALUES ((WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO '{file}') SELECT count(*) FROM x))",
    "WITH x AS (INSERT INTO rl_trajectories SELECT 1 RETURNING *) SELECT * FROM x",
    "WITH x AS (UPDATE rl_trajectories SET reward = 0 RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM rl_trajectories RETURNING *) SELECT * FROM x",
    "WITH x AS (MERGE INTO rl_trajectories USING (SELECT 1 a) b ON false WHEN MATCHED THEN DELETE) SELECT * FROM x",
    "WITH x AS (ATTACH '{new}') SELECT * FROM x",
    "WITH x AS (CREATE TABLE mine (a INT)) SELECT * FROM x",
    "FROM query('WITH x AS MATERIALIZED (COPY (SELECT 1 a) TO ''{file}'') SELECT * FROM x')",
    "FROM main.QUERY('SELECT 1')",
    "SELECT * FROM query_table('{secret}.csv')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM query(''SELECT 1'')'))",
    "PIVOT rl_trajectories ON phase",
    # Reading what is no table.
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_csv('{secret}', header = false)",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM read_ndjson_objects('{secret}')",
    "SELECT * FROM read_parquet('{secret}')",
    "SELECT * FROM parquet_metadata('{secret}')",
    "SELECT * FROM '{secret}'",
    "FROM '{secret}.csv'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM glob('{lake}/../../../*')",
    "SELECT * FROM read_text('{lake}/../../../secret')",
    "SELECT * FROM read_text('{ledger}')",
    "DESCRIBE SELECT * FROM read_text('{secret}')",
    "SUMMARIZE SELECT * FROM read_text('{secret}')",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{secret}')",
    "WITH hidden AS (FROM read_text('{secret}')) SELECT content FROM hidden",
    "SELECT (SELECT content FROM read_text('{secret}'))",
    "SELECT getenv('HOME')",
    "SELECT read_text('{secret}')",
    "SELECT * FROM read_text('steps://{secret}')",
    "SELECT * FROM read_blob('steps://{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM 'steps://{secret}.csv'",
    "SELECT * FROM 'steps://{folder}/*.parquet'",
    "SELECT * FROM glob('steps://*')",
    "SELECT * FROM read_duckdb('{ledger}', table_name = 'runs')",
    "SELECT * FROM histogram('{secret}.csv', column0)",
    "SELECT 1 FROM rl_trajectories JOIN read_text('{secret}') ON true",
    "SELECT 1 FROM rl_trajectories, LATERAL (FROM read_text('{secret}'))",
    "SELECT 1 WHERE 1 IN (SELECT 1 FROM read_text('{secret}'))",
    "PIVOT (FROM read_text('{secret}')) ON content IN ('a')",
    "SUMMARIZE '{secret}.csv'",
    # The engine itself.
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET allowed_directories = ['/']",
    "RESET allowed_directories",
    "PRAGMA enable_external_access",
    "PRAGMA database_list",
    "CALL enable_logging()",
    "SELECT * FROM enable_logging()",
    "SELECT * FROM enable_profiling()",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{new}'",
    "USE memory",
    "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM which_secret('s3://bucket/', 's3')",
    "SELECT * FROM checkpoint()",
    "SELECT * FROM force_checkpoint()",
    "SELECT * FROM pragma_database_size()",
    "SELECT * FROM pragma_storage_info('rl_trajectories')",
    "SELECT * FROM pragma_enable_profiling()",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_logs()",
    "SELECT * FROM truncate_duckdb_logs()",
    "SELECT * FROM import_database('{new}')",
    "SELECT * FROM copy_database('memory', 'other')",
    "SELECT * FROM seq_scan('rl_trajectories')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM python_map_function(1)",
    "SELECT * FROM add_parquet_key('a', 'b')",
    "CALL checkpoint()",
    "CREATE SEQUENCE numbers",
    "SELECT nextval('numbers')",
    "SELECT set_config('enable_external_access', 'true')",
    "SELECT any_name_at_all(1)",
    "SET VARIABLE mine = 1",
    "CREATE TEMP MACRO mine() AS 1",
    "SELECT $1",
    "PREPARE later AS COPY (SELECT 1) TO '{new}'",
    "EXECUTE later",
    "BEGIN TRANSACTION",
    "CHECKPOINT",
    "VACUUM",
    "SELECT * FROM statement",
    "SELECT * FROM settings",
    # The ledger and the registry are there to be read, and nothing else of their databases.
    "UPDATE runs SET sharpe = 9",
    "DELETE FROM models",
    "INSERT INTO promotions SELECT * FROM promotions",
    "CREATE OR REPLACE VIEW runs AS SELECT 1",
    "DROP VIEW versions",
    "COPY runs TO '{new}'",
    "WITH x AS MATERIALIZED (COPY (FROM events) TO '{file}') SELECT * FROM x",
    "SELECT * FROM rl_runs",
    "SELECT * FROM rl_kill_switch",
    "SELECT * FROM sqlite_scan('{ledger}', 'rl_runs')",
    "SELECT * FROM sqlite_query('{ledger}', 'SELECT 1')",
    "SELECT * FROM postgres_scan('host=localhost', 'public', 'rl_runs')",
]


def fingerprints(folder):
    """Every file below a folder, by what is in it; but for SQLite's memory of who reads."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_statement_reads_the_tables_alone(lake, ledger, settings, tmp_path, attempt):
    spool(lake, RUN)
    deliver_all(lake, lambda segments: None)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret.csv").write_text(SECRET)
    (file, *_) = lake.files(lake.identifier("trajectories"), RUN)
    places = {
        "new": tmp_path / "new",
        "folder": tmp_path,
        "secret": tmp_path / "secret",
        "ledger": settings.home / "ledger.db",
        "file": lake.path(file.location),
        "lake": lake.path(file.location).parent,
    }
    before = fingerprints(tmp_path)
    with pytest.raises(DataError, match="the SQL statement") as refused:
        query(settings, attempt.format(**places), 10, lambda beginnings: beginnings)
    assert SECRET not in str(refused.value)
    assert fingerprints(tmp_path) == before


def test_there_are_as_many_attempts_as_are_promised():
    """The page on security names their number."""
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    assert f"({len(set(ATTEMPTS))} attempts)" in page
    assert len(ATTEMPTS) == len(set(ATTEMPTS))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM rl_trajectories",
        "FROM rl_trajectories LIMIT 1",
        "WITH a AS (SELECT reward FROM rl_trajectories) SELECT sum(reward) FROM a",
        "DESCRIBE rl_trajectories",
        "SUMMARIZE rl_trajectories",
        "SHOW TABLES",
        "VALUES (1)",
        "/* a comment */ SELECT 1 -- and another",
        "EXPLAIN SELECT * FROM rl_trajectories",
        "/* why */ EXPLAIN (ANALYZE) SELECT * FROM rl_trajectories",
        "EXPLAIN (SELECT 1)",
        "EXPLAIN ANALYZE (SELECT count(*) FROM rl_trajectories)",
        "FROM (DESCRIBE rl_trajectories) WHERE column_name = 'reward'",
        "SHOW ALL TABLES",
        "SELECT table_name FROM information_schema.tables",
        "SELECT view_name FROM DUCKDB_VIEWS() WHERE view_name = 'rl_trajectories'",
        "PIVOT rl_trajectories ON phase IN ('train', 'evaluate') USING sum(reward) GROUP BY run_id",
        "UNPIVOT (SELECT step, reward FROM rl_trajectories) ON reward",
        "WITH RECURSIVE a(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM a WHERE i < 3) SELECT * FROM a ORDER BY ALL",
        "WITH a AS MATERIALIZED (FROM rl_trajectories) FROM a EXCEPT ALL (FROM a WHERE step > 0) LIMIT 100%",
        "SELECT DISTINCT ON (phase) phase, CAST(step AS DECIMAL(9, 2)) FROM rl_trajectories ORDER BY step DESC",
        "SELECT step, avg(reward) OVER (PARTITION BY phase ORDER BY step ROWS 1 PRECEDING) FROM rl_trajectories",
        "SELECT a.step FROM rl_trajectories a ASOF JOIN rl_equity_curves b ON a.step >= b.step",
        "SELECT step FROM rl_trajectories POSITIONAL JOIN range(3)",
        "FROM rl_trajectories a WHERE EXISTS (FROM rl_equity_curves b WHERE b.step = a.step)",
        "SELECT phase, count(*) FILTER (step > 0), list(step ORDER BY step) FROM rl_trajectories GROUP BY CUBE (phase)",
        "SELECT struct_pack(a := 1), MAP {'a': [1]}, list_transform([1], lambda x: x + 1), NULL::STRUCT(a INT)[]",
        "SELECT COLUMNS('re.*'), * EXCLUDE (reward) REPLACE (0 AS step) FROM rl_trajectories USING SAMPLE 100%",
        "FROM histogram(rl_trajectories, step)",
        "SELECT key FROM json_each('{\"a\": 1}')",
        "SELECT 'WITH x AS (COPY (SELECT 1) TO ''a'') FROM read_text(''b'')'",
        "SELECT unnest(range(3)), regexp_extract('ab', 'a'), strftime(now(), '%Y')",
    ],
)
def test_what_only_reads_is_answered(lake, ledger, settings, statement):
    spool(lake, RUN)
    deliver_all(lake, lambda segments: None)
    assert query(settings, statement, 10, lambda beginnings: beginnings).rows


def test_a_table_whose_files_lie_elsewhere_can_still_be_read(lake, ledger, settings, tmp_path):
    """A home that was moved keeps the files of its old place."""
    spool(lake, RUN)
    deliver_all(lake, lambda segments: None)
    moved = Settings(home=tmp_path / "moved")
    settings.home.rename(moved.home)
    settings.home.symlink_to(moved.home)
    assert query(moved, "SELECT count(*) FROM rl_trajectories", 10, lambda beginnings: beginnings).rows == [[3]]


def test_tables_on_s3_are_answered_from(s3_lake, tmp_path):
    spool(s3_lake, RUN)
    deliver_all(s3_lake, lambda segments: None)
    ask = "SELECT count(*) FROM rl_trajectories"
    assert query(s3_lake.settings, ask, 10, lambda beginnings: beginnings).rows == [[3]]


def test_what_a_statement_cannot_be_seen_to_do_is_refused(ledger, settings, monkeypatch):
    answer = {"error": True, "error_message": "not implemented"}
    monkeypatch.setattr("alphaswarm_rl.lake.statements.json.loads", lambda text: answer)
    with pytest.raises(DataError, match="cannot be seen: not implemented"):
        query(settings, "SELECT 1", 10, lambda beginnings: beginnings)


def test_the_reason_names_what_is_refused(ledger, settings):
    def reason(statement):
        with pytest.raises(DataError) as refused:
            query(settings, statement, 10, lambda beginnings: beginnings)
        return refused.value.why

    assert reason("WITH x AS (COPY (SELECT 1) TO 'a') FROM x") == "rl sql only reads, and COPY is in it"
    assert reason("FROM Read_Text('a')") == "rl sql reads the views alone, and the function read_text is in it"
    assert reason("DELETE FROM rl_trajectories") == "rl sql only reads"
    assert reason("SELECT 1; SELECT 2; SELECT 3") == "rl sql takes one statement, not 3"
    assert "several statements" in reason("PIVOT rl_trajectories ON phase")


def test_a_statement_that_is_nested_too_deeply_is_refused(ledger, settings):
    def ask(terms):
        return query(settings, f"SELECT {' + '.join(['1'] * terms)}", 10, lambda beginnings: beginnings)

    assert ask(100).rows == [[100]]
    with pytest.raises(DataError, match="nested too deeply"):
        ask(900)


def test_the_engine_alone_would_refuse(lake, ledger, tmp_path):
    """Without the parser's judgement: what is left to a statement that got past it."""
    spool(lake, RUN)
    deliver_all(lake, lambda segments: None)
    (tmp_path / "secret").write_text(SECRET)
    (file, *_) = lake.files(lake.identifier("trajectories"), RUN)
    path = lake.path(file.location)
    before = fingerprints(tmp_path)
    with _connection() as connection:
        files = ReadOnlyFiles()
        connection.register_filesystem(files)
        create_views(lake, connection, files)
        _lock(connection)
        for statement in (
            f"SELECT * FROM read_text('{tmp_path}/secret')",
            f"SELECT * FROM read_text('{path}')",
            f"SELECT * FROM read_csv('steps://{tmp_path}/secret')",
            f"COPY (SELECT 1) TO '{tmp_path}/new'",
            f"COPY (SELECT 1) TO '{path}'",
            f"COPY (SELECT 1) TO 'steps://{path}'",
            f"COPY (SELECT 1) TO 'steps://{path}' (USE_TMP_FILE false)",
            f"COPY (SELECT 1) TO 'steps://{path.parent}/new.parquet'",
            f"COPY (SELECT 1 a) TO 'steps://{path.parent}' (FORMAT parquet, PARTITION_BY a, OVERWRITE true)",
            f"WITH x AS MATERIALIZED (COPY (SELECT 1) TO '{path}' (FORMAT parquet)) SELECT * FROM x",
            f"WITH x AS MATERIALIZED (COPY (SELECT 1) TO 'steps://{path}' (FORMAT parquet)) SELECT * FROM x",
            f"ATTACH '{tmp_path}/new.db'",
            f"ATTACH 'steps://{tmp_path}/new.db'",
            f"EXPORT DATABASE 'steps://{tmp_path}/new'",
            "SET enable_external_access = true",
            "SET allowed_directories = ['/']",
            "SET lock_configuration = false",
            "SET temp_directory = '/tmp/elsewhere'",
            "LOAD httpfs",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)
        assert connection.execute("SELECT count(*) FROM rl_trajectories").fetchall() == [(3,)]
    assert fingerprints(tmp_path) == before


def test_what_does_not_fit_into_memory_goes_to_a_folder_that_goes(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with _connection() as connection:
        connection.execute("SET memory_limit = '60MB'; SET threads = 1; SET preserve_insertion_order = false")
        _lock(connection)
        connection.execute("SELECT i, hash(i)::VARCHAR AS t FROM range(2_000_000) r(i) ORDER BY t").fetchmany(1)
        (folder,) = tmp_path.iterdir()
        assert folder.name.startswith("alphaswarm-sql-")
        assert any(folder.rglob("*"))
    assert not list(tmp_path.iterdir())


def test_a_file_of_the_tables_that_is_gone_is_no_mistake_of_the_statement(lake, ledger, settings):
    spool(lake, RUN)
    deliver_all(lake, lambda segments: None)
    (file, *_) = lake.files(lake.identifier("trajectories"), RUN)
    lake.path(file.location).unlink()
    with pytest.raises(LakeError, match="No such file") as failed:
        query(settings, "FROM rl_trajectories", 10, lambda beginnings: beginnings)
    assert "rl lake verify" in failed.value.remedy


def test_odd_characters_in_the_home_do_no_harm(tmp_path):
    settings = Settings(home=tmp_path / """it's [a] "run_id=7" * home""")
    with Ledger.open(settings) as ledger:
        adopt(ledger.engine, settings, "the tables have steps of runs that no ledger knows")
    with Lake(settings) as lake:
        spool(lake, RUN)
        deliver_all(lake, lambda segments: None)
    for view in ("rl_trajectories", "rl_trajectories_run_111111112222"):
        ask = f"SELECT run_id, count(*) FROM {view} GROUP BY ALL"
        assert query(settings, ask, 10, lambda beginnings: [RUN] * len(beginnings)).rows == [[RUN, 3]]
