"""`rl sql` reads the recorded steps and nothing else: what a hostile statement tries, and what comes of it."""

import hashlib

import duckdb
import pytest

from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.queries import query
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
    "PREPARE later AS COPY (SELECT 1) TO '{new}'",
    "EXECUTE later",
    "BEGIN TRANSACTION",
    "CHECKPOINT",
    "VACUUM",
    "SELECT * FROM statement",
    "SELECT * FROM settings",
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
        "lake": lake.path(file.location).parent,
    }
    before = fingerprints(tmp_path)
    with pytest.raises(AlphaSwarmError) as refused:
        query(settings, attempt.format(**places), 10, lambda beginnings: beginnings)
    assert SECRET not in str(refused.value)
    assert fingerprints(tmp_path) == before


def test_there_are_fifty_attempts():
    assert len(set(ATTEMPTS)) >= 50


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


def test_the_engine_alone_would_refuse(tmp_path):
    """Without the parser's judgement: what `_lock` leaves open."""
    from alphaswarm_rl.lake.queries import _connection, _lock

    (tmp_path / "secret").write_text(SECRET)
    with _connection() as connection:
        _lock(connection, [str(tmp_path / "tables")])
        for statement in (
            f"SELECT * FROM read_text('{tmp_path}/secret')",
            f"COPY (SELECT 1) TO '{tmp_path}/new'",
            f"ATTACH '{tmp_path}/new.db'",
            "SET enable_external_access = true",
            "SET lock_configuration = false",
            "LOAD httpfs",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"]
