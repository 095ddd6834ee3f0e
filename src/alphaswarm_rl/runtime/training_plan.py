"""What a dry run of a training comes to. It stands alone, so that whoever shows it need not load the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from alphaswarm_rl.core.types import JsonObject


@dataclass(frozen=True)
class PlannedWindow:
    """The bars of one window.

    Attributes:
        start: First date of the window, where the spec says one.
        end: First date after it.
        assets: How many assets.
        bars: Bars that may be traded; null where the environment makes its own.
        warmup_bars: Bars before them that are looked at.
        first_bar: The first that may be traded.
        last_bar: The last one.
    """

    start: str | None
    end: str | None
    assets: int | None = None
    bars: int | None = None
    warmup_bars: int | None = None
    first_bar: str | None = None
    last_bar: str | None = None


@dataclass(frozen=True)
class TrainingPlan:
    """A training as it would begin, after everything that comes before its first step.

    Attributes:
        slug: The spec's slug.
        spec_hash: Its hash, after every override.
        exec_hash: The hash of what is computed.
        seed: The run's seed.
        device: Where the learner's tensors would be.
        env: The environment.
        agent: The agent.
        observation_space: What the agent would see.
        action_space: What it would do.
        windows: The dates and bars of each window that is played, by name.
        in_sample: Whether the evaluation sees what training or validation saw; null where nobody can know, or none is
            made.
        data_fingerprint: SHA-256 of the bars of the training; null where the environment makes its own.
        num_envs: Environments stepped together.
        total_timesteps: Transitions in all.
        vector_steps: Steps of all environments together that they take.
        rollout_transitions: Transitions in a rollout; null for an agent that updates step by step.
        rollouts: How many rollouts they fill; null likewise.
        validations: Evaluations while training, which choose the best model.
        validation_episodes: Episodes of all of them.
        evaluation_episodes: Episodes of the evaluation at the end.
        best_model: What will choose the best model, or why nothing does.
        trading_costs: What trading costs, and how orders fill; empty where nothing is traded.
        observation_bytes: Bytes of what the environments show in one rollout, or in one step where there is none.
        notices: What whoever starts the run should know.
    """

    slug: str
    spec_hash: str
    exec_hash: str
    seed: int
    device: str
    env: str
    agent: str
    observation_space: str
    action_space: str
    windows: Mapping[str, PlannedWindow]
    in_sample: bool | None
    data_fingerprint: str | None
    num_envs: int
    total_timesteps: int
    vector_steps: int
    rollout_transitions: int | None
    rollouts: int | None
    validations: int
    validation_episodes: int
    evaluation_episodes: int
    best_model: str
    trading_costs: JsonObject
    observation_bytes: int
    notices: tuple[str, ...]
