"""`rl models list`, `show`, `best` and `history`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns, pairs
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import ModelError

if TYPE_CHECKING:
    from alphaswarm_rl.models import EvaluationRow, ModelRow, PromotionRow, ValidationRow

_ELSEWHERE = ("env_signature", "observation_signature", "action_signature", "validated", "timestamp", "hyperparams")


def _choosing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose among models."""
    for option in (
        click.option("--scope", metavar="SCOPE", help="Only models of that scope, or of a beginning of its name."),
        click.option("--tag", metavar="TAG", help="Only models with that tag."),
        click.option("--algorithm", metavar="ALIAS", help="Only models of that agent."),
        click.option("--env", "env_id", metavar="ID", help="Only models of that environment."),
    ):
        function = option(function)
    return function


@verb("models.list")
@click.option("--validated", is_flag=True, help="Only models whose newest validation passed.")
@click.option("--top-n", type=click.IntRange(min=1), metavar="N", help="At most that many.")
@_choosing
@click.option("--min-mean-reward", type=float, metavar="X", help="Only models with that mean reward or more.")
@click.option("--all", "archived", is_flag=True, help="Archived ones too.")
def list_models(
    session: Session,
    validated: bool,
    top_n: int | None,
    env_id: str | None,
    algorithm: str | None,
    tag: str | None,
    scope: str | None,
    min_mean_reward: float | None,
    archived: bool,
) -> None:
    """List models, the best first.

    Args:
        session: This call.
        validated: Only those whose newest validation passed.
        top_n: At most that many.
        env_id: Only of that environment.
        algorithm: Only of that agent.
        tag: Only with that tag.
        scope: Only of that scope.
        min_mean_reward: Only with that mean reward or more.
        archived: Whether archived ones are listed too.
    """
    from alphaswarm_rl.models import ModelRegistry

    file = session.settings.registry_file
    if file is not None and not file.exists():
        session.answer([], [f"there is no model registry at {file} yet"])
        return
    with ModelRegistry.open(session.settings) as registry:
        found = registry.list(
            validated=True if validated else None,
            top_n=top_n,
            env_id=env_id,
            algorithm=algorithm,
            tag=tag,
            min_mean_reward=min_mean_reward,
            scope=None if scope is None else registry.scope(scope),
            archived=archived,
        )
        aliases = registry.all_aliases()
    document = [{**described(row), "aliases": aliases.get(row.id, [])} for row in found]
    session.answer(document, _table(found, aliases) if found else ["there are no such models"])


@verb("models.show")
@click.argument("model", metavar="ID", type=int)
def show(session: Session, model: int) -> None:
    """Show everything about one model.

    Args:
        session: This call.
        model: The model's id.
    """
    from alphaswarm_rl.models import ModelRegistry

    with ModelRegistry.open(session.settings, make=False) as registry:
        row = registry.get(model)
        aliases, evaluations, validations = (
            registry.aliases(model),
            registry.evaluations(model),
            registry.validations(model),
        )
    document = {
        "model": described(row),
        "aliases": aliases,
        "evaluation": evaluations[-1].as_dict() if evaluations else None,
        "validation": validations[-1].as_dict() if validations else None,
    }
    lines = _lines(row, aliases)
    if validations:
        lines += ["", *verdicts(validations[-1])]
    session.answer(document, lines)


@verb("models.best")
@_choosing
def best(session: Session, env_id: str | None, algorithm: str | None, tag: str | None, scope: str | None) -> None:
    """Show the best model that passed its newest validation.

    The best has the highest lower bound of its mean reward; of equal ones the newest. Models of several scopes are not
    compared.

    Args:
        session: This call.
        env_id: Only of that environment.
        algorithm: Only of that agent.
        tag: Only with that tag.
        scope: Only of that scope.
    """
    from alphaswarm_rl.models import ModelRegistry

    with ModelRegistry.open(session.settings, make=False) as registry:
        wanted = None if scope is None else registry.scope(scope)
        found = registry.best(wanted, env_id=env_id, algorithm=algorithm, tag=tag)
        if found is None:
            raise ModelError(
                "the best model",
                "no such model has passed its newest validation",
                "See: rl models list. Judge one: rl models validate ID.",
            )
        aliases = registry.aliases(found.id)
    session.answer(described(found), _lines(found, aliases))


