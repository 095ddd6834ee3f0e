"""The model registry's tables, in a new database or around what an older one has.

Registries were made without migrations before: by the original SQL, which has the first columns of `models` alone, or
by versions of this package that added whatever was missing. So this one adds whatever is missing too.

Revision ID: 0001
Revises:
"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateColumn

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
# As the original table has them in SQLite, and 64 bits everywhere.
WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
REAL: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")

APPEND_ONLY = {
    "rl_model_evaluations": "an evaluation of a model is never changed or deleted",
    "rl_model_validations": "a validation of a model is never changed or deleted",
    "rl_model_promotions": "the log of promotions is never changed or deleted",
}

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def _table(name: str, *parts: sa.schema.SchemaItem) -> sa.Table:
    number = sa.Column("id", WHOLE, primary_key=True, autoincrement=True)
    return sa.Table(name, metadata, number, *parts, sqlite_autoincrement=True)


def _model() -> sa.Column[int]:
    return sa.Column("model_id", WHOLE, sa.ForeignKey("models.id", ondelete="RESTRICT"), nullable=False)


models = _table(
    "models",
    *(sa.Column(name, sa.Text, nullable=False) for name in ("model_path", "algorithm", "env_id")),
    sa.Column("timestamp", WHOLE, nullable=False),
    sa.Column("total_timesteps", WHOLE),
    *(sa.Column(name, REAL) for name in ("mean_reward", "std_reward", "mean_episode_length")),
    *(sa.Column(name, sa.Text) for name in ("hyperparams", "git_commit")),
    sa.Column("validated", sa.Boolean, server_default=sa.false()),
    # From here on: what the original table lacks.
    *(sa.Column(name, sa.Text) for name in ("run_id", "spec_hash", "exec_hash", "sha256")),
    *(sa.Column(name, sa.Text) for name in ("env_signature", "observation_signature", "action_signature")),
    *(sa.Column(name, WHOLE) for name in ("eval_episodes", "eval_seed")),
    *(sa.Column(name, sa.Text) for name in ("eval_window_start", "eval_window_end")),
    sa.Column("lower_bound", REAL),
    sa.Column("tags", sa.Text, nullable=False, server_default=sa.text("'[]'")),
    sa.Column("parent_model_id", WHOLE),
    sa.Column("deployment_status", sa.Text, nullable=False, server_default=sa.text("'staging'")),
    sa.Column("protected", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("archived_because", sa.Text),
    *(sa.Index(f"idx_{column}", column) for column in ("timestamp", "mean_reward", "validated")),
    *(sa.Index(f"idx_models_{column}", column) for column in ("model_path", "sha256")),
    sa.Index("idx_models_scope", "env_id", "env_signature", "observation_signature", "action_signature"),
)
_table(
    "rl_model_evaluations",
    _model(),
    sa.Column("at", TIME, nullable=False),
    sa.Column("episodes", WHOLE, nullable=False),
    *(sa.Column(name, REAL) for name in ("mean_reward", "std_reward", "mean_episode_length", "lower_bound")),
    sa.Column("seed", WHOLE),
    sa.Column("deterministic", sa.Boolean),
    *(sa.Column(name, sa.Text) for name in ("window_start", "window_end")),
    sa.Column("in_sample", sa.Boolean),
    sa.Column("returns", JSON),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("metrics", JSON, nullable=False),
    sa.Index("ix_rl_model_evaluations_model_id", "model_id"),
    sa.CheckConstraint("source IN ('validation', 'evaluate', 'added')", name="source"),
)
validations = _table(
    "rl_model_validations",
    _model(),
    sa.Column("at", TIME, nullable=False),
    sa.Column("profile", sa.Text, nullable=False),
    sa.Column("passed", sa.Boolean, nullable=False),
    *(sa.Column(name, JSON, nullable=False) for name in ("checks", "evidence", "limits")),
    sa.Column("evaluation_id", WHOLE),
    sa.Index("ix_rl_model_validations_model_id", "model_id"),
)
_table(
    "rl_model_promotions",
    _model(),
    sa.Column("at", TIME, nullable=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("who", "why", "from_status", "to_status")),
    sa.Column("alias", sa.Text),
    sa.Column("action", sa.Text, nullable=False),
    sa.Index("ix_rl_model_promotions_model_id", "model_id"),
)
sa.Table(
    "rl_model_aliases",
    metadata,
    sa.Column("alias", sa.Text, primary_key=True),
    sa.Column("scope", sa.Text, primary_key=True),
    _model(),
    sa.Index("ix_rl_model_aliases_model_id", "model_id"),
)


def upgrade() -> None:
    connection = op.get_bind()
    existing = set(sa.inspect(connection).get_table_names())
    for table in metadata.sorted_tables:
        if table.name in existing:
            _complete(connection, table)
        else:
            table.create(connection)
            if table.name in APPEND_ONLY:
                _protect(connection, table.name, APPEND_ONLY[table.name])
    if "models" in existing and validations.name not in existing:
        _remember_validated(connection)


def _complete(connection: sa.Connection, table: sa.Table) -> None:
    found = sa.inspect(connection)
    columns = {column["name"] for column in found.get_columns(table.name)}
    indexes = {index["name"] for index in found.get_indexes(table.name)}
    for column in table.columns:
        if column.name not in columns:
            # Plain ADD COLUMN: SQLite would have to build the table anew for anything else.
            definition = CreateColumn(column).compile(dialect=connection.dialect)
            connection.execute(sa.text(f'ALTER TABLE "{table.name}" ADD COLUMN {definition}'))
    for index in table.indexes:
        if index.name not in indexes:
            index.create(connection)


def _protect(connection: sa.Connection, table: str, why: str) -> None:
    if connection.dialect.name == "postgresql":
        function = "rl_model_refuse_change"
        statements = [
            f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '%: %', TG_TABLE_NAME, TG_ARGV[0]; END $$",
            f"CREATE TRIGGER {table}_refuses_change BEFORE UPDATE OR DELETE ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION {function}('{why}')",
            f"CREATE TRIGGER {table}_refuses_truncate BEFORE TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {function}('{why}')",
        ]
    else:
        refusal = f"BEGIN SELECT RAISE(ABORT, '{table}: {why}'); END"
        replaced = f"WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id) "  # noqa: S608
        statements = [
            f"CREATE TRIGGER {table}_refuses_update BEFORE UPDATE ON {table} {refusal}",
            f"CREATE TRIGGER {table}_refuses_delete BEFORE DELETE ON {table} {refusal}",
            # INSERT OR REPLACE deletes the row in its way without waking the trigger on DELETE.
            f"CREATE TRIGGER {table}_refuses_replace BEFORE INSERT ON {table} {replaced}{refusal}",
        ]
    for statement in statements:
        connection.execute(sa.text(statement))


def _remember_validated(connection: sa.Connection) -> None:
    # `validated` is derived from the history from now on: rows that were validated before get their entry in it.
    reason = "the file said so before it was upgraded"
    entry = {
        "at": datetime.now(UTC),
        "profile": "seed-legacy",
        "passed": True,
        "checks": [{"gate": "upgraded", "passed": True, "reason": reason, "value": None, "limit": None}],
        "evidence": {"source": reason},
        "limits": {},
    }
    validated = connection.execute(sa.select(models.c.id).where(models.c.validated.is_(True)).order_by(models.c.id))
    entries = [{**entry, "model_id": model_id} for model_id in validated.scalars()]
    if entries:
        connection.execute(validations.insert(), entries)
