"""`rl models prune`."""

from __future__ import annotations

import getpass

import click

from alphaswarm_rl.cli.models_looking import described
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb

_LIVE = ("pending", "running")


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
    from alphaswarm_rl.inference.checkpoints import CheckpointStore
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.models import ModelRegistry
    from alphaswarm_rl.runtime.registered_models import delete_released
    from alphaswarm_rl.telemetry.telling import telling

    settings = session.settings
    keep, age = settings.registry.keep_top_n, settings.registry.max_age
    with telling(settings), Ledger.open(settings) as ledger, ModelRegistry.open(settings, make=False) as registry:
        live = [run.id for run in ledger.runs(target="train", limit=None) if run.status in _LIVE]
        if dry_run:
            gone, deleted = registry.plan_prune(keep_top_n=keep, max_age_days=age, spared=live), []
        else:
            gone = registry.prune(keep_top_n=keep, max_age_days=age, spared=live, who=who or getpass.getuser())
            store = CheckpointStore(settings.models_path)
            deleted = delete_released(store, ledger, registry, gone, keep_last=settings.store.keep_last)
    lines = columns(
        ("ID", "ENV", "LOWER BOUND", "MEAN", "WHY"),
        [(row.id, row.env_id, row.lower_bound, row.mean_reward, row.archived_because) for row in gone],
    )
    did = "would archive" if dry_run else "archived"
    files = "" if dry_run else f", deleted {len(deleted)} checkpoints"
    document = {"dry_run": dry_run, "models": [described(row) for row in gone], "deleted": deleted}
    session.answer(document, [*(lines if gone else []), f"{did} {len(gone)} models{files}"])
