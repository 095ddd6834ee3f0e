"""The ledger's tables. The migrations make them; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from alphaswarm_rl.db.database import new_metadata
from alphaswarm_rl.db.types import Json, Number, UtcTime, Whole

metadata = new_metadata()


def _id(name: str = "id") -> Column[str]:
    return Column(name, String(36), primary_key=True)


def _refers(name: str, table: str, *, primary_key: bool = False, nullable: bool = False) -> Column[str]:
    target = ForeignKey(f"{table}.id", ondelete="RESTRICT")
    return Column(name, String(36), target, primary_key=primary_key, nullable=nullable)


specs = Table(
    "rl_experiment_specs",
    metadata,
    _id(),
    Column("project_id", Text, nullable=False, default="default"),
    Column("name", String(240), nullable=False),
    Column("slug", String(120), nullable=False),
    Column("kind", Text, nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("current_version", Integer, nullable=False),
    Column("spec_yaml", Text, nullable=False),
    Column("status", String(16), nullable=False, default="active"),
    Column("annotations", Json, nullable=False),
    Column("meta", Json, nullable=False, default=dict),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    UniqueConstraint("project_id", "slug"),
    CheckConstraint("status IN ('draft', 'active', 'archived')", name="status"),
)

versions = Table(
    "rl_experiment_versions",
    metadata,
    _id(),
    _refers("spec_id", "rl_experiment_specs"),
    Column("version", Integer, nullable=False),
    Column("spec_hash", String(64), nullable=False),
    Column("exec_hash", String(64), nullable=False),
    Column("payload", Json, nullable=False),
    # The component versions of the first persist, by "kind:alias".
    Column("component_versions", Json, nullable=False),
    Column("notes", Text, nullable=False, default=""),
    Column("created_by", Text),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("spec_id", "spec_hash"),
    UniqueConstraint("spec_id", "version"),
)

runs = Table(
    "rl_runs",
    metadata,
    _id(),
    _refers("spec_id", "rl_experiment_specs"),
    _refers("version_id", "rl_experiment_versions"),
    _refers("parent_run_id", "rl_runs", nullable=True),
    # Trials are counted by it: a tuning study and its trials share the base spec's slug.
    Column("family", String(120), nullable=False),
    Column("name", Text),
    Column("target", String(32), nullable=False),
    Column("task_id", Text),
    Column("status", String(16), nullable=False),
    Column("seed", Whole, nullable=False),
    Column("spec_hash", String(64), nullable=False),
    Column("exec_hash", String(64), nullable=False),
    Column("data_fingerprint", Text),
    Column("code_fingerprint", Json, nullable=False, default=dict),
    Column("machine", Json, nullable=False, default=dict),
    Column("arguments", Json, nullable=False, default=dict),
    Column("overrides", Json, nullable=False, default=dict),
    Column("device", Text, nullable=False, default="cpu"),
    Column("window_start", Text),
    Column("window_end", Text),
    Column("in_sample", Boolean),
    Column("timesteps", Whole, nullable=False, default=0),
    Column("total_timesteps", Whole, nullable=False, default=0),
    Column("checkpoint", Text),
    Column("checkpoint_sha256", String(64)),
    Column("best_checkpoint", Text),
    Column("best_reward", Number),
    Column("resume", String(16)),
    Column("resumed", Integer, nullable=False, default=0),
    Column("halt_checks", Whole, nullable=False, default=0),
    Column("halt_reason", Text),
    Column("mlflow_run_id", Text),
    Column("experiment_id", Text),
    # The trace that telemetry tells it as.
    Column("trace_id", String(32)),
    Column("mean_reward", Number),
    Column("total_reward", Number),
    Column("sharpe", Number),
    Column("max_drawdown", Number),
    Column("final_value", Number),
    Column("total_return", Number),
    Column("result_summary", Json, nullable=False, default=dict),
    # What of its steps was recorded, and how.
    Column("recording", Json, nullable=False, default=dict, server_default="{}"),
    Column("notices", Json, nullable=False, default=list),
    Column("error", Text),
    # Who holds the run, see `process`.
    Column("host", Text, nullable=False),
    Column("pid", Whole, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("heartbeat_at", UtcTime, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("removed_at", UtcTime),
    CheckConstraint("status IN ('pending', 'running', 'completed', 'failed', 'halted', 'interrupted')", name="status"),
    CheckConstraint("resume IN ('exact', 'approximate')", name="resume"),
)
for _column in ("spec_id", "version_id", "parent_run_id", "family", "status", "created_at"):
    Index(f"ix_rl_runs_{_column}", runs.c[_column])

events = Table(
    "rl_run_events",
    metadata,
    _refers("run_id", "rl_runs", primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("stage", String(32), nullable=False),
    Column("ts", UtcTime, nullable=False),
    Column("payload", Json, nullable=False),
)

evaluations = Table(
    "rl_evaluations",
    metadata,
    _id(),
    _refers("run_id", "rl_runs"),
    Column("phase", String(16), nullable=False),
    # The transitions the agent had been trained for.
    Column("timesteps", Whole, nullable=False),
    Column("seed", Whole, nullable=False),
    Column("episodes", Integer, nullable=False),
    Column("deterministic", Boolean, nullable=False),
    Column("in_sample", Boolean),
    Column("checkpoint_sha256", String(64)),
    Column("mean_reward", Number),
    Column("std_reward", Number),
    Column("mean_length", Number),
    Column("sharpe", Number),
    Column("max_drawdown", Number),
    Column("final_value", Number),
    Column("total_return", Number),
    Column("metrics", Json, nullable=False, default=dict),
    Column("started_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime, nullable=False),
    Index("ix_rl_evaluations_run_id", "run_id"),
)

episodes = Table(
    "rl_episodes",
    metadata,
    _refers("run_id", "rl_runs", primary_key=True),
    Column("phase", String(16), primary_key=True),
    # A row may stand for many short episodes: `count` of them, from `episode` to `last_episode`.
    Column("episode", Whole, primary_key=True, autoincrement=False),
    Column("last_episode", Whole, nullable=False),
    Column("env_idx", Integer),
    Column("count", Whole, nullable=False),
    Column("timesteps", Whole, nullable=False),
    Column("mean_reward", Number),
    Column("portfolio_value", Number),
    Column("length", Number, nullable=False),
)


def _refs(name: str, *own: Column[int] | Column[float]) -> Table:
    return Table(
        name,
        metadata,
        _id(),
        _refers("run_id", "rl_runs"),
        Column("phase", String(16), nullable=False),
        Column("first_episode", Whole, nullable=False),
        Column("last_episode", Whole, nullable=False),
        Column("timesteps", Whole, nullable=False),
        Column("iceberg_namespace", Text, nullable=False),
        Column("iceberg_table", Text, nullable=False),
        Column("row_count", Whole, nullable=False),
        # Over the rows in any order.
        Column("checksum", Text, nullable=False, server_default=text("''")),
        Column("first_segment", Whole, nullable=False, server_default="0"),
        Column("last_segment", Whole, nullable=False, server_default="0"),
        *own,
        Column("created_at", UtcTime, nullable=False),
        Index(f"ix_{name}_run_id", "run_id"),
    )


trajectory_refs = _refs(
    "rl_trajectory_refs",
    Column("first_step", Whole, nullable=False),
    Column("last_step", Whole, nullable=False),
)
equity_curve_refs = _refs(
    "rl_equity_curve_refs",
    Column("initial_value", Number),
    Column("final_value", Number),
    Column("max_drawdown", Number),
)

components = Table(
    "rl_component_registrations",
    metadata,
    _id(),
    Column("rl_kind", String(64), nullable=False),
    Column("alias", String(120), nullable=False),
    Column("module_path", Text, nullable=False),
    Column("class_name", Text, nullable=False),
    Column("rl_version", Integer, nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("tags", Json, nullable=False, default=list),
    Column("source", Text, nullable=False, default=""),
    Column("category", Text, nullable=False, default=""),
    Column("schema", Json, nullable=False, default=dict),
    Column("fingerprint", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    UniqueConstraint("rl_kind", "alias"),
)

kill_switch = Table(
    "rl_kill_switch",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("engaged", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    Column("set_by", Text, nullable=False),
    Column("set_at", UtcTime, nullable=False),
)

kill_switch_log = Table(
    "rl_kill_switch_log",
    metadata,
    Column("id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True),
    Column("scope", Text, nullable=False),
    Column("action", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    CheckConstraint("action IN ('engage', 'release')", name="action"),
    sqlite_autoincrement=True,
)
