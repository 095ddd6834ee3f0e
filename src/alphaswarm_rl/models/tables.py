"""The model registry's tables. The migrations make them; a test compares the two."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator, TypeEngine

from alphaswarm_rl.db.database import columns, new_metadata
from alphaswarm_rl.db.types import Json, Number, UtcTime, Whole, finite


class WholeNumber(Whole):
    """A whole number: INTEGER in SQLite, as the original table has it, and 64 bits everywhere."""

    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """What the column is called in a database."""
        return dialect.type_descriptor(sa.Integer() if dialect.name == "sqlite" else sa.BigInteger())


class Real(Number):
    """A float: REAL in SQLite, as the original table has it, and 64 bits everywhere."""

    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """What the column is called in a database."""
        return dialect.type_descriptor(sa.REAL() if dialect.name == "sqlite" else sa.Double())


class JsonText(TypeDecorator[Any]):
    """A JSON document in a TEXT column, as the original table has it. It is read as text: `ModelRow` parses it."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: sa.Dialect) -> str | None:
        """Writes the document without blanks, floats that are not finite as null."""
        if value is None:
            return None
        return json.dumps(finite(value), ensure_ascii=False, separators=(",", ":"), sort_keys=isinstance(value, dict))


metadata = new_metadata()


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True)


models = sa.Table(
    "models",
    metadata,
    _id(),
    *columns(sa.Text, "model_path", "algorithm", "env_id", nullable=False),
    # Seconds since 1970.
    sa.Column("timestamp", WholeNumber, nullable=False),
    sa.Column("total_timesteps", WholeNumber),
    *columns(Real, "mean_reward", "std_reward", "mean_episode_length"),
    sa.Column("hyperparams", JsonText),
    sa.Column("git_commit", sa.Text),
    # Set with every validation, to what it found; an evaluation takes it away until the next one.
    sa.Column("validated", sa.Boolean, server_default=sa.false()),
    # From here on: ours. Every column is null or has a default, so that it can be added to a table with rows, and so
    # that whoever inserts by the original columns still can.
    *columns(
        sa.Text,
        "run_id",
        "spec_hash",
        "exec_hash",
        "sha256",
        "env_signature",
        "observation_signature",
        "action_signature",
    ),
    *columns(WholeNumber, "eval_episodes", "eval_seed"),
    *columns(sa.Text, "eval_window_start", "eval_window_end"),
    sa.Column("lower_bound", Real),
    sa.Column("tags", JsonText, nullable=False, server_default=sa.text("'[]'")),
    sa.Column("parent_model_id", WholeNumber),
    sa.Column("deployment_status", sa.Text, nullable=False, server_default=sa.text("'staging'")),
    sa.Column("protected", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("archived_because", sa.Text),
    # Under which judgement its figures are compared; null: with nothing. See `rows.UNDATED`.
    sa.Column("judgement_key", sa.Text, server_default=sa.text("'undated'")),
    sa.Index("idx_timestamp", "timestamp"),
    sa.Index("idx_mean_reward", "mean_reward"),
    sa.Index("idx_validated", "validated"),
    sa.Index("idx_models_model_path", "model_path"),
    sa.Index("idx_models_sha256", "sha256"),
    sa.Index("idx_models_scope", "env_id", "env_signature", "observation_signature", "action_signature"),
    sqlite_autoincrement=True,
)


def _of_a_model() -> sa.Column[int]:
    return sa.Column("model_id", WholeNumber, sa.ForeignKey("models.id", ondelete="RESTRICT"), nullable=False)


evaluations = sa.Table(
    "rl_model_evaluations",
    metadata,
    _id(),
    _of_a_model(),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("episodes", WholeNumber, nullable=False),
    *columns(Real, "mean_reward", "std_reward", "mean_episode_length", "lower_bound"),
    sa.Column("seed", WholeNumber),
    sa.Column("deterministic", sa.Boolean),
    *columns(sa.Text, "window_start", "window_end"),
    sa.Column("in_sample", sa.Boolean),
    sa.Column("returns", Json),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("metrics", Json, nullable=False),
    # What it was judged on; null where that was not kept.
    sa.Column("judgement", Json),
    # Under which judgement it chooses; null: it is reported and chooses nothing.
    sa.Column("judgement_key", sa.Text),
    sa.Index("ix_rl_model_evaluations_model_id", "model_id"),
    sa.CheckConstraint("source IN ('validation', 'evaluate', 'added')", name="source"),
    sqlite_autoincrement=True,
)

validations = sa.Table(
    "rl_model_validations",
    metadata,
    _id(),
    _of_a_model(),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("profile", sa.Text, nullable=False),
    sa.Column("passed", sa.Boolean, nullable=False),
    *columns(Json, "checks", "evidence", "limits", nullable=False),
    # The newest evaluation that the gates saw. A later one is not judged yet, and the model not validated until it is.
    sa.Column("evaluation_id", WholeNumber),
    sa.Index("ix_rl_model_validations_model_id", "model_id"),
    sqlite_autoincrement=True,
)

promotions = sa.Table(
    "rl_model_promotions",
    metadata,
    _id(),
    _of_a_model(),
    sa.Column("at", UtcTime, nullable=False),
    *columns(sa.Text, "who", "why", "from_status", "to_status", nullable=False),
    sa.Column("alias", sa.Text),
    sa.Column("action", sa.Text, nullable=False),
    sa.Index("ix_rl_model_promotions_model_id", "model_id"),
    sqlite_autoincrement=True,
)

claims = sa.Table(
    "rl_model_claims",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    # The run's newest claim; null once it was removed.
    sa.Column("number", WholeNumber),
)

aliases = sa.Table(
    "rl_model_aliases",
    metadata,
    sa.Column("alias", sa.Text, primary_key=True),
    # The scope's short name: four columns, three of which may be null, make no key.
    sa.Column("scope", sa.Text, primary_key=True),
    _of_a_model(),
    sa.Index("ix_rl_model_aliases_model_id", "model_id"),
)
