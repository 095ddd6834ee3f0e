"""Models from elsewhere: a checkpoint folder, or a zip of Stable-Baselines3, with the metrics that its owner gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, FiniteFloat, model_validator

from alphaswarm_rl.agents.sb3.algorithms import SB3Adapter
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.hashing import plain_fields, sha256_text
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.core.model import FrozenModel
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.core.slots import WINDOW
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.inference.builder import Builder, lake_of
from alphaswarm_rl.inference.checkpoints import ADDED, CheckpointStore, load_checkpoint
from alphaswarm_rl.inference.policy import LoadedPolicy
from alphaswarm_rl.inference.policy_plan import env_id_of
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


def _from_text(value: object) -> object:
    """JSON text as what it says: registries keep parameters so."""
    if not isinstance(value, str):
        return value
    try:
        return load_json(value)
    except ValueError as error:
        raise ValueError(f"the text is no JSON: {error}") from error


class GivenMetrics(FrozenModel):
    """What the owner of a model says of it: the columns of a registry's row, and what an evaluation of it found.

    A row of the original registry is enough. It does not say how many episodes there were; without `episodes` they
    count as the fewest that can have these figures: 1, or 2 where returns spread.
    """

    algorithm: str | None = Field(None, description="The agent: its alias, class name or short name.")
    env_id: str | None = Field(None, description="The environment: a Gymnasium id, or an alias of the catalogue.")
    hyperparams: Annotated[JsonObject | None, BeforeValidator(_from_text)] = Field(
        None, description="Parameters of the agent, as a mapping or as its JSON text."
    )
    git_commit: str | None = Field(None, min_length=1, description="The code that trained it.")
    timestamp: int | None = Field(None, ge=0, description="When it was made, in seconds since 1970.")
    mean_reward: FiniteFloat = Field(description="Mean of the episodes' returns.")
    std_reward: FiniteFloat = Field(ge=0, description="Standard deviation of the returns, that of a population.")
    episodes: int = Field(ge=1, description="How many episodes there were; without it, the fewest that can be.")
    mean_episode_length: FiniteFloat = Field(gt=0, description="Mean of the episodes' lengths.")
    total_timesteps: int = Field(ge=0, description="Transitions that the model learnt from.")
    returns: list[FiniteFloat] | None = Field(None, description="The return of each episode.")
    seed: int | None = Field(None, description="Seed of the episodes.")
    window: GivenWindow = Field(default_factory=GivenWindow, description="The dates that were played.")

    @model_validator(mode="before")
    @classmethod
    def _fewest_episodes(cls, data: object) -> object:
        if not isinstance(data, dict) or "episodes" in data:
            return data
        returns = data.get("returns")
        fewest = 2 if data.get("std_reward") else 1
        return {**data, "episodes": len(returns) if isinstance(returns, list) and returns else fewest}

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


def spec_of_columns(metrics: GivenMetrics) -> RLExperimentSpec | None:
    """The spec that the columns `algorithm`, `env_id` and `hyperparams` give; None where the first two do not say."""
    if metrics.algorithm is None or metrics.env_id is None:
        return None
    data = {
        "name": f"{metrics.algorithm} in {metrics.env_id}",
        "env": {"class": metrics.env_id},
        "agent": {"class": metrics.algorithm, "kwargs": metrics.hyperparams or {}},
    }
    return RLExperimentSpec.from_data(data, source="the columns algorithm, env_id and hyperparams of the metrics")


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
        spec: The spec of the agent and environment that a zip is of; None: what the metrics say of them. A checkpoint
            folder has its own.
        tags: Words to find it by; a model that is there already gets them too.
        parent_model_id: The model that it was trained on from, of the same scope.
    """
    with process_lock:
        with Ledger.open(settings) as ledger:  # first: a home adopts its ledger before it has a model
            path = _checkpoint_folder(path.expanduser().absolute(), spec, settings, metrics)
            run = trainer_of(ledger, path)
            loaded = load_checkpoint(path, expected_sha256=sha256_of_folder(ledger, path))
        _refuse_other_steps(path, loaded.checkpoint.timesteps, metrics.total_timesteps)
        with closing(LoadedPolicy(loaded, settings)) as policy:
            policy.warm_up()
            scope, trained = policy.scope, policy.spec
    assert trained.agent is not None
    assert trained.env is not None
    commit = None if run is None else run.code_fingerprint.get("git_commit")
    _refuse_other_columns(path, metrics, trained, commit)
    row = registry.register(
        NewModel(
            model_path=path,
            algorithm=trained.agent.name,
            scope=scope,
            total_timesteps=loaded.checkpoint.timesteps,
            sha256=loaded.checkpoint.sha256,
            hyperparams=trained.agent.kwargs,
            git_commit=commit or metrics.git_commit,
            timestamp=metrics.timestamp,
            run_id=None if run is None else run.id,
            spec_hash=trained.spec_hash,
            exec_hash=trained.exec_hash,
            tags=tags,
            parent_model_id=parent_model_id,
        )
    )
    _refuse_other(f"model {row.id}", {"git_commit": row.git_commit, "timestamp": row.timestamp}, metrics)
    # Whether it plays in a window of dates, or makes its own episodes.
    registry.add_evaluation(row.id, _evaluation(metrics, dated=WINDOW in trained.env.build().slots()))
    return registry.get(row.id)


