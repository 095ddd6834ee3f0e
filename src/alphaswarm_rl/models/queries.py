"""Finding models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    Table,
    Text,
    and_,
    case,
    func,
    not_,
    or_,
    select,
    type_coerce,
)

from alphaswarm_rl.core.errors import ModelError, nearest
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.core.wording import CARRIER
from alphaswarm_rl.models.rows import UNDATED, ModelRow, Scope
from alphaswarm_rl.models.tables import aliases, evaluations, models, validations

_SCOPE = (models.c.env_id, models.c.env_signature, models.c.observation_signature, models.c.action_signature)

#: The better of two models of a scope and judgement: by lower bound, of equals the newest; those without one last, by
#: mean reward.
BEST_FIRST = (
    models.c.lower_bound.desc().nulls_last(),
    case((models.c.lower_bound.is_(None), models.c.mean_reward)).desc().nulls_last(),
    models.c.timestamp.desc(),
    models.c.id.desc(),
)
#: Models whose scores are not compared stand apart: those of one judgement together, the judgement of the newest model
#: first; then those whose scores are compared with nothing, the newest first; those without scores last.
_ALIKE_TOGETHER = (
    and_(models.c.lower_bound.is_(None), models.c.mean_reward.is_(None)),
    models.c.judgement_key.is_(None),
    func.max(models.c.id)
    .over(
        partition_by=(
            case((models.c.judgement_key.is_(None), models.c.id)),
            models.c.judgement_key,
            case((models.c.judgement_key != UNDATED, models.c.env_signature)),
        )
    )
    .desc(),
)
NOT_ARCHIVED = models.c.deployment_status != "archived"


def get(connection: Connection, model_id: int) -> ModelRow:
    """The model of that id; an unknown one is a ModelError."""
    found = rows(connection, select(models).where(models.c.id == model_id))
    if not found:
        newest = connection.execute(select(models.c.id).order_by(models.c.id.desc()).limit(3)).scalars().all()
        known = f"The newest are {', '.join(map(str, newest))}." if newest else "There are none yet."
        raise ModelError(f"model {model_id}", "the registry has no such model", f"{known} See: rl models list --all.")
    return found[0]


def find(connection: Connection, sha256: str) -> ModelRow | None:
    """The newest model with that checksum that is not archived."""
    statement = select(models).where(models.c.sha256 == sha256, NOT_ARCHIVED).order_by(models.c.id.desc()).limit(1)
    return next(iter(rows(connection, statement)), None)


def at(connection: Connection, path: Path) -> list[ModelRow]:
    """The models that are not archived whose file is that one, or lies below it; the oldest first."""
    at_path = or_(models.c.model_path == str(path.resolve()), is_below(path))
    return rows(connection, select(models).where(NOT_ARCHIVED, at_path).order_by(models.c.id))


def is_below(root: Path) -> ColumnElement[bool]:
    """Whether a model's file lies below a folder; both are resolved, so the way that leads there does not matter."""
    below = f"{root.resolve()}/"
    return func.substr(models.c.model_path, 1, len(below)) == below


