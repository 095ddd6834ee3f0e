"""The model registry's tables. The migrations make them; a test compares the two."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    false,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

from alphaswarm_rl.db.database import new_metadata
from alphaswarm_rl.db.types import Json, Number, UtcTime, Whole, finite


class WholeNumber(Whole):
    """A whole number: INTEGER in SQLite, as the original table has it, and 64 bits everywhere."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """What the column is called in a database."""
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else BigInteger())


class Real(Number):
    """A float: REAL in SQLite, as the original table has it, and 64 bits everywhere."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """What the column is called in a database."""
        return dialect.type_descriptor(REAL() if dialect.name == "sqlite" else Double())


class JsonText(TypeDecorator[Any]):
    """A JSON document in a TEXT column, as the original table has it. It is read as text: `ModelRow` parses it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:
        """Writes the document without blanks, floats that are not finite as null."""
        if value is None:
            return None
        return json.dumps(finite(value), ensure_ascii=False, separators=(",", ":"), sort_keys=isinstance(value, dict))


metadata = new_metadata()


def _id() -> Column[int]:
    return Column("id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True)


models = Table(
    "models",
    metadata,
    _id(),
    Column("model_path", Text, nullable=False),
    Column("algorithm", Text, nullable=False),
    Column("env_id", Text, nullable=False),
    # Seconds since 1970.
    Column("timestamp", WholeNumber, nullable=False),
    Column("total_timesteps", WholeNumber),
    Column("mean_reward", Real),
    Column("std_reward", Real),
    Column("mean_episode_length", Real),
    Column("hyperparams", JsonText),
    Column("git_commit", Text),
    # Set with every validation, to what it found; an evaluation takes it away until the next one.
    Column("validated", Boolean, server_default=false()),
    # From here on: ours. Every column is null or has a default, so that it can be added to a table with rows, and so
    # that whoever inserts by the original columns still can.
    Column("run_id", Text),
    Column("spec_hash", Text),
    Column("exec_hash", Text),
    Column("sha256", Text),
    Column("env_signature", Text),
    Column("observation_signature", Text),
    Column("action_signature", Text),
    Column("eval_episodes", WholeNumber),
    Column("eval_seed", WholeNumber),
    Column("eval_window_start", Text),
    Column("eval_window_end", Text),
    Column("lower_bound", Real),
    Column("tags", JsonText, nullable=False, server_default=text("'[]'")),
    Column("parent_model_id", WholeNumber),
    Column("deployment_status", Text, nullable=False, server_default=text("'staging'")),
    Column("protected", Boolean, nullable=False, server_default=false()),
    Column("archived_because", Text),
    Index("idx_timestamp", "timestamp"),
    Index("idx_mean_reward", "mean_reward"),
    Index("idx_validated", "validated"),
    Index("idx_models_model_path", "model_path"),
    Index("idx_models_sha256", "sha256"),
    Index("idx_models_scope", "env_id", "env_signature", "observation_signature", "action_signature"),
    sqlite_autoincrement=True,
)


def _of_a_model() -> Column[int]:
    return Column("model_id", WholeNumber, ForeignKey("models.id", ondelete="RESTRICT"), nullable=False)


evaluations = Table(
    "rl_model_evaluations",
    metadata,
    _id(),
    _of_a_model(),
    Column("at", UtcTime, nullable=False),
    Column("episodes", WholeNumber, nullable=False),
    Column("mean_reward", Real),
    Column("std_reward", Real),
    Column("mean_episode_length", Real),
    Column("lower_bound", Real),
    Column("seed", WholeNumber),
    Column("deterministic", Boolean),
    Column("window_start", Text),
    Column("window_end", Text),
    Column("in_sample", Boolean),
    Column("returns", Json),
    Column("source", Text, nullable=False),
    Column("run_id", Text),
    Column("metrics", Json, nullable=False),
    Index("ix_rl_model_evaluations_model_id", "model_id"),
    CheckConstraint("source IN ('validation', 'evaluate', 'added')", name="source"),
    sqlite_autoincrement=True,
)

validations = Table(
    "rl_model_validations",
    metadata,
    _id(),
    _of_a_model(),
    Column("at", UtcTime, nullable=False),
    Column("profile", Text, nullable=False),
    Column("passed", Boolean, nullable=False),
    Column("checks", Json, nullable=False),
    Column("evidence", Json, nullable=False),
    Column("limits", Json, nullable=False),
    # The newest evaluation that the gates saw. A later one is not judged yet, and the model not validated until it is.
    Column("evaluation_id", WholeNumber),
    Index("ix_rl_model_validations_model_id", "model_id"),
    sqlite_autoincrement=True,
)

promotions = Table(
    "rl_model_promotions",
    metadata,
    _id(),
    _of_a_model(),
    Column("at", UtcTime, nullable=False),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("from_status", Text, nullable=False),
    Column("to_status", Text, nullable=False),
    Column("alias", Text),
    Column("action", Text, nullable=False),
    Index("ix_rl_model_promotions_model_id", "model_id"),
    sqlite_autoincrement=True,
)

aliases = Table(
    "rl_model_aliases",
    metadata,
    Column("alias", Text, primary_key=True),
    # The scope's short name: four columns, three of which may be null, make no key.
    Column("scope", Text, primary_key=True),
    _of_a_model(),
    Index("ix_rl_model_aliases_model_id", "model_id"),
)
