"""Which models are kept, and which files the registry holds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, Engine, select

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.engine import lock_table, read, write
from alphaswarm_rl.models import queries
from alphaswarm_rl.models.places import put_away, succession
from alphaswarm_rl.models.rows import ModelRow, PromotionRow, Scope
from alphaswarm_rl.models.tables import aliases, models

_DAY = 86_400


def held(engine: Engine, root: Path) -> set[Path]:
    """Files below a folder that must stay: of models that are best, deployed, aliased, protected or parents.

    Best are of each scope and judgement the first model that passed, and the first of all. A score alone holds no file.
    """
    with read(engine) as connection:
        here = queries.rows(connection, select(models).where(queries.NOT_ARCHIVED, queries.is_below(root)))
        staying: set[int] = set()
        for scope in {model.scope for model in here}:
            existing = queries.listed(connection, queries.clauses(scope=scope), None)
            staying |= _first_ones(existing, _passed(connection, queries.of_scope(scope)))
            staying |= {model.parent_model_id for model in existing if model.parent_model_id is not None}
        staying |= set(_counted_on(connection, here))
        return {model.path for model in here if model.id in staying}


def _first_ones(best_first: Sequence[ModelRow], passed: Collection[int]) -> set[int]:
    """Of each judgement the first model that passed, and the first of all; the models are of one scope."""
    first: dict[tuple[str, bool], int] = {}
    for model in best_first:
        if model.judgement_key is not None and model.mean_reward is not None:
            first.setdefault((model.judgement_key, False), model.id)
            if model.id in passed:
                first.setdefault((model.judgement_key, True), model.id)
    return set(first.values())


def _passed(connection: Connection, *conditions: ColumnElement[bool]) -> set[int]:
    return set(connection.execute(select(models.c.id).where(*conditions, queries.passed_latest())).scalars())


def in_use(engine: Engine, paths: Collection[Path]) -> dict[Path, str]:
    """Those of some files and folders that hold a model which must stay when the others go, and why it must."""
    with read(engine) as connection:
        existing = _existing(connection)
        below = {path: [model.id for model in queries.at(connection, path)] for path in paths}
        used: dict[Path, str] = {}
        while True:
            # A folder that stays keeps all its models, and these their parents in other folders.
            going = {path: ids for path, ids in below.items() if path not in used}
            why = needed(connection, existing, {model_id for ids in going.values() for model_id in ids})
            found = {path: [model_id for model_id in ids if model_id in why] for path, ids in going.items()}
            more = {path: f"model {ids[0]} of it {why[ids[0]]}" for path, ids in found.items() if ids}
            if not more:
                return used
            used |= more


def release(engine: Engine, paths: Mapping[Path, str], *, force: bool) -> list[PromotionRow]:
    """Archives the models of files and folders that are deleted next, all in one transaction, or none.

    Args:
        engine: The database.
        paths: The files and folders, each with the reason.
        force: Whether models go that must stay.

    Raises:
        ModelError: One of them must stay.
    """
    with write(engine) as connection:
        lock_table(connection, models.name)
        going = {model.id: (model, why) for path, why in paths.items() for model in queries.at(connection, path)}
        staying = {} if force else needed(connection, _existing(connection), going)
        if staying:
            reasons = ", ".join(f"model {model_id} {why}" for model_id, why in staying.items())
            raise ModelError("this removal", reasons, "Nothing was removed. See: rl models list.")
        return [put_away(connection, model, who="registry", because=why) for model, why in going.values()]


def needed(connection: Connection, existing: Sequence[ModelRow], going: Collection[int]) -> dict[int, str]:
    """Those of the models that would go which must stay, and why: the one rule of what is counted on.

    Args:
        connection: The transaction.
        existing: Every model that is not archived.
        going: Ids of the models that would go.
    """
    why = _counted_on(connection, [model for model in existing if model.id in going])
    # A model that stays keeps its parent, which keeps its own.
    parents = {model.id: model.parent_model_id for model in existing}
    for model_id in [model.id for model in existing if model.id not in going or model.id in why]:
        child, parent = model_id, parents[model_id]
        while parent is not None and parent in going and parent not in why:
            why[parent] = f"is the parent of model {child}"
            child, parent = parent, parents[parent]
    return why


def _counted_on(connection: Connection, going: Sequence[ModelRow]) -> dict[int, str]:
    """Those of some models that must stay for their own sake, and why."""
    aliased = set(connection.execute(select(aliases.c.model_id)).scalars())
    returned_to: set[int] = set()
    for scope in {model.scope for model in going}:
        line = [model.id for model in succession(connection, scope) if not model.archived]
        returned_to |= set(line[-2:])
    why: dict[int, str] = {}
    for model in going:
        if model.deployment_status == "production":
            why[model.id] = "is in production"
        elif model.protected:
            why[model.id] = "is protected"
        elif model.id in aliased:
            why[model.id] = "has an alias"
        elif model.id in returned_to:
            why[model.id] = "is what a rollback returns to"
    return why


def prune(
    engine: Engine, keep_top_n: int | None, max_age_days: float | None, spared: Collection[str], *, who: str
) -> tuple[list[ModelRow], list[PromotionRow]]:
    """Archives them, in one transaction; gives them as they are then, and the entries of the log."""
    with write(engine) as connection:
        lock_table(connection, models.name)
        going = plan(connection, keep_top_n, max_age_days, spared)
        entries = []
        for model in going:
            assert model.archived_because is not None
            present, because = replace(model, archived_because=None), model.archived_because
            entries.append(put_away(connection, present, who=who, because=because, action="prune"))
        return [queries.get(connection, model.id) for model in going], entries


def plan(
    connection: Connection, keep_top_n: int | None, max_age_days: float | None, spared: Collection[str]
) -> list[ModelRow]:
    """The models that `prune` would archive; `archived_because` says why."""
    _refuse_below_1(keep_top_n=keep_top_n, max_age=max_age_days)
    passed, existing = _passed(connection), _existing(connection)
    going: dict[int, ModelRow] = {}
    for rank, model in _ranked(existing, passed):
        why = _why(model, rank, keep_top_n, max_age_days)
        is_best = rank == 1 and model.id in passed and model.judgement_key is not None
        if why is not None and not is_best and model.run_id not in spared:
            going[model.id] = replace(model, archived_because=why)
    staying = needed(connection, existing, going)
    return [model for model_id, model in going.items() if model_id not in staying]


def _ranked(best_first: Sequence[ModelRow], passed: Collection[int]) -> list[tuple[int, ModelRow]]:
    """The number of each model among those of its scope that it is compared with, by scope.

    Models that passed come first: how high others score says nothing as long as the gates do not believe it. Those
    whose scores are compared with nothing come after the longest line of their scope.
    """
    ranked: list[tuple[int, ModelRow]] = []
    by_scope: dict[Scope, list[ModelRow]] = {}
    for model in sorted(best_first, key=lambda model: model.id not in passed):
        by_scope.setdefault(model.scope, []).append(model)
    for group in by_scope.values():
        lines: Counter[str] = Counter()
        others: list[ModelRow] = []
        for model in group:
            if model.judgement_key is None or model.mean_reward is None:
                others.append(model)
            else:
                lines[model.judgement_key] += 1
                ranked.append((lines[model.judgement_key], model))
        ranked += enumerate(others, start=max(lines.values(), default=0) + 1)
    return ranked


def _refuse_below_1(**limits: float | None) -> None:
    for name, value in limits.items():
        if value is not None and value < 1:
            raise ModelError(f"{name} {value}", "it is below 1", "Give 1 or more, or nothing.")


def _existing(connection: Connection) -> list[ModelRow]:
    """Every model that is not archived; of those that were judged alike the best first."""
    return queries.listed(connection, queries.clauses(), None)


def _why(model: ModelRow, rank: int, keep_top_n: int | None, max_age_days: float | None) -> str | None:
    if keep_top_n is not None and rank > keep_top_n:
        return f"it is number {rank} of those it is compared with, and {keep_top_n} are kept"
    age = (time.time() - model.timestamp) / _DAY
    if max_age_days is not None and age > max_age_days:
        return f"it is {age:.0f} days old, and {max_age_days:g} is the most"
    return None