def passed_latest() -> ColumnElement[bool]:
    """Whether the newest validation of a model passed, and saw its newest evaluation.

    The column `validated` alone could have been set by hand.
    """
    evaluated = (
        select(func.max(evaluations.c.id)).where(evaluations.c.model_id == models.c.id).correlate(models)
    ).scalar_subquery()
    newest = (
        select(and_(validations.c.passed.is_(True), validations.c.evaluation_id.is_not_distinct_from(evaluated)))
        .where(validations.c.model_id == models.c.id)
        .order_by(validations.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return and_(models.c.validated.is_(True), newest.is_(True))


def has_passed(connection: Connection, model_id: int) -> bool:
    """Whether the newest validation of a model passed, and saw its newest evaluation."""
    passed = select(models.c.id).where(models.c.id == model_id, passed_latest())
    return connection.execute(passed).scalar_one_or_none() is not None


def of_scope(scope: Scope) -> ColumnElement[bool]:
    """Models of that scope; a signature that is not known is one that is null."""
    values = (scope.env_id, scope.env_signature, scope.observation_signature, scope.action_signature)
    return and_(*(column.is_not_distinct_from(value) for column, value in zip(_SCOPE, values, strict=True)))


class Conditions(TypedDict, total=False):
    """What a model must be; what is left out, or None, is not conditions.

    Attributes:
        validated: Only those whose newest validation passed, or only the others.
        env_id: Only of that environment.
        algorithm: Only of that agent.
        tag: Only with that tag.
        min_mean_reward: Only with that mean reward or more.
        scope: Only of that scope.
        judgement_key: Only those that were judged alike, under that key.
        archived: Whether archived ones are taken too.
    """

    validated: bool | None
    env_id: str | None
    algorithm: str | None
    tag: str | None
    min_mean_reward: float | None
    scope: Scope | None
    judgement_key: str | None
    archived: bool


def clauses(**conditions: Unpack[Conditions]) -> list[ColumnElement[bool]]:
    """The conditions in SQL."""
    found: list[ColumnElement[bool]] = []
    if (validated := conditions.get("validated")) is not None:
        found.append(passed_latest() if validated else not_(passed_latest()))
    if (env_id := conditions.get("env_id")) is not None:
        found.append(models.c.env_id == env_id)
    if (algorithm := conditions.get("algorithm")) is not None:
        found.append(or_(models.c.algorithm == algorithm, _runs_policy(algorithm)))
    if (tag := conditions.get("tag")) is not None:
        found.append(_tagged(tag))
    if (least := conditions.get("min_mean_reward")) is not None:
        found.append(models.c.mean_reward >= least)
    if (scope := conditions.get("scope")) is not None:
        found.append(of_scope(scope))
    if (key := conditions.get("judgement_key")) is not None:
        found.append(models.c.judgement_key == key)
    if not conditions.get("archived", False):
        found.append(NOT_ARCHIVED)
    return found


def _runs_policy(name: str) -> ColumnElement[bool]:
    """Whether a model's agent runs the policy of that name: its parameters are stored without blanks, by name."""
    begins = json.dumps({CARRIER: {"class": name}}, separators=(",", ":"), ensure_ascii=False).rstrip("}")
    return and_(
        models.c.algorithm == CARRIER, type_coerce(models.c.hyperparams, Text).startswith(begins, autoescape=True)
    )


def listed(connection: Connection, conditions: Sequence[ColumnElement[bool]], limit: int | None) -> list[ModelRow]:
    """Models, those of one judgement together and of them the best first."""
    statement = select(models).where(*conditions).order_by(*_ALIKE_TOGETHER, *BEST_FIRST)
    return rows(connection, statement if limit is None else statement.limit(limit))


def scopes(connection: Connection, conditions: Sequence[ColumnElement[bool]] = ()) -> list[Scope]:
    """The scopes of these models, or of all."""
    rows = connection.execute(select(*_SCOPE).where(*conditions).distinct())
    return sorted((Scope(*row) for row in rows), key=lambda scope: (scope.env_id, scope.short))


def scope_named(connection: Connection, short: str) -> Scope:
    """The scope of that short name, or of a unique beginning of it (4 digits or more)."""
    known = scopes(connection)
    found = [scope for scope in known if scope.short == short or (len(short) >= 4 and scope.short.startswith(short))]
    if len(found) != 1:
        why = "no model has it" if not found else "it is the beginning of several"
        raise ModelError(f"scope {short!r}", why, nearest(short, [scope.short for scope in found or known]))
    return found[0]


def refuse_several_scopes(connection: Connection, conditions: Sequence[ColumnElement[bool]]) -> None:
    """Refuses models of more than one scope, which are not compared."""
    found = scopes(connection, conditions)
    if len(found) > 1:
        raise ModelError(
            "the best model",
            f"models of {len(found)} scopes would be compared: {', '.join(map(str, found[:10]))}",
            "Name one scope: --scope SCOPE.",
        )


def by_alias(connection: Connection, alias: str, scope: Scope | None) -> ModelRow:
    """The model that an alias names; one that names models of several scopes needs the scope."""
    statement = select(models).join(aliases, aliases.c.model_id == models.c.id).where(aliases.c.alias == alias)
    if scope is not None:
        statement = statement.where(aliases.c.scope == scope.short)
    found = rows(connection, statement)
    if not found:
        known = connection.execute(select(aliases.c.alias).distinct()).scalars().all()
        where = "" if scope is None else f" in scope {scope}"
        raise ModelError(f"alias {alias!r}", f"no model has it{where}", nearest(alias, known))
    if len(found) > 1:
        named = ", ".join(str(row.scope) for row in found[:10])
        raise ModelError(f"alias {alias!r}", f"models of several scopes have it: {named}", "Name one scope.")
    return found[0]


def all_aliases(connection: Connection) -> dict[int, list[str]]:
    """The aliases of every model that has one."""
    found: dict[int, list[str]] = {}
    for row in connection.execute(select(aliases.c.model_id, aliases.c.alias).order_by(aliases.c.alias)):
        found.setdefault(row.model_id, []).append(row.alias)
    return found


def aliases_of(connection: Connection, model_id: int) -> list[str]:
    """The aliases of a model."""
    statement = select(aliases.c.alias).where(aliases.c.model_id == model_id).order_by(aliases.c.alias)
    return list(connection.execute(statement).scalars())


def rows(connection: Connection, statement: Select[Any]) -> list[ModelRow]:
    """The models that a query of all columns gives."""
    # The driver's own rows: ten thousand of SQLAlchemy's cost a fifth of the time that a list may take.
    cursor = connection.execute(statement).cursor
    assert cursor is not None
    return [ModelRow.from_columns(row) for row in cursor.fetchall()]


def inserted(connection: Connection, table: Table, values: JsonMapping) -> RowMapping:
    """Inserts a row, and gives it as it is stored."""
    added = connection.execute(table.insert().values(values))
    assert added.inserted_primary_key is not None
    return connection.execute(select(table).where(table.c.id == added.inserted_primary_key[0])).mappings().one()


def _tagged(tag: str) -> ColumnElement[bool]:
    # Tags are a JSON list of texts that hold no comma and no quotation mark, so a quoted one is found as it stands.
    # LIKE would not do: SQLite's takes capitals for small letters.
    return func.replace(models.c.tags, f'"{tag}"', "") != models.c.tags
