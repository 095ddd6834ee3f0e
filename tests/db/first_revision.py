"""Rows of a ledger of the first revision, one in every table that was changed since, and in those they need."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, MetaData

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


def insert(connection: Connection) -> None:
    """Puts the rows into a ledger of the first revision."""
    tables = MetaData()
    tables.reflect(connection)
    for name, row in ROWS.items():
        connection.execute(tables.tables[name].insert().values(row))
