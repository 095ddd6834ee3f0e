"""`rl models load`."""

from __future__ import annotations

from contextlib import closing

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import pairs
from alphaswarm_rl.cli.verb import verb


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
    settings = session.settings

    from alphaswarm_rl.inference.model_loading import load_model, model_by_id
    from alphaswarm_rl.models.registry import ModelRegistry

    with ModelRegistry.open(settings, make=False) as registry:
        row = model_by_id(registry, model_id, unvalidated=unvalidated)
    with closing(load_model(row, settings)) as policy:
        document = {
            "model_id": row.id,
            "algorithm": row.algorithm,
            "env_id": row.env_id,
            "scope": row.scope.short,
            "observation_space": str(policy.observation_space),
            "action_space": str(policy.action_space),
            "remembers": policy.remembers,
            "device": policy.device,
            "checkpoint": row.model_path,
            "sha256": policy.checkpoint.sha256,
            "sample_action": policy.warm_up(),
        }
    session.answer(document, pairs(document))
