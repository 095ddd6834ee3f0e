"""A ledger with rows of an older version is upgraded in place."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, MetaData, text
from sqlalchemy.exc import DBAPIError

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.db.engine import open_engine, read, write
from alphaswarm_rl.db.schema import LEDGER
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.settings import LedgerSettings, Settings

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
HASHES = {"spec_hash": "a" * 64, "exec_hash": "b" * 64}
PLACE = {"phase": "train", "first_episode": 0, "last_episode": 1, "iceberg_namespace": "rl", "iceberg_table": "t"}
ROWS: dict[str, dict[str, Any]] = {
    "rl_experiment_specs": {"id": "spec", "project_id": "default", "name": "Cart pole", "slug": "cartpole"}
    | {"kind": "single", "description": "", "current_version": 1, "spec_yaml": "", "status": "active"}
    | {"annotations": [], "meta": {}, "created_at": NOON, "updated_at": NOON},
    "rl_experiment_versions": {"id": "version", "spec_id": "spec", "version": 1, "payload": {"slug": "cartpole"}}
    | {"component_versions": {}, "notes": "", "created_at": NOON, **HASHES},
    "rl_runs": {"id": "run-0001", "spec_id": "spec", "version_id": "version", "family": "cartpole", "target": "train"}
    | {"status": "completed", "seed": 7, "device": "cpu", "timesteps": 100, "total_timesteps": 100, "resumed": 0}
    | {"code_fingerprint": {}, "machine": {}, "arguments": {}, "overrides": {}, "result_summary": {"reward": 1.5}}
    | {"halt_checks": 0, "notices": [], "host": "here", "pid": 1, "process_start": "1"}
    | {"heartbeat_at": NOON, "created_at": NOON, **HASHES},
    "rl_trajectory_refs": {"id": "one", "run_id": "run-0001", "timesteps": 100, "row_count": 10, **PLACE}
    | {"first_step": 0, "last_step": 9, "created_at": NOON},
    "rl_equity_curve_refs": {"id": "two", "run_id": "run-0001", "timesteps": 100, "row_count": 10, **PLACE}
    | {"final_value": 1.5, "created_at": NOON},
}


@pytest.fixture
def first(database_url: str) -> Iterator[Engine]:
    """A ledger of the first revision with a row in every table that was changed since, and in those they need."""
    engine = open_engine(database_url)
    LEDGER.upgrade(engine, "0001")
    with write(engine) as connection:
        tables = MetaData()
        tables.reflect(connection)
        for name, row in ROWS.items():
            connection.execute(tables.tables[name].insert().values(row))
    yield engine
    engine.dispose()


def test_rows_of_the_first_revision_are_kept_and_get_the_new_columns(first: Engine, database_url: str) -> None:
    settings = Settings(ledger=LedgerSettings(url=database_url))
    with pytest.raises(LedgerError, match="rl db upgrade"):
        Ledger.open(settings)
    LEDGER.upgrade(first)
    with Ledger.open(settings) as ledger:
        run = ledger.run("run-0001")
        assert (run.seed, run.result_summary, run.recording, run.trace_id) == (7, {"reward": 1.5}, {}, None)
        assert (run.created_at, ledger.version("version").payload) == (NOON, {"slug": "cartpole"})
        curve, steps = sorted(ledger.refs(), key=lambda ref: ref.first_step is not None)
        for ref in (curve, steps):
            assert (ref.row_count, ref.checksum, ref.first_segment, ref.last_segment) == (10, "", 0, 0)
        assert (curve.final_value, steps.last_step) == (1.5, 9)


def test_versions_stay_immutable(first: Engine) -> None:
    LEDGER.upgrade(first)
    for change in ("UPDATE rl_experiment_versions SET notes = 'x'", "DELETE FROM rl_experiment_versions"):
        with pytest.raises(DBAPIError, match="a stored version is never changed or deleted"), write(first) as bare:
            bare.execute(text(change))


def test_an_upgrade_that_fails_leaves_the_ledger_as_it_was(first: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import op

    add = op.add_column

    def fail_at_the_last(table: str, *rest: Any) -> None:
        if table == "rl_runs":
            raise RuntimeError("in the middle")
        add(table, *rest)

    monkeypatch.setattr("alembic.op.add_column", fail_at_the_last)
    with pytest.raises(RuntimeError, match="in the middle"):
        LEDGER.upgrade(first)
    with read(first) as connection:
        tables = MetaData()
        tables.reflect(connection)
    assert "checksum" not in tables.tables["rl_trajectory_refs"].c
    monkeypatch.undo()
    LEDGER.upgrade(first)
