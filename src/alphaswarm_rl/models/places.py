"""A model's place, and the log of how it came there: what promotion, retention and registration build on."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.models import queries
from alphaswarm_rl.models.rows import ModelRow, PromotionRow, Scope, Status
from alphaswarm_rl.models.tables import aliases, models, promotions

#: The alias of a scope's production model.
CHAMPION = "champion"


def move(
    connection: Connection, model: ModelRow, to: Status, *, who: str, why: str, alias: str | None, action: str
) -> PromotionRow:
    """Gives a model its place, or leaves it there, and logs what was done."""
    if to != model.deployment_status:
        changed = {"deployment_status": to, "archived_because": why if to == "archived" else None}
        connection.execute(update(models).where(models.c.id == model.id).values(changed))
    entry = {
        "model_id": model.id,
        "at": utc_now(),
        "who": who,
        "why": why,
        "from_status": model.deployment_status,
        "to_status": to,
        "alias": alias,
        "action": action,
    }
    return PromotionRow.of(queries.inserted(connection, promotions, entry))


def put_away(
    connection: Connection, model: ModelRow, *, who: str, because: str, action: str = "archive"
) -> PromotionRow:
    """Archives a model: its row stays, its aliases go, and its file may."""
    drop_aliases(connection, model.id)
    return move(connection, model, "archived", who=who, why=because, alias=None, action=action)


def log_of(connection: Connection, model_id: int) -> list[PromotionRow]:
    """The log of a model, the oldest entry first."""
    statement = select(promotions).where(promotions.c.model_id == model_id).order_by(promotions.c.id)
    return [PromotionRow.of(row) for row in connection.execute(statement).mappings()]


def succession(connection: Connection, scope: Scope) -> list[ModelRow]:
    """The models that were promoted to production of a scope and not taken back, the present one last.

    One may have been archived since; a rollback passes over it.
    """
    statement = (
        select(promotions.c.model_id, promotions.c.action, promotions.c.from_status, promotions.c.to_status)
        .join(models, models.c.id == promotions.c.model_id)
        .where(queries.of_scope(scope))
        .order_by(promotions.c.id)
    )
    line: list[int] = []
    for model_id, action, came_from, went_to in connection.execute(statement):
        if action == "rollback":
            # Everything that came after it is taken back.
            line = line[: len(line) - line[::-1].index(model_id)]
        elif went_to == "production" and came_from != "production":
            line.append(model_id)
        elif came_from == "production" and went_to != "production" and action != "step_down":
            line.pop()  # it left by itself, and nobody took its place
    return [queries.get(connection, model_id) for model_id in line]


def point_alias(connection: Connection, alias: str, model: ModelRow, status: Status) -> None:
    """Moves an alias of the model's scope to it; the status is the one that it has then."""
    if alias == CHAMPION and status != "production":
        raise ModelError(
            f"model {model.id}",
            f"{CHAMPION} is the model in production, and it is not",
            f"Promote it: rl models promote {model.id} --reason WHY.",
        )
    scope = model.scope.short
    connection.execute(delete(aliases).where(aliases.c.alias == alias, aliases.c.scope == scope))
    connection.execute(aliases.insert().values(alias=alias, scope=scope, model_id=model.id))


def drop_aliases(connection: Connection, model_id: int, only: str | None = None) -> None:
    """Takes a model's aliases away, or one of them."""
    statement = delete(aliases).where(aliases.c.model_id == model_id)
    connection.execute(statement if only is None else statement.where(aliases.c.alias == only))


def aliases_of_production(connection: Connection, model_id: int) -> list[str]:
    """The aliases that a model got since it came into production, and still has."""
    got: set[str] = set()
    for row in log_of(connection, model_id):
        if row.from_status != "production":
            got.clear()
        if row.to_status == "production" and row.alias is not None:
            got.add(row.alias)
    return [alias for alias in queries.aliases_of(connection, model_id) if alias in got]
