"""The ledger's tables.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(36)
HASH = sa.String(64)
TIME = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

APPEND_ONLY = {
    "rl_experiment_versions": "a stored version is never changed or deleted",
    "rl_kill_switch_log": "the log of the kill switch is never changed or deleted",
}


def upgrade() -> None:
    _specs()
    _runs()
    _results()
    _refs()
    _components()
    _kill_switch()
    if op.get_bind().dialect.name == "postgresql":
        _protect_on_postgresql()
    else:
        _protect_on_sqlite()


def _references(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=f"fk_{table}_{column}_{other}", ondelete="RESTRICT")


def _specs() -> None:
    op.create_table(
        "rl_experiment_specs",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.String(240), nullable=False),
        sa.Column("slug", sa.String(120), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("current_version", sa.Integer(), nullable=False),
        sa.Column("spec_yaml", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("annotations", JSON, nullable=False),
        sa.Column("meta", JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rl_experiment_specs"),
        sa.UniqueConstraint("project_id", "slug", name="uq_rl_experiment_specs_project_id_slug"),
        sa.CheckConstraint("status IN ('draft', 'active', 'archived')", name="ck_rl_experiment_specs_status"),
    )
    op.create_table(
        "rl_experiment_versions",
        sa.Column("id", ID, nullable=False),
        sa.Column("spec_id", ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("spec_hash", HASH, nullable=False),
        sa.Column("exec_hash", HASH, nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.Column("component_versions", JSON, nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text()),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rl_experiment_versions"),
        _references("rl_experiment_versions", "spec_id", "rl_experiment_specs"),
        sa.UniqueConstraint("spec_id", "spec_hash", name="uq_rl_experiment_versions_spec_id_spec_hash"),
        sa.UniqueConstraint("spec_id", "version", name="uq_rl_experiment_versions_spec_id_version"),
    )


def _runs() -> None:
    op.create_table(
        "rl_runs",
        sa.Column("id", ID, nullable=False),
        sa.Column("spec_id", ID, nullable=False),
        sa.Column("version_id", ID, nullable=False),
        sa.Column("parent_run_id", ID),
        sa.Column("family", sa.String(120), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("target", sa.String(32), nullable=False),
        sa.Column("task_id", sa.Text()),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("spec_hash", HASH, nullable=False),
        sa.Column("exec_hash", HASH, nullable=False),
        sa.Column("data_fingerprint", sa.Text()),
        sa.Column("code_fingerprint", JSON, nullable=False),
        sa.Column("machine", JSON, nullable=False),
        sa.Column("arguments", JSON, nullable=False),
        sa.Column("overrides", JSON, nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("window_start", sa.Text()),
        sa.Column("window_end", sa.Text()),
        sa.Column("in_sample", sa.Boolean()),
        sa.Column("timesteps", sa.BigInteger(), nullable=False),
        sa.Column("total_timesteps", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint", sa.Text()),
        sa.Column("checkpoint_sha256", HASH),
        sa.Column("best_checkpoint", sa.Text()),
        sa.Column("best_reward", sa.Double()),
        sa.Column("resume", sa.String(16)),
        sa.Column("resumed", sa.Integer(), nullable=False),
        sa.Column("halt_checks", sa.BigInteger(), nullable=False),
        sa.Column("halt_reason", sa.Text()),
        sa.Column("mlflow_run_id", sa.Text()),
        sa.Column("experiment_id", sa.Text()),
        sa.Column("mean_reward", sa.Double()),
        sa.Column("total_reward", sa.Double()),
        sa.Column("sharpe", sa.Double()),
        sa.Column("max_drawdown", sa.Double()),
        sa.Column("final_value", sa.Double()),
        sa.Column("total_return", sa.Double()),
        sa.Column("result_summary", JSON, nullable=False),
        sa.Column("notices", JSON, nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("process_start", sa.Text(), nullable=False),
        sa.Column("heartbeat_at", TIME, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("started_at", TIME),
        sa.Column("ended_at", TIME),
        sa.Column("removed_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_rl_runs"),
        _references("rl_runs", "spec_id", "rl_experiment_specs"),
        _references("rl_runs", "version_id", "rl_experiment_versions"),
        _references("rl_runs", "parent_run_id", "rl_runs"),
        sa.CheckConstraint(
            "status IN ('pending', 'running', 'completed', 'failed', 'halted', 'interrupted')",
            name="ck_rl_runs_status",
        ),
        sa.CheckConstraint("resume IN ('exact', 'approximate')", name="ck_rl_runs_resume"),
    )
    for columns in (["spec_id"], ["version_id"], ["parent_run_id"], ["family"], ["status"], ["created_at"]):
        op.create_index(f"ix_rl_runs_{columns[0]}", "rl_runs", columns)
    op.create_table(
        "rl_run_events",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("ts", TIME, nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_rl_run_events"),
        _references("rl_run_events", "run_id", "rl_runs"),
    )


def _results() -> None:
    op.create_table(
        "rl_evaluations",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("timesteps", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("episodes", sa.Integer(), nullable=False),
        sa.Column("deterministic", sa.Boolean(), nullable=False),
        sa.Column("in_sample", sa.Boolean()),
        sa.Column("checkpoint_sha256", HASH),
        sa.Column("mean_reward", sa.Double()),
        sa.Column("std_reward", sa.Double()),
        sa.Column("mean_length", sa.Double()),
        sa.Column("sharpe", sa.Double()),
        sa.Column("max_drawdown", sa.Double()),
        sa.Column("final_value", sa.Double()),
        sa.Column("total_return", sa.Double()),
        sa.Column("metrics", JSON, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rl_evaluations"),
        _references("rl_evaluations", "run_id", "rl_runs"),
    )
    op.create_index("ix_rl_evaluations_run_id", "rl_evaluations", ["run_id"])
    op.create_table(
        "rl_episodes",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("episode", sa.BigInteger(), nullable=False),
        sa.Column("last_episode", sa.BigInteger(), nullable=False),
        sa.Column("env_idx", sa.Integer()),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("timesteps", sa.BigInteger(), nullable=False),
        sa.Column("mean_reward", sa.Double()),
        sa.Column("portfolio_value", sa.Double()),
        sa.Column("length", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "phase", "episode", name="pk_rl_episodes"),
        _references("rl_episodes", "run_id", "rl_runs"),
    )


def _refs() -> None:
    for table, own in (
        ("rl_trajectory_refs", [("first_step", sa.BigInteger()), ("last_step", sa.BigInteger())]),
        (
            "rl_equity_curve_refs",
            [("initial_value", sa.Double()), ("final_value", sa.Double()), ("max_drawdown", sa.Double())],
        ),
    ):
        op.create_table(
            table,
            sa.Column("id", ID, nullable=False),
            sa.Column("run_id", ID, nullable=False),
            sa.Column("phase", sa.String(16), nullable=False),
            sa.Column("first_episode", sa.BigInteger(), nullable=False),
            sa.Column("last_episode", sa.BigInteger(), nullable=False),
            sa.Column("timesteps", sa.BigInteger(), nullable=False),
            sa.Column("iceberg_namespace", sa.Text(), nullable=False),
            sa.Column("iceberg_table", sa.Text(), nullable=False),
            sa.Column("row_count", sa.BigInteger(), nullable=False),
            *(sa.Column(name, kind, nullable=isinstance(kind, sa.Double)) for name, kind in own),
            sa.Column("created_at", TIME, nullable=False),
            sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
            _references(table, "run_id", "rl_runs"),
        )
        op.create_index(f"ix_{table}_run_id", table, ["run_id"])


def _components() -> None:
    op.create_table(
        "rl_component_registrations",
        sa.Column("id", ID, nullable=False),
        sa.Column("rl_kind", sa.String(64), nullable=False),
        sa.Column("alias", sa.String(120), nullable=False),
        sa.Column("module_path", sa.Text(), nullable=False),
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("rl_version", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("tags", JSON, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("schema", JSON, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rl_component_registrations"),
        sa.UniqueConstraint("rl_kind", "alias", name="uq_rl_component_registrations_rl_kind_alias"),
    )


def _kill_switch() -> None:
    op.create_table(
        "rl_kill_switch",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("engaged", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("set_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("scope", name="pk_rl_kill_switch"),
    )
    op.create_table(
        "rl_kill_switch_log",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rl_kill_switch_log"),
        sa.CheckConstraint("action IN ('engage', 'release')", name="ck_rl_kill_switch_log_action"),
        sqlite_autoincrement=True,
    )


def _protect_on_sqlite() -> None:
    for table, why in APPEND_ONLY.items():
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_refuses_{change.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table}: {why}'); END"
            )
    # INSERT OR REPLACE deletes the row in its way without waking the trigger on DELETE.
    in_the_way = {
        "rl_experiment_versions": "id = NEW.id OR (spec_id = NEW.spec_id "
        "AND (spec_hash = NEW.spec_hash OR version = NEW.version))",
        "rl_kill_switch_log": "id = NEW.id",
    }
    for table, why in APPEND_ONLY.items():
        op.execute(
            f"CREATE TRIGGER {table}_refuses_replace BEFORE INSERT ON {table} "  # noqa: S608
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {in_the_way[table]}) "
            f"BEGIN SELECT RAISE(ABORT, '{table}: {why}'); END"
        )


def _protect_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION rl_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '%: %', TG_TABLE_NAME, TG_ARGV[0]; END $$"
    )
    for table, why in APPEND_ONLY.items():
        op.execute(
            f"CREATE TRIGGER {table}_refuses_change BEFORE UPDATE OR DELETE ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION rl_refuse_change('{why}')"
        )
        op.execute(
            f"CREATE TRIGGER {table}_refuses_truncate BEFORE TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION rl_refuse_change('{why}')"
        )
