"""Models, evaluations and files for the tests of the registry."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from alphaswarm_rl.models import ModelRegistry, ModelRow, NewEvaluation, NewModel, Scope, verified_sha256
from alphaswarm_rl.settings import LedgerSettings, Settings

CARTPOLE = Scope("CartPole-v1", "env", "Box(4)", "Discrete(2)")
PENDULUM = Scope("Pendulum-v1", "env", "Box(3)", "Box(1)")
ME = {"who": "tester", "why": "because"}


def settings_at(url: str, home: Path, **more: Any) -> Settings:
    """Settings whose registry is in the ledger's database."""
    return Settings(home=home, ledger=LedgerSettings(url=url), **more)


def checkpoint(folder: Path, content: str = "weights") -> Path:
    """A folder like a checkpoint: a manifest that lists a file by its checksum."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.safetensors").write_text(content)
    digest = hashlib.sha256(content.encode()).hexdigest()
    (folder / "checkpoint.json").write_text(json.dumps({"files": {"state.safetensors": digest}}))
    return folder


def new_model(folder: Path, scope: Scope = CARTPOLE, **fields: Any) -> NewModel:
    """A model whose checkpoint is made now, with the folder's name as its content."""
    path = checkpoint(folder, folder.name)
    given = {"algorithm": "ppo", "total_timesteps": 1000, "hyperparams": {"gamma": 0.99}, **fields}
    return NewModel(model_path=path, scope=scope, sha256=verified_sha256(path, None), **given)


def evaluation(mean: float | None = 100.0, std: float | None = 5.0, **fields: Any) -> NewEvaluation:
    """Ten episodes of an environment without dates."""
    given: dict[str, Any] = {
        "episodes": 10,
        "mean_episode_length": 20.0,
        "seed": 7,
        "deterministic": True,
        "window_start": None,
        "window_end": None,
        "in_sample": None,
        "returns": None,
        "source": "evaluate",
        "metrics": {"updates": 40, "actions_vary": True},
        **fields,
    }
    return NewEvaluation(mean_reward=mean, std_reward=std, **given)


def add(
    registry: ModelRegistry,
    folder: Path,
    mean: float | None = 100.0,
    *,
    scope: Scope = CARTPOLE,
    std: float = 5.0,
    validate: bool = True,
    **fields: Any,
) -> ModelRow:
    """A registered model with an evaluation and its validation; with a mean of None it has neither."""
    row = registry.register(new_model(folder, scope, **fields))
    if mean is not None:
        registry.add_evaluation(row.id, evaluation(mean, std))
        if validate:
            registry.validate(row.id)
    return registry.get(row.id)
