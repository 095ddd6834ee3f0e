"""`rl models`: the model registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.lazy import Entry, LazyGroup
from alphaswarm_rl.cli.model_tables import (
    archived_table,
    history_lines,
    judged_lines,
    model_lines,
    model_table,
    verdict_lines,
)
from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import pairs
from alphaswarm_rl.cli.verb import verb

if TYPE_CHECKING:
    from alphaswarm_rl.operations.models import PromotionRow

ENTRIES = {
    "list": Entry("models:list_models", "List models, the best first."),
    "show": Entry("models:show", "Show everything about one model."),
    "best": Entry("models:best", "Show the best model that passed its newest validation."),
    "history": Entry("models:history", "Show a model's evaluations, validations and promotions."),
    "add": Entry("models:add", "Register a model that was not trained here, with its metrics."),
    "validate": Entry("models:validate", "Put a model through the gates."),
    "judge": Entry("models:judge", "Judge a model beside the one in production, on its validation window."),
    "load": Entry("models:load", "Load a model and say what it is."),
    "promote": Entry("models:promote", "Put a model into production, or elsewhere."),
    "rollback": Entry("models:rollback", "Put the production model before the present one back."),
    "protect": Entry("models:protect", "Keep a model from being pruned, or release it again."),
    "prune": Entry("models:prune", "Archive models that are not worth keeping, and delete their files."),
}

models = LazyGroup("models", ENTRIES, help="Find, judge, promote and prune trained models.")


def _choosing(function: Callable[..., None]) -> Callable[..., None]:
    """The options that choose among models."""
    for option in (
        click.option("--scope", metavar="SCOPE", help="Only models of that scope, or of a beginning of its name."),
        click.option("--tag", metavar="TAG", help="Only models with that tag."),
        click.option("--algorithm", metavar="ALIAS", help="Only models of that agent."),
        click.option("--env", "env_id", metavar="ID", help="Only models of that environment."),
    ):
        function = option(function)
    return function


def _signed(function: Callable[..., None]) -> Callable[..., None]:
    """Who and why, which the log keeps."""
    function = click.option("--who", metavar="NAME", help="Who wants it; default the user of this system.")(function)
    return click.option("--reason", required=True, metavar="WHY", help="Why; kept for good.")(function)


@verb("models.list")
@click.option("--validated", is_flag=True, help="Only models whose newest validation passed.")
@click.option("--top-n", type=click.IntRange(min=1), metavar="N", help="At most that many.")
@_choosing
@click.option("--min-mean-reward", type=float, metavar="X", help="Only models with that mean reward or more.")
@click.option("--all", "archived", is_flag=True, help="Archived ones too.")
def list_models(session: Session, **chosen: Any) -> None:
    """List models, the best first.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.models import ListModels, list_models

    result = list_models(session.settings, ListModels(**chosen))
    none = f"there is no model registry at {result.missing} yet" if result.missing else "there are no such models"
    session.answer(result, model_table(result.models) if result.models else [none])


@verb("models.show")
@click.argument("model", metavar="ID", type=int)
def show(session: Session, model: int) -> None:
    """Show everything about one model.

    Args:
        session: This call.
        model: The model's id.
    """
    from alphaswarm_rl.operations.models import NamedModel, show_model

    result = show_model(session.settings, NamedModel(model))
    verdicts = [] if result.validation is None else ["", *verdict_lines(result.validation)]
    session.answer(result, [*model_lines(result.model), *verdicts])


@verb("models.best")
@_choosing
def best(session: Session, **chosen: Any) -> None:
    """Show the best model that passed its newest validation.

    The best has the highest lower bound of its mean reward; of equal ones the newest. Models of several scopes are not
    compared, nor are scores that were not judged alike. Where there are dates only scores on a validation window
    choose.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.models import FindBest, best_model

    result = best_model(session.settings, FindBest(**chosen))
    session.answer(result, model_lines(result))


@verb("models.history")
@click.argument("model", metavar="ID", type=int)
def history(session: Session, model: int) -> None:
    """Show a model's evaluations, validations and promotions.

    Args:
        session: This call.
        model: The model's id.
    """
    from alphaswarm_rl.operations.models import NamedModel, model_history

    result = model_history(session.settings, NamedModel(model))
    session.answer(result, history_lines(result) or ["nothing has happened to it yet"])


@verb("models.add")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("metrics", metavar="METRICS_JSON")
@click.option("--spec", metavar="SPEC", help="YAML file or preset of the agent that a zip is of.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A word to find it by; may be given again.")
@click.option("--parent", type=int, metavar="ID", help="The model that it was trained on from, of the same scope.")
def add(session: Session, **chosen: Any) -> None:
    """Register a model that was not trained here, with its metrics.

    PATH is a checkpoint folder, or a zip that Stable-Baselines3 saved, whose weights are copied into a checkpoint:
    nothing else of it is read, and nothing in it is run. METRICS_JSON is a file or the JSON itself, with mean_reward,
    std_reward, mean_episode_length and total_timesteps; episodes, returns, seed, window: {start, end}, git_commit and
    timestamp may be there too. What a zip is of is said by --spec, or by algorithm, env_id and hyperparams beside the
    metrics. Without episodes there were as few as can be. The model is not validated yet: rl models validate ID.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.model_lifecycle import AddModel, register_model

    result = register_model(session.settings, AddModel(**chosen))
    row = result.row
    shown = {
        "model": row.id,
        "path": row.model_path,
        "sha256": row.sha256,
        "algorithm": row.algorithm,
        "scope": f"{result.scope} ({row.env_id})",
        "parent": row.parent_model_id,
        "mean_reward": row.mean_reward,
        "lower_bound": row.lower_bound,
        "validated": row.validated,
    }
    session.answer(result, pairs(shown))


