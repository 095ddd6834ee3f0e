"""From a model's row to its policy: the checkpoint is verified and compared with the row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.policy import LoadedPolicy
from alphaswarm_rl.models.artefacts import verified_sha256
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow, Scope
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    import pandas as pd


def load_model(row: ModelRow, settings: Settings, *, frames: Mapping[str, pd.DataFrame] | None = None) -> LoadedPolicy:
    """The policy of a registered model; one whose file is not what its row says is refused.

    Args:
        row: The model.
        settings: The device, and where data lie.
        frames: Data frames for the data pipeline `frame`, by name.
    """
    if row.sha256 is None:
        raise ModelError(
            f"model {row.id}",
            "no checksum was registered, so nobody can say whether its file was changed",
            f"Register it anew: rl models add {row.model_path} METRICS_JSON.",
        )
    verified_sha256(row.path, row.sha256)
    if not row.path.is_dir():
        raise ModelError(
            f"model {row.id}",
            f"{row.model_path} is no checkpoint folder, and nothing else is ever loaded",
            "Import its weights: rl models add PATH METRICS --spec SPEC.",
        )
    loaded = load_checkpoint(row.path, expected_sha256=row.sha256)
    agent = loaded.trained_spec.agent
    assert agent is not None
    if agent.name != row.algorithm.lower():
        raise ModelError(
            f"model {row.id}",
            f"its row says that it is of {row.algorithm!r}, and its checkpoint is of {agent.name!r}",
            "Register the checkpoint anew: rl models add PATH METRICS.",
        )
    policy = LoadedPolicy(loaded, settings, frames=frames)
    differing = _differing(policy.scope, row.scope)
    if differing:
        policy.close()
        raise ModelError(
            f"model {row.id}",
            f"it is of another {' and '.join(differing)} than its row says",
            "Register the checkpoint anew: rl models add PATH METRICS.",
        )
    return policy


def _differing(found: Scope, registered: Scope) -> list[str]:
    """What a row says otherwise; a row of an older file may say nothing."""
    names = {
        "env_id": "environment",
        "env_signature": "environment's configuration",
        "observation_signature": "observation space",
        "action_signature": "action space",
    }
    return [
        text
        for name, text in names.items()
        if getattr(registered, name) is not None and getattr(registered, name) != getattr(found, name)
    ]


def model_by_id(registry: ModelRegistry, model_id: int, *, unvalidated: bool, scope: Scope | None = None) -> ModelRow:
    """The model of that id, if it may be loaded.

    Args:
        registry: Where it is.
        model_id: Its id.
        unvalidated: Whether one that did not pass its latest validation may be loaded too.
        scope: What it must be of; None: anything.
    """
    row = registry.get(model_id)
    if row.archived:
        raise ModelError(
            f"model {model_id}", f"it is archived: {row.archived_because}", "Use another model: rl models list."
        )
    if scope is not None and row.scope != scope:
        raise ModelError(
            f"model {model_id}",
            f"it is of the environment and spaces {row.scope}, not of {scope}",
            "Use a model of that scope: rl models list.",
        )
    if not unvalidated:
        refuse_unvalidated(registry, row)
    return row


def refuse_unvalidated(registry: ModelRegistry, row: ModelRow) -> None:
    """Refuses a model that did not pass its latest validation."""
    # The latest validation saw the newest evaluation.
    if row.archived or not registry.has_passed(row.id):
        raise ModelError(
            f"model {row.id}",
            "it has not passed its latest validation",
            f"See why: rl models show {row.id}. To load it all the same, name it by its id with --unvalidated.",
        )
