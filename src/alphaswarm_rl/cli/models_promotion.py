"""`rl models promote`, `rollback` and `protect`."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import pairs
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import ModelError

if TYPE_CHECKING:
    from alphaswarm_rl.models import ModelRegistry, PromotionRow, Scope
    from alphaswarm_rl.models.rows import Status

_SCOPE = re.compile(r"[0-9a-f]{4,12}")


def _signed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Who and why, which the log keeps."""
    function = click.option("--who", metavar="NAME", help="Who wants it; default the user of this system.")(function)
    return click.option("--reason", required=True, metavar="WHY", help="Why; kept for good.")(function)


@verb("models.promote")
@click.argument("model", metavar="ID", type=int)
@click.option(
    "--to",
    type=click.Choice(["production", "staging", "archived"]),
    default="production",
    show_default=True,
    help="Its new place.",
)
@click.option("--alias", metavar="NAME", help="A further alias for it; the one in production is champion too.")
@_signed
def promote(session: Session, model: int, to: Status, alias: str | None, reason: str, who: str | None) -> None:
    """Put a model into production, or elsewhere.

    Production needs a newest validation that passed and a file that is the registered one. The production model of the
    same scope goes back to staging, and champion names the new one.

    Args:
        session: This call.
        model: The model's id.
        to: Its new place.
        alias: A further alias for it.
        reason: Why.
        who: Who wants it.
    """
    from alphaswarm_rl.models import ModelRegistry
    from alphaswarm_rl.telemetry.telling import telling

    with telling(session.settings), ModelRegistry.open(session.settings, make=False) as registry:
        _answer(session, registry.promote(model, to=to, who=who or getpass.getuser(), why=reason, alias=alias))


@verb("models.rollback")
@click.argument("where", metavar="[SCOPE|ALIAS]", required=False)
@_signed
def rollback(session: Session, where: str | None, reason: str, who: str | None) -> None:
    """Put the production model before the present one back.

    Its file is verified first. Without SCOPE or ALIAS, of the one scope that has a model in production.

    Args:
        session: This call.
        where: The scope, or an alias of a model of it.
        reason: Why.
        who: Who wants it.
    """
    from alphaswarm_rl.models import ModelRegistry
    from alphaswarm_rl.telemetry.telling import telling

    with telling(session.settings), ModelRegistry.open(session.settings, make=False) as registry:
        _answer(session, registry.rollback(_place(registry, where), who=who or getpass.getuser(), why=reason))


@verb("models.protect")
@click.argument("model", metavar="ID", type=int)
@click.option("--off", is_flag=True, help="Give it free again.")
@_signed
def protect(session: Session, model: int, off: bool, reason: str, who: str | None) -> None:
    """Keep a model from being pruned, or give it free again.

    Args:
        session: This call.
        model: The model's id.
        off: Whether it is given free.
        reason: Why.
        who: Who wants it.
    """
    from alphaswarm_rl.models import ModelRegistry
    from alphaswarm_rl.telemetry.telling import telling

    with telling(session.settings), ModelRegistry.open(session.settings, make=False) as registry:
        _answer(session, registry.protect(model, not off, who=who or getpass.getuser(), why=reason))


def _place(registry: ModelRegistry, where: str | None) -> Scope | str:
    if where is not None:
        # No alias can look like a scope.
        return registry.scope(where) if _SCOPE.fullmatch(where) else where
    live = sorted({row.scope for row in registry.list() if row.deployment_status == "production"}, key=str)
    if len(live) != 1:
        why = "no model is in production" if not live else f"{len(live)} scopes have one: {', '.join(map(str, live))}"
        raise ModelError("the rollback", why, "Name the scope." if live else "Promote one: rl models promote ID.")
    return live[0]


def _answer(session: Session, row: PromotionRow) -> None:
    shown = {"model": row.model_id, "action": row.action, "from": row.from_status, "to": row.to_status}
    session.answer(row.as_dict(), pairs({**shown, "alias": row.alias, "who": row.who, "why": row.why}))