@verb("models.validate")
@click.argument("model", metavar="ID", type=int)
@click.option("--dry-run", is_flag=True, help="Only say what the gates say: nothing is stored.")
def validate(session: Session, model: int, dry_run: bool) -> None:
    """Put a model through the gates.

    What each gate said, and what it saw, is kept: a model that does not pass any more is served no more. Ends with exit
    code 1 when the model did not pass.

    Args:
        session: This call.
        model: The model's id.
        dry_run: Whether nothing is stored.
    """
    from alphaswarm_rl.operations.model_lifecycle import ValidateModel, validate_model

    result = validate_model(session.settings, ValidateModel(model, dry_run))
    session.answer(result, verdict_lines(result))
    if not result.passed:
        raise click.exceptions.Exit(BROKEN)


@verb("models.judge")
@click.argument("model", metavar="ID", type=int)
@click.option("--against", type=int, metavar="ID", help="Judge it beside that model; default the one in production.")
@click.option("--strict", is_flag=True, help="Refuse when components changed since a version was stored.")
def judge(session: Session, **chosen: Any) -> None:
    """Judge a model beside the one in production, on its validation window.

    Bars that either model was trained on are left out. Both play the same episodes, each in a run of its own; the
    scores are kept with the models, which can then be compared: by rl models best, by promotion and by servers that
    watch. Without another model it is judged alone.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.model_lifecycle import JudgeModel, judge_model

    result = judge_model(session.settings, JudgeModel(**chosen))
    session.answer(result, judged_lines(result))


@verb("models.load")
@click.argument("model_id", type=int, metavar="ID")
@click.option("--unvalidated", is_flag=True, help="Even when it did not pass its latest validation.")
def load(session: Session, model_id: int, unvalidated: bool) -> None:
    """Load a model and say what it is.

    It is verified, built and asked for an action, as a server would do.

    Args:
        session: This call.
        model_id: The model.
        unvalidated: Whether one that did not pass is loaded too.
    """
    from alphaswarm_rl.operations.model_lifecycle import LoadModel, try_model

    result = try_model(session.settings, LoadModel(model_id, unvalidated))
    session.answer(result, pairs(vars(result)))


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
@click.option("--even-if-worse", is_flag=True, help="Even where the one in production has the higher score.")
@_signed
def promote(session: Session, **chosen: Any) -> None:
    """Put a model into production, or elsewhere.

    Production needs a newest validation that passed and a file that is the registered one. Where there are dates it
    also needs a score on a validation window, and where it and the present production model were judged alike (rl
    models judge ID) not the lower one. The production model of the same scope goes back to staging, and champion names
    the new one.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.model_lifecycle import PromoteModel, promote_model

    _show_change(session, promote_model(session.settings, PromoteModel(**chosen)))


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
    from alphaswarm_rl.operations.model_lifecycle import RollBack, roll_back

    _show_change(session, roll_back(session.settings, RollBack(reason, where, who)))


@verb("models.protect")
@click.argument("model", metavar="ID", type=int)
@click.option("--off", is_flag=True, help="Release it again.")
@_signed
def protect(session: Session, model: int, off: bool, reason: str, who: str | None) -> None:
    """Keep a model from being pruned, or release it again.

    Args:
        session: This call.
        model: The model's id.
        off: Whether it is released.
        reason: Why.
        who: Who wants it.
    """
    from alphaswarm_rl.operations.model_lifecycle import ProtectModel, protect_model

    _show_change(session, protect_model(session.settings, ProtectModel(model, reason, not off, who)))


@verb("models.prune")
@click.option("--dry-run", is_flag=True, help="Only say what would go, and why.")
@click.option("--who", metavar="NAME", help="Who wants it; default the user of this system.")
def prune(session: Session, dry_run: bool, who: str | None) -> None:
    """Archive models that are not worth keeping, and delete their files.

    Of each scope the best stay, if they are not too old; those that passed their newest validation come first. A model
    stays that is the best of its scope, is in production or was before the present one, has an alias, is protected, is
    the parent of one that stays, or whose run still trains. Files go after the rows are archived, and only those that
    no run and no other model needs.

    Args:
        session: This call.
        dry_run: Whether nothing changes.
        who: Who wants it.
    """
    from alphaswarm_rl.operations.model_lifecycle import PruneModels, prune_models

    result = prune_models(session.settings, PruneModels(dry_run, who))
    did = "would archive" if dry_run else "archived"
    files = "" if dry_run else f", deleted {len(result.deleted)} checkpoints"
    session.answer(result, [*archived_table(result.models), f"{did} {len(result.models)} models{files}"])


def _show_change(session: Session, row: PromotionRow) -> None:
    shown = {"model": row.model_id, "action": row.action, "from": row.from_status, "to": row.to_status}
    session.answer(row, pairs({**shown, "alias": row.alias, "who": row.who, "why": row.why}))
