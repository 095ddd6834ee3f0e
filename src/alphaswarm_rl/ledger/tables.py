"""The ledger's tables. The migrations make them; a test compares the two."""

from __future__ import annotations

import sqlalchemy as sa

from alphaswarm_rl.db.database import columns, new_metadata
from alphaswarm_rl.db.types import Json, Number, UtcTime, Whole

metadata = new_metadata()


def _id(name: str = "id") -> sa.Column[str]:
    return sa.Column(name, sa.String(36), primary_key=True)


def _refers(name: str, table: str, *, primary_key: bool = False, nullable: bool = False) -> sa.Column[str]:
    target = sa.ForeignKey(f"{table}.id", ondelete="RESTRICT")
    return sa.Column(name, sa.String(36), target, primary_key=primary_key, nullable=nullable)


ledger = sa.Table(
    "rl_ledger",
    metadata,
    # Of the one row; see `identity`.
    _id(),
    # How many runs were ever made.
    sa.Column("runs", Whole, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
)

specs = sa.Table(
    "rl_experiment_specs",
    metadata,
    _id(),
    sa.Column("project_id", sa.Text, nullable=False, default="default"),
    sa.Column("name", sa.String(240), nullable=False),
    sa.Column("slug", sa.String(120), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False, default=""),
    sa.Column("current_version", sa.Integer, nullable=False),
    sa.Column("spec_yaml", sa.Text, nullable=False),
    sa.Column("status", sa.String(16), nullable=False, default="active"),
    sa.Column("annotations", Json, nullable=False),
    sa.Column("meta", Json, nullable=False, default=dict),
    *columns(UtcTime, "created_at", "updated_at", nullable=False),
    sa.UniqueConstraint("project_id", "slug"),
    sa.CheckConstraint("status IN ('draft', 'active', 'archived')", name="status"),
)

versions = sa.Table(
    "rl_experiment_versions",
    metadata,
    _id(),
    _refers("spec_id", "rl_experiment_specs"),
    sa.Column("version", sa.Integer, nullable=False),
    *columns(sa.String(64), "spec_hash", "exec_hash", nullable=False),
    sa.Column("payload", Json, nullable=False),
    # The component versions of the first persist, by "kind:alias".
    sa.Column("component_versions", Json, nullable=False),
    sa.Column("notes", sa.Text, nullable=False, default=""),
    sa.Column("created_by", sa.Text),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.UniqueConstraint("spec_id", "spec_hash"),
    sa.UniqueConstraint("spec_id", "version"),
)

runs = sa.Table(
    "rl_runs",
    metadata,
    _id(),
    _refers("spec_id", "rl_experiment_specs"),
    _refers("version_id", "rl_experiment_versions"),
    _refers("parent_run_id", "rl_runs", nullable=True),
    # Trials are counted by it: a tuning study and its trials share the base spec's slug.
    sa.Column("family", sa.String(120), nullable=False),
    sa.Column("name", sa.Text),
    sa.Column("target", sa.String(32), nullable=False),
    sa.Column("task_id", sa.Text),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("seed", Whole, nullable=False),
    *columns(sa.String(64), "spec_hash", "exec_hash", nullable=False),
    sa.Column("data_fingerprint", sa.Text),
    sa.Column("code_fingerprint", Json, nullable=False, default=dict),
    sa.Column("machine", Json, nullable=False, default=dict),
    sa.Column("arguments", Json, nullable=False, default=dict),
    sa.Column("overrides", Json, nullable=False, default=dict),
    sa.Column("device", sa.Text, nullable=False, default="cpu"),
    *columns(sa.Text, "window_start", "window_end"),
    sa.Column("in_sample", sa.Boolean),
    sa.Column("timesteps", Whole, nullable=False, default=0),
    sa.Column("total_timesteps", Whole, nullable=False, default=0),
    sa.Column("checkpoint", sa.Text),
    sa.Column("checkpoint_sha256", sa.String(64)),
    sa.Column("best_checkpoint", sa.Text),
    sa.Column("best_reward", Number),
    sa.Column("resume", sa.String(16)),
    sa.Column("resumed", sa.Integer, nullable=False, default=0),
    sa.Column("halt_checks", Whole, nullable=False, default=0),
    *columns(sa.Text, "halt_reason", "mlflow_run_id", "experiment_id"),
    # The trace that telemetry tells it as.
    sa.Column("trace_id", sa.String(32)),
    *columns(Number, "mean_reward", "total_reward", "sharpe", "max_drawdown", "final_value", "total_return"),
    sa.Column("result_summary", Json, nullable=False, default=dict),
    # What of its steps was recorded, and how.
    sa.Column("recording", Json, nullable=False, default=dict, server_default="{}"),
    sa.Column("notices", Json, nullable=False, default=list),
    sa.Column("error", sa.Text),
    # Who holds the run, see `process`.
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", Whole, nullable=False),
    sa.Column("process_start", sa.Text, nullable=False),
    *columns(UtcTime, "heartbeat_at", "created_at", nullable=False),
    *columns(UtcTime, "started_at", "ended_at", "removed_at"),
    # In the order in which runs are made, whatever clocks say.
    sa.Column("number", Whole, nullable=False, server_default="0"),
    sa.CheckConstraint(
        "status IN ('pending', 'running', 'completed', 'failed', 'halted', 'interrupted')", name="status"
    ),
    sa.CheckConstraint("resume IN ('exact', 'approximate')", name="resume"),
)
for _column in ("spec_id", "version_id", "parent_run_id", "family", "status", "created_at", "number"):
    sa.Index(f"ix_rl_runs_{_column}", runs.c[_column])

events = sa.Table(
    "rl_run_events",
    metadata,
    _refers("run_id", "rl_runs", primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("stage", sa.String(32), nullable=False),
    sa.Column("ts", UtcTime, nullable=False),
    sa.Column("payload", Json, nullable=False),
)

evaluations = sa.Table(
    "rl_evaluations",
    metadata,
    _id(),
    _refers("run_id", "rl_runs"),
    sa.Column("phase", sa.String(16), nullable=False),
    # The transitions the agent had been trained for.
    *columns(Whole, "timesteps", "seed", nullable=False),
    sa.Column("episodes", sa.Integer, nullable=False),
    sa.Column("deterministic", sa.Boolean, nullable=False),
    sa.Column("in_sample", sa.Boolean),
    sa.Column("checkpoint_sha256", sa.String(64)),
    *columns(
        Number, "mean_reward", "std_reward", "mean_length", "sharpe", "max_drawdown", "final_value", "total_return"
    ),
    sa.Column("metrics", Json, nullable=False, default=dict),
    *columns(UtcTime, "started_at", "ended_at", nullable=False),
    sa.Index("ix_rl_evaluations_run_id", "run_id"),
)

episodes = sa.Table(
    "rl_episodes",
    metadata,
    _refers("run_id", "rl_runs", primary_key=True),
    sa.Column("phase", sa.String(16), primary_key=True),
    # A row may stand for many short episodes: `count` of them, from `episode` to `last_episode`.
    sa.Column("episode", Whole, primary_key=True, autoincrement=False),
    sa.Column("last_episode", Whole, nullable=False),
    sa.Column("env_idx", sa.Integer),
    *columns(Whole, "count", "timesteps", nullable=False),
    *columns(Number, "mean_reward", "portfolio_value"),
    sa.Column("length", Number, nullable=False),
)


def _refs(name: str, *own: sa.Column[int] | sa.Column[float]) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        _id(),
        _refers("run_id", "rl_runs"),
        sa.Column("phase", sa.String(16), nullable=False),
        *columns(Whole, "first_episode", "last_episode", "timesteps", nullable=False),
        *columns(sa.Text, "iceberg_namespace", "iceberg_table", nullable=False),
        sa.Column("row_count", Whole, nullable=False),
        # Over the rows in any order.
        sa.Column("checksum", sa.Text, nullable=False, server_default=sa.text("''")),
        sa.Column("first_segment", Whole, nullable=False, server_default="0"),
        sa.Column("last_segment", Whole, nullable=False, server_default="0"),
        *own,
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Index(f"ix_{name}_run_id", "run_id"),
    )


trajectory_refs = _refs(
    "rl_trajectory_refs",
    *columns(Whole, "first_step", "last_step", nullable=False),
)
equity_curve_refs = _refs(
    "rl_equity_curve_refs",
    *columns(Number, "initial_value", "final_value", "max_drawdown"),
)

components = sa.Table(
    "rl_component_registrations",
    metadata,
    _id(),
    sa.Column("rl_kind", sa.String(64), nullable=False),
    sa.Column("alias", sa.String(120), nullable=False),
    *columns(sa.Text, "module_path", "class_name", nullable=False),
    sa.Column("rl_version", sa.Integer, nullable=False),
    sa.Column("description", sa.Text, nullable=False, default=""),
    sa.Column("tags", Json, nullable=False, default=list),
    sa.Column("source", sa.Text, nullable=False, default=""),
    sa.Column("category", sa.Text, nullable=False, default=""),
    sa.Column("schema", Json, nullable=False, default=dict),
    sa.Column("fingerprint", sa.Text, nullable=False),
    *columns(UtcTime, "created_at", "updated_at", nullable=False),
    sa.UniqueConstraint("rl_kind", "alias"),
)

kill_switch = sa.Table(
    "rl_kill_switch",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("engaged", sa.Boolean, nullable=False),
    *columns(sa.Text, "reason", "set_by", nullable=False),
    sa.Column("set_at", UtcTime, nullable=False),
)

kill_switch_log = sa.Table(
    "rl_kill_switch_log",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("action", sa.String(16), nullable=False),
    *columns(sa.Text, "reason", "actor", nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.CheckConstraint("action IN ('engage', 'release')", name="action"),
    sqlite_autoincrement=True,
)