@verb("models.history")
@click.argument("model", metavar="ID", type=int)
def history(session: Session, model: int) -> None:
    """Show a model's evaluations, validations and promotions.

    Args:
        session: This call.
        model: The model's id.
    """
    from alphaswarm_rl.models import ModelRegistry

    with ModelRegistry.open(session.settings, make=False) as registry:
        evaluations = registry.evaluations(model)
        validations = registry.validations(model)
        promotions = registry.promotions(model)
    document = {
        "model_id": model,
        "evaluations": [row.as_dict() for row in evaluations],
        "validations": [row.as_dict() for row in validations],
        "promotions": [row.as_dict() for row in promotions],
    }
    lines = [
        *_titled("evaluations", _evaluations(evaluations)),
        *(line for row in validations for line in _titled(f"validation of {row.at:%Y-%m-%d %H:%M:%S}", verdicts(row))),
        *_titled("promotions", _promotions(promotions)),
    ]
    session.answer(document, lines or ["nothing has happened to it yet"])


def described(row: ModelRow) -> dict[str, Any]:
    """A model for JSON, with the short name of its scope."""
    return {**row.as_dict(), "scope": row.scope.short}


def verdicts(row: ValidationRow) -> list[str]:
    """What the gates said."""
    word = "passed" if row.passed else "did not pass"
    table = columns(
        ("GATE", "", "REASON"), [(check.gate, "pass" if check.passed else "FAIL", check.reason) for check in row.checks]
    )
    return [f"model {row.model_id} {word} the gates of profile {row.profile!r}", *table]


def _table(rows: Sequence[ModelRow], aliases: Mapping[int, Sequence[str]]) -> list[str]:
    numbers = ("STEPS", "LOWER BOUND", "MEAN", "STD", "EPISODES")
    return columns(
        ("ID", "ENV", "ALGORITHM", *numbers, "VALIDATED", "STATUS", "ALIASES", "SCOPE"),
        [
            (
                row.id,
                row.env_id,
                row.algorithm,
                row.total_timesteps,
                row.lower_bound,
                row.mean_reward,
                row.std_reward,
                row.eval_episodes,
                row.validated,
                f"{row.deployment_status}{', protected' if row.protected else ''}",
                ", ".join(aliases.get(row.id, ())) or None,
                row.scope.short,
            )
            for row in rows
        ],
    )


def _lines(row: ModelRow, aliases: Sequence[str]) -> list[str]:
    known = {name: value for name, value in vars(row).items() if name not in _ELSEWHERE}
    made = datetime.fromtimestamp(row.timestamp, UTC)
    return pairs(
        {**known, "validated": row.validated, "registered": made, "scope": row.scope.short, "aliases": aliases}
    )


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *lines, ""] if lines else []


def _evaluations(rows: Sequence[EvaluationRow]) -> list[str]:
    if not rows:
        return []
    titles = ("AT", "SOURCE", "EPISODES", "MEAN", "STD", "LOWER BOUND", "SEED", "WINDOW", "IN SAMPLE")
    return columns(
        titles,
        [
            (
                row.at,
                row.source,
                row.episodes,
                row.mean_reward,
                row.std_reward,
                row.lower_bound,
                row.seed,
                None if row.window_start is None else f"{row.window_start} to {row.window_end}",
                row.in_sample,
            )
            for row in rows
        ],
    )


def _promotions(rows: Sequence[PromotionRow]) -> list[str]:
    if not rows:
        return []
    return columns(
        ("AT", "WHO", "ACTION", "FROM", "TO", "ALIAS", "WHY"),
        [(row.at, row.who, row.action, row.from_status, row.to_status, row.alias, row.why) for row in rows],
    )
