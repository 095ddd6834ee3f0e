"""Models from elsewhere: a checkpoint folder, or a zip of Stable-Baselines3, with the metrics that its owner gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Self

from pydantic import Field, FiniteFloat, model_validator

from alphaswarm_rl.agents.sb3.algorithms import SB3Adapter
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.hashing import sha256_text
from alphaswarm_rl.core.model import FrozenModel
from alphaswarm_rl.core.slots import WINDOW
from alphaswarm_rl.inference.builder import Builder, lake_of
from alphaswarm_rl.inference.checkpoints import ADDED, CheckpointStore, load_checkpoint
from alphaswarm_rl.inference.policy import LoadedPolicy
from alphaswarm_rl.inference.process import process_lock
from alphaswarm_rl.inference.selection import sha256_of_folder, trainer_of
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.artefacts import file_sha256
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import DATED, ModelRow, NewEvaluation, NewModel
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, refuse_absent
from alphaswarm_rl.statistics.samples import mean_of

#: How far a mean may be from that of the returns which it is said to be the mean of.
_ROUNDING = 1e-6


class GivenWindow(FrozenModel):
    """The dates that an evaluation played."""

    start: str | None = Field(None, description="First date.")
    end: str | None = Field(None, description="Last date.")


class GivenMetrics(FrozenModel):
    """What the owner of a model says that an evaluation of it found."""

    mean_reward: FiniteFloat = Field(description="Mean of the episodes' returns.")
    std_reward: FiniteFloat = Field(ge=0, description="Standard deviation of the returns, that of a population.")
    episodes: int = Field(ge=1, description="How many episodes there were.")
    mean_episode_length: FiniteFloat = Field(gt=0, description="Mean of the episodes' lengths.")
    total_timesteps: int = Field(ge=0, description="Transitions that the model learnt from.")
    returns: list[FiniteFloat] | None = Field(None, description="The return of each episode.")
    seed: int | None = Field(None, description="Seed of the episodes.")
    window: GivenWindow = Field(default_factory=GivenWindow, description="The dates that were played.")

    @model_validator(mode="after")
    def _returns_agree(self) -> Self:
        if self.returns is None:
            return self
        if len(self.returns) != self.episodes:
            raise ValueError(f"{len(self.returns)} returns are not those of {self.episodes} episodes")
        mean = mean_of(self.returns)
        if mean is None:
            raise ValueError("the returns are too large to be added up")
        if not math.isclose(mean, self.mean_reward, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
            raise ValueError(f"mean_reward is {self.mean_reward}, and the mean of the returns is {mean}")
        return self


def add_model(
    registry: ModelRegistry,
    settings: Settings,
    path: Path,
    metrics: GivenMetrics,
    *,
    spec: RLExperimentSpec | None = None,
    tags: Sequence[str] = (),
    parent_model_id: int | None = None,
) -> ModelRow:
    """Registers a model from elsewhere, not validated yet, with an evaluation of the source `added`.

    It is loaded and asked for an action first: what cannot answer is no model.

    Args:
        registry: Where it is registered.
        settings: Where checkpoints lie.
        path: A checkpoint folder, which stays where it is; or a zip of Stable-Baselines3, whose weights are copied
            into a checkpoint of our own.
        metrics: What its owner says of it.
        spec: The spec of the agent and environment that a zip is of; a checkpoint folder has its own.
        tags: Words to find it by; a model that is there already gets them too.
        parent_model_id: The model that it was trained on from, of the same scope.
    """
    with process_lock:
        with Ledger.open(settings) as ledger:  # first: a home adopts its ledger before it has a model
            path = _checkpoint_folder(path.expanduser().absolute(), spec, settings, timesteps=metrics.total_timesteps)
            run = trainer_of(ledger, path)
            loaded = load_checkpoint(path, expected_sha256=sha256_of_folder(ledger, path))
        if loaded.checkpoint.timesteps != metrics.total_timesteps:
            raise ModelError(
                f"model {str(path)!r}",
                f"it learnt from {loaded.checkpoint.timesteps} transitions, and the metrics say "
                f"{metrics.total_timesteps}",
                "Give the metrics of this model.",
            )
        with closing(LoadedPolicy(loaded, settings)) as policy:
            policy.warm_up()
            scope, trained = policy.scope, policy.spec
    assert trained.agent is not None
    assert trained.env is not None
    row = registry.register(
        NewModel(
            model_path=path,
            algorithm=trained.agent.name,
            scope=scope,
            total_timesteps=loaded.checkpoint.timesteps,
            sha256=loaded.checkpoint.sha256,
            hyperparams=trained.agent.kwargs,
            git_commit=None if run is None else run.code_fingerprint.get("git_commit"),
            run_id=None if run is None else run.id,
            spec_hash=trained.spec_hash,
            exec_hash=trained.exec_hash,
            tags=tags,
            parent_model_id=parent_model_id,
        )
    )
    # Whether it plays in a window of dates, or makes its own episodes.
    registry.add_evaluation(row.id, _evaluation(metrics, dated=WINDOW in trained.env.build().slots()))
    return registry.get(row.id)


def _checkpoint_folder(path: Path, spec: RLExperimentSpec | None, settings: Settings, *, timesteps: int) -> Path:
    """The folder itself, or the one that a zip is imported into."""
    try:
        exists = checked_path(path).exists()
    except (ValueError, OSError) as error:
        raise ModelError(f"model {str(path)!r:.200}", str(error), "Give a checkpoint folder or a zip.") from error
    if not exists:
        raise ModelError(f"model {str(path)!r}", "it is not there", "Give a checkpoint folder or a zip.")
    if path.is_dir():
        if spec is not None:
            raise ModelError(f"model {str(path)!r}", "a checkpoint has its own spec", "Leave --spec out.")
        return path
    if spec is None:
        raise ModelError(
            f"model {str(path)!r}", "a zip does not say what it is of in a way that can be trusted", "Add --spec."
        )
    return import_zip(path, spec, settings, timesteps=timesteps)


def _evaluation(metrics: GivenMetrics, *, dated: bool) -> NewEvaluation:
    return NewEvaluation(
        episodes=metrics.episodes,
        mean_reward=metrics.mean_reward,
        std_reward=metrics.std_reward,
        mean_episode_length=metrics.mean_episode_length,
        seed=metrics.seed,
        deterministic=None,
        window_start=metrics.window.start,
        window_end=metrics.window.end,
        in_sample=None,
        returns=metrics.returns,
        source="added",
        metrics={DATED: dated},
    )


def import_zip(path: Path, spec: RLExperimentSpec, settings: Settings, *, timesteps: int) -> Path:
    """Writes a checkpoint with the weights of a zip of Stable-Baselines3; nothing in the zip is run.

    Args:
        path: The zip.
        spec: The agent and the environment that it is of; the agent is built anew from it.
        settings: Where checkpoints lie.
        timesteps: Transitions that the weights were trained by.
    """
    refuse_absent(spec)
    builder = Builder(spec, seed=spec.seed, device="cpu", root=settings.data_path, lake=lake_of(settings))
    if not isinstance(builder.agent, SB3Adapter):
        raise ModelError(
            f"spec {spec.name!r}",
            f"its agent {builder.agent.rl_alias!r} is none of Stable-Baselines3",
            "Name the agent that the zip is of: rl components list --kind agent.",
        )
    if spec.obs.normalize != "none":
        raise ModelError(
            f"spec {spec.name!r}",
            f"it has obs.normalize: {spec.obs.normalize}, and a zip holds no statistics of observations",
            "Write obs.normalize: none.",
        )

    from alphaswarm_rl.agents.sb3.learner import SB3Learner
    from alphaswarm_rl.agents.sb3.zip_file import state_from_zip

    with closing(builder.build_env("infer", num_envs=1, phase="evaluate", window=spec.evaluation.window)) as env:
        learner = builder.build_learner(env, training=False)
        assert isinstance(learner, SB3Learner)
        states = {"learner": state_from_zip(path, learner, timesteps=timesteps)}
        plan = builder.policy_plan(env, spec.evaluation.window, remembers=False)
    if builder.data is not None:
        states["data"] = builder.data.fitted
    # Named by what it is made of: the same zip under the same spec is the same checkpoint.
    name = ADDED + sha256_text(f"{file_sha256(path)} {spec.spec_hash}")[:12]
    store = CheckpointStore(settings.models_path)
    return store.save(name, timesteps, states, spec=spec.as_data(), seed=spec.seed, policy=plan.to_json()).path
