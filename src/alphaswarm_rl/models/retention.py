"""Which models are kept, and which files the registry holds."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, Engine, exists, func, or_, select

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.engine import lock_table, read, write
from alphaswarm_rl.models import queries
from alphaswarm_rl.models.places import put_away, succession
from alphaswarm_rl.models.rows import ModelRow, Scope
from alphaswarm_rl.models.tables import aliases, evaluations, models

_DAY = 86_400


def held(engine: Engine, root: Path) -> set[Path]:
    """Files below a folder that must stay: of models that were evaluated, protected, aliased, deployed or parents."""
    below = f"{root.absolute()}/"
    children = models.alias()
    wanted = or_(
        exists().where(evaluations.c.model_id == models.c.id),
        models.c.protected.is_(True),
        exists().where(aliases.c.model_id == models.c.id),
        models.c.deployment_status == "production",
        exists().where(children.c.parent_model_id == models.c.id, children.c.deployment_status != "archived"),
    )
    statement = select(models.c.model_path).where(
        queries.NOT_ARCHIVED, func.substr(models.c.model_path, 1, len(below)) == below, wanted
    )
    with read(engine) as connection:
        return {Path(path) for path in connection.execute(statement).scalars()}


def plan(
    engine: Engine, *, keep_top_n: int | None, max_age_days: float | None, spared: Collection[str] = ()
) -> list[ModelRow]:
    """The models that `prune` would archive; `archived_because` says why."""
    with read(engine) as connection:
        return _plan(connection, keep_top_n, max_age_days, spared)


def prune(
    engine: Engine,
    *,
    keep_top_n: int | None,
    max_age_days: float | None,
    spared: Collection[str] = (),
    who: str,
) -> list[ModelRow]:
    """Archives them, in one transaction, and gives them as they are then; their files are the caller's to delete."""
    with write(engine) as connection:
        lock_table(connection, models.name)
        going = _plan(connection, keep_top_n, max_age_days, spared)
        for model in going:
            assert model.archived_because is not None
            put_away(
                connection,
                replace(model, archived_because=None),
                who=who,
                because=model.archived_because,
                action="prune",
            )
        return [queries.get(connection, model.id) for model in going]


def _plan(
    connection: Connection, keep_top_n: int | None, max_age_days: float | None, spared: Collection[str]
) -> list[ModelRow]:
    for name, value in (("keep_top_n", keep_top_n), ("max_age", max_age_days)):
        if value is not None and value < 1:
            raise ModelError(f"{name} {value}", "it is below 1", "Give 1 or more, or nothing.")
    by_scope: dict[Scope, list[ModelRow]] = {}
    for model in queries.listed(connection, queries.conditions(), None):
        by_scope.setdefault(model.scope, []).append(model)
    everything = [model for its in by_scope.values() for model in its]
    deployed = set(connection.execute(select(aliases.c.model_id)).scalars())
    deployed |= {model_id for scope in by_scope for model_id in succession(connection, scope)[-2:]}
    going: dict[int, ModelRow] = {}
    for models_of_scope in by_scope.values():
        for rank, model in enumerate(models_of_scope, start=1):
            why = _why(model, rank, keep_top_n, max_age_days)
            free = not model.protected and model.deployment_status != "production" and model.id not in deployed
            if why is not None and free and model.run_id not in spared:
                going[model.id] = replace(model, archived_because=why)
    _spare_parents(everything, going)
    return [going[model.id] for model in everything if model.id in going]


def _why(model: ModelRow, rank: int, keep_top_n: int | None, max_age_days: float | None) -> str | None:
    if keep_top_n is not None and rank > keep_top_n:
        return f"it is number {rank} of its scope, and {keep_top_n} are kept"
    age = (time.time() - model.timestamp) / _DAY
    if max_age_days is not None and age > max_age_days:
        return f"it is {age:.0f} days old, and {max_age_days:g} is the most"
    return None


def _spare_parents(everything: list[ModelRow], going: dict[int, ModelRow]) -> None:
    """A model that stays keeps its parent, which keeps its own."""
    parents = {model.id: model.parent_model_id for model in everything}
    for model_id in [model.id for model in everything if model.id not in going]:
        parent = parents[model_id]
        while parent is not None and parent in going:
            del going[parent]
            parent = parents[parent]
