"""`rl models validate`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.models_looking import verdicts
from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import ModelError

if TYPE_CHECKING:
    from alphaswarm_rl.models import ModelRow
    from alphaswarm_rl.settings import Settings

_log = logging.getLogger(__name__)


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
    from alphaswarm_rl.models import ModelRegistry
    from alphaswarm_rl.telemetry.telling import telling

    settings = session.settings
    with telling(settings), ModelRegistry.open(settings, make=False) as registry:
        known = registry.get(model)
        if known.archived:
            raise ModelError(
                f"model {model}", f"it is archived: {known.archived_because}", "Judge another: rl models list."
            )
        row = registry.validate(model, curve=_curve(settings, known), dry_run=dry_run)
        failed = [check.gate for check in row.checks if not check.passed]
        said = f"did not pass {', '.join(failed)}" if failed else "passed"
        # The facts of the event that a validation in a run is.
        facts = {"model_id": model, "passed": row.passed, "profile": row.profile, "failed": failed}
        told = {} if dry_run else {"event": "model.validated", "facts": facts}
        _log.info("model %d: it %s (profile %s)", model, said, row.profile, extra=told)
    session.answer(row.as_dict(), verdicts(row))
    if not row.passed:
        raise click.exceptions.Exit(BROKEN)


def _curve(settings: Settings, model: ModelRow) -> list[tuple[int, float]]:
    """The training curve of the run that trained it; empty where no run did."""
    if model.run_id is None:
        return []
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(settings) as ledger:
        return ledger.training_curve(model.run_id, model.total_timesteps)
