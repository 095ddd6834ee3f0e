"""Which model is in production: promotion, rollback, aliases, protection, and the log of all of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, Engine, select, update

from alphaswarm_rl.core.control_characters import refuse_control_characters, refuse_long_reason
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.engine import lock_table, read, write
from alphaswarm_rl.models import queries, ranking
from alphaswarm_rl.models.artefacts import verified_sha256
from alphaswarm_rl.models.places import (
    CHAMPION,
    aliases_of_production,
    drop_aliases,
    move,
    point_alias,
    put_away,
    succession,
)
from alphaswarm_rl.models.rows import STATUSES, UNDATED, ModelRow, PromotionRow, Scope, Status
from alphaswarm_rl.models.tables import models

_ALIAS = re.compile(r"[a-z][a-z0-9_.-]{0,59}")
_LIKE_A_SCOPE = re.compile(r"[0-9a-f]{4,12}")


def promote(
    engine: Engine,
    model_id: int,
    *,
    to: Status,
    who: str,
    why: str,
    alias: str | None = None,
    even_if_worse: bool = False,
) -> PromotionRow:
    """Gives a model another place, and logs it.

    Production needs a newest validation that passed and a file that is the registered one; where there are dates also a
    score on a validation window that does not lie below that of the present production model, judged alike. That one
    goes back to staging, and `champion` moves, in the same transaction.

    Args:
        engine: The database.
        model_id: The model.
        to: Its new place.
        who: Who wants it.
        why: The reason.
        alias: A further alias for it.
        even_if_worse: Whether a score below that of the present production model is accepted.
    """
    _refuse_empty(who, why)
    if to not in STATUSES:
        raise ModelError(f"status {to!r}", "there is no such place", f"Give {', '.join(STATUSES)}.")
    if alias is not None:
        _refuse_alias(alias)
    with read(engine) as connection:
        candidate = queries.get(connection, model_id)
    if to == "production" or (candidate.archived and to != "archived"):
        _verify(candidate)
    with write(engine) as connection:
        lock_table(connection, models.name)
        model = queries.get(connection, model_id)
        if model.deployment_status == to and alias is None:
            raise ModelError(f"model {model_id}", f"it is {_place(to)} already", "Nothing is left to do.")
        if to == "archived":
            _refuse_archiving(model, alias)
            return put_away(connection, model, who=who, because=why, action="promote")
        if to == "production":
            _refuse_unvalidated(connection, model)
            _refuse_unlike(connection, model, even_if_worse=even_if_worse)
        return _give_place(connection, model, to, alias, who=who, why=why)


def _give_place(
    connection: Connection, model: ModelRow, to: Status, alias: str | None, *, who: str, why: str
) -> PromotionRow:
    """Moves a model to staging or production, with the aliases that it has there."""
    if to == "production":
        _step_down(connection, model.scope, who=who, why=f"model {model.id} takes its place: {why}", but=model.id)
    elif model.deployment_status == "production":
        drop_aliases(connection, model.id, only=CHAMPION)
    action = "alias" if model.deployment_status == to else "promote"
    names = [CHAMPION] if to == "production" and action == "promote" else []
    if alias is not None and alias not in names:
        names.append(alias)
    return _named(connection, model, to, names, who, why, action)


def rollback(engine: Engine, where: Scope | str, *, who: str, why: str) -> PromotionRow:
    """Puts the production model before the present one back, after its file was verified.

    The present one goes to staging. Aliases that it got in production go back too. Archived models are passed over.

    Args:
        engine: The database.
        where: The scope, or an alias of a model of it.
        who: Who wants it.
        why: The reason.
    """
    _refuse_empty(who, why)
    with read(engine) as connection:
        scope = where if isinstance(where, Scope) else queries.by_alias(connection, where, None).scope
        present, before = _last_two(connection, scope)
    _verify(before)
    with write(engine) as connection:
        lock_table(connection, models.name)
        if [model.id for model in _last_two(connection, scope)] != [present.id, before.id]:
            raise ModelError(f"the rollback of scope {scope}", "somebody promoted meanwhile", "Look, and try again.")
        _refuse_unvalidated(connection, before)
        names = [alias for alias in aliases_of_production(connection, present.id) if alias != CHAMPION]
        back_to = f"back to model {before.id}: {why}"
        move(connection, present, "staging", who=who, why=back_to, alias=None, action="step_down")
        return _named(connection, before, "production", [CHAMPION, *names], who, why, "rollback")


def set_alias(engine: Engine, model_id: int, alias: str, *, who: str, why: str) -> PromotionRow:
    """Gives a model an alias; the model of the scope that had it loses it."""
    _refuse_empty(who, why)
    _refuse_alias(alias)
    with write(engine) as connection:
        lock_table(connection, models.name)
        model = queries.get(connection, model_id)
        if model.archived:
            raise ModelError(
                f"model {model_id}", "it is archived", "Bring it back first: rl models promote --to staging."
            )
        point_alias(connection, alias, model, model.deployment_status)
        return move(connection, model, model.deployment_status, who=who, why=why, alias=alias, action="alias")


def protect(engine: Engine, model_id: int, on: bool, *, who: str, why: str) -> PromotionRow:
    """Keeps a model from retention, or releases it again."""
    _refuse_empty(who, why)
    with write(engine) as connection:
        lock_table(connection, models.name)
        model = queries.get(connection, model_id)
        connection.execute(update(models).where(models.c.id == model_id).values(protected=on))
        action = "protect" if on else "unprotect"
        return move(connection, model, model.deployment_status, who=who, why=why, alias=None, action=action)


def _named(
    connection: Connection, model: ModelRow, to: Status, names: Sequence[str], who: str, why: str, action: str
) -> PromotionRow:
    """Gives a model its place and its aliases, with an entry of the log for each alias; gives the first entry."""
    for alias in names:
        point_alias(connection, alias, model, to)
    row = move(connection, model, to, who=who, why=why, alias=names[0] if names else None, action=action)
    moved = queries.get(connection, model.id)
    for alias in names[1:]:
        move(connection, moved, to, who=who, why=why, alias=alias, action="alias")
    return row


def _last_two(connection: Connection, scope: Scope) -> tuple[ModelRow, ModelRow]:
    what, remedy = f"the rollback of scope {scope}", "Promote another: rl models promote ID --reason WHY."
    present = _in_production(connection, scope)
    if not present:
        raise ModelError(what, "no model of it is in production", "Promote one: rl models promote ID --reason WHY.")
    before = [model for model in succession(connection, scope) if model.id != present[0].id]
    if not before:
        raise ModelError(what, f"model {present[0].id} is the first in production: there is none before it", remedy)
    usable = [model for model in before if not model.archived]
    if not usable:
        last = before[-1]
        raise ModelError(what, f"model {last.id} before it is archived: {last.archived_because}", remedy)
    return present[0], usable[-1]


def _step_down(connection: Connection, scope: Scope, *, who: str, why: str, but: int) -> None:
    for model in _in_production(connection, scope):
        if model.id != but:
            move(connection, model, "staging", who=who, why=why, alias=None, action="step_down")


def _in_production(connection: Connection, scope: Scope) -> list[ModelRow]:
    live = select(models).where(queries.of_scope(scope), models.c.deployment_status == "production")
    return queries.rows(connection, live)


def _verify(model: ModelRow) -> None:
    if model.sha256 is None:
        raise ModelError(
            f"model {model.id}",
            "no checksum was registered, so nobody can say whether its file was changed",
            f"Add it again: rl models add {model.model_path} METRICS_JSON.",
        )
    verified_sha256(Path(model.model_path), model.sha256)


def _refuse_unvalidated(connection: Connection, model: ModelRow) -> None:
    if not queries.has_passed(connection, model.id):
        raise ModelError(
            f"model {model.id}",
            "its newest validation did not pass, or there is none of its newest evaluation",
            f"See why: rl models history {model.id}. Or: rl models validate {model.id}.",
        )


def _refuse_unlike(connection: Connection, model: ModelRow, *, even_if_worse: bool) -> None:
    """Refuses a model that was not judged on a validation window, or not as the one in production was."""
    if model.judgement_key == UNDATED:
        return
    if model.judgement_key is None:
        raise ModelError(
            f"model {model.id}",
            "it has no score on a validation window, and other scores choose nothing",
            f"Judge it: rl models judge {model.id}.",
        )
    for champion in _in_production(connection, model.scope):
        if champion.id == model.id:
            continue
        better = ranking.better(connection, model, champion)
        if better is None:
            raise ModelError(
                f"model {model.id}",
                f"it and model {champion.id}, which is in production, were never judged alike",
                f"Judge both on its validation window: rl models judge {model.id}.",
            )
        if better == champion.id and not even_if_worse:
            raise ModelError(
                f"model {model.id}",
                f"model {champion.id}, which is in production, has the higher score where both were judged alike",
                "Promote a better one, or this one all the same with --even-if-worse.",
            )


def _refuse_archiving(model: ModelRow, alias: str | None) -> None:
    if alias is not None:
        raise ModelError(f"alias {alias!r}", "an archived model has none", "Leave it out.")
    if model.protected:
        why = "it is protected"
        raise ModelError(
            f"model {model.id}", why, f"Release it first: rl models protect {model.id} --off --reason WHY."
        )


def _refuse_empty(who: str, why: str) -> None:
    refuse_long_reason("the reason of a promotion", why, ModelError)
    for name, value in (("who", who), ("reason", why)):
        if not value.strip():
            raise ModelError(f"the {name} of a promotion", "it is empty", "Say it: it is kept for good.")
        refuse_control_characters(f"the {name} of a promotion", value, ModelError)


def _refuse_alias(alias: str) -> None:
    refuse_control_characters("the alias", alias, ModelError)
    if _ALIAS.fullmatch(alias) is None or _LIKE_A_SCOPE.fullmatch(alias):
        raise ModelError(
            f"alias {alias!r}",
            "it must begin with a small letter, have only small letters, digits and _ . -, and not look like a scope",
            "Use a word such as champion or canary.",
        )


def _place(status: Status) -> str:
    return "archived" if status == "archived" else f"in {status}"