def _refuse_other_steps(path: Path, learnt: int, given: int) -> None:
    """Refuses metrics of another training than the model's."""
    if learnt != given:
        why = f"it learnt from {learnt} transitions, and the metrics say {given}"
        raise ModelError(f"model {str(path)!r}", why, "Give the metrics of this model.")


def _refuse_other_columns(path: Path, metrics: GivenMetrics, trained: RLExperimentSpec, commit: str | None) -> None:
    """Refuses columns that say something else of a model than the model itself does."""
    assert trained.agent is not None
    own: dict[str, object] = {} if commit is None else {"git_commit": commit}
    given: dict[str, object] = {}
    if metrics.algorithm is not None:
        own["algorithm"] = trained.agent.label
        given["algorithm"] = reference({"class": metrics.algorithm}, "agent").label
    if metrics.env_id is not None:
        own["env_id"] = env_id_of(trained)
        given["env_id"] = env_id_of(RLExperimentSpec.from_data({"name": "env", "env": {"class": metrics.env_id}}))
    if metrics.hyperparams is not None:
        # Of what is given alone: what is left out says nothing.
        _, config = catalogue.configure("agent", trained.agent.name, {**trained.agent.kwargs, **metrics.hyperparams})
        own["hyperparams"], given["hyperparams"] = trained.agent.kwargs, plain_fields(config)
    _refuse_other(f"model {str(path)!r}", own, metrics, **given)


def _refuse_other(what: str, own: Mapping[str, object], metrics: GivenMetrics, **meant: object) -> None:
    """Refuses metrics whose columns are not the model's own.

    Args:
        what: The model, for the error.
        own: The columns that are known of it.
        metrics: What its owner says.
        meant: Columns of these as they are meant, where that is not as they are written.
    """
    for name, value in own.items():
        given = meant.get(name, getattr(metrics, name))
        if given is not None and given != value:
            raise ModelError(
                what, f"its {name} is {value}, and the metrics say {given}", f"Mend {name}, or leave it out."
            )


def _checkpoint_folder(path: Path, spec: RLExperimentSpec | None, settings: Settings, metrics: GivenMetrics) -> Path:
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
    spec = spec or spec_of_columns(metrics)
    if spec is None:
        raise ModelError(
            f"model {str(path)!r}",
            "a zip does not say what it is of in a way that can be trusted",
            "Add --spec, or algorithm and env_id to the metrics.",
        )
    return import_zip(path, spec, settings, timesteps=metrics.total_timesteps)


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
