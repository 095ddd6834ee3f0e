"""The learner around a Stable-Baselines3 model: training, prediction, state.

Stable-Baselines3 owns the training loop: it steps the environment, fills its rollout or replay buffer and updates its
networks. `SB3Learner` gives it the runtime's environment as a `VecEnv` and one callback, `HooksCallback`, which asks
for a halt at every vector step and reports the boundaries between two rollouts, where the state is whole.

    observation (n, ...) -> predict -> actions (n, ...), memory of recurrent agents
    state: arrays `tensors/...`, `generators/...`, `replay/...`, and JSON with counters, optimisers and episodes

Nothing of it is pickled: `state.py` turns a model's modules, optimisers and buffers into arrays and plain data.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import set_random_seed

from alphaswarm_rl.agents.sb3.ars import ResumableARS
from alphaswarm_rl.agents.sb3.compatibility import check_compatibility
from alphaswarm_rl.agents.sb3.generators import Generators, Stream
from alphaswarm_rl.agents.sb3.model import build_model, find_device
from alphaswarm_rl.agents.sb3.state import (
    buffer_to_load,
    end_trajectories,
    get_buffer,
    get_tensors,
    tensors_to_load,
    unfit,
    weights_to_load,
)
from alphaswarm_rl.agents.sb3.vec_env import as_sb3
from alphaswarm_rl.core import seeding
from alphaswarm_rl.core.contracts import AgentRequest, AnyVectorEnv, State, TrainingHooks
from alphaswarm_rl.core.errors import TrainingDiverged
from alphaswarm_rl.core.generator_state import generator_state, set_generator_state
from alphaswarm_rl.core.types import Array, Batch, JsonMapping, JsonObject, Masks

if TYPE_CHECKING:
    from alphaswarm_rl.agents.sb3.algorithms import SB3Adapter

#: Counters of a model, as far as its algorithm has them. `_n_calls` times DQN's target updates.
_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_n_calls", "exploration_rate")

#: Weights and losses that an error names.
_MOST_NAMED = 5

_PARTS = {"algorithm", "num_envs", "counters", "optimisers", "generators", "action_space", "episodes"}


@dataclass(frozen=True)
class _Mark:
    """The last whole state, as far as steps after it change the model: what a halt goes back to."""

    counters: JsonObject
    generators: Generators
    action_space: JsonMapping
    replay: tuple[int, bool] | None


class SB3Learner:
    """A Stable-Baselines3 model that trains under the runtime's hooks and can be saved and restored.

    An environment that the agent does not fit is an error.

    A halt drops what was collected since the last boundary: an on-policy rollout that is not full was never learnt
    from. After a resume every episode starts fresh, which is why `resume` is "approximate".

    All that the model draws from the global generators stays inside scopes of its own: one stream for training,
    another for predictions, so that an evaluation between two rollouts does not change the training. The stream of
    predictions is no part of the state: it depends on its seed and on the predictions made since.
    """

    resume: Literal["exact", "approximate"] = "approximate"
    #: Every training begins with a reset.
    observation: Batch | None = None

    def __init__(self, agent: SB3Adapter, request: AgentRequest) -> None:
        check_compatibility(agent, request)
        self._alias = agent.rl_alias
        self._masked = agent.masked
        device = find_device(request.device)
        self._training = Stream(device)
        with self._training:
            self._model = build_model(agent, request, device)
        self._device = device
        self.seed_predictions(seeding.derived_seed(request.seed, "predict"))
        self.rollout_transitions: int | None = None
        if isinstance(self._model, OnPolicyAlgorithm):
            self.rollout_transitions = self._model.n_steps * self._model.n_envs
        #: How many environments a loaded state is of, where that differs from the model's.
        self._foreign_num_envs: int | None = None
        #: Whether a loaded state has weights that were trained elsewhere, by updates that nobody counted here.
        self._trained_elsewhere = False
        self._set_mark()

    @property
    def updates(self) -> int | None:
        """Updates that made its policy; None where it was trained elsewhere, and not here."""
        counted = int(self._model._n_updates)
        return None if self._trained_elsewhere and not counted else counted

    @property
    def model(self) -> BaseAlgorithm:
        """The Stable-Baselines3 model itself."""
        return self._model

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of predictions anew, so that a stochastic evaluation repeats itself, in any environment."""
        with Stream(self._device):
            # Only DQN and its like, which explore at random, ask another generator than torch's for an action.
            self._predicting = Stream(self._device, torch_only=not hasattr(self._model, "exploration_rate"))
            with self._predicting:
                set_random_seed(seed)
        self._predicting_actions = seeding.generator(seed, "actions")

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Trains until `timesteps` reaches `total_timesteps` or a halt. The environment is reset first."""
        self._refuse_foreign("trained on")
        remaining = total_timesteps - self._model.num_timesteps
        if remaining <= 0:
            return
        callback = HooksCallback(hooks, self._set_mark)
        with self._training:
            self._model.set_env(as_sb3(env))
            if self._replay_buffer is not None:
                end_trajectories(self._replay_buffer)
            # `learn` adds what is done already to the total, so that schedules see the progress of the whole training.
            try:
                self._model.learn(remaining, callback=callback, log_interval=None, reset_num_timesteps=False)
            except (ValueError, AssertionError, RuntimeError) as error:
                # torch refuses a distribution of NaN in words of its own.
                _refuse_diverged(self._model, cause=error)
                raise
            if callback.halted:
                self._return_to_mark()
            else:
                callback.report()

    def predict(
        self, observation: Batch, memory: object, episode_start: Array, *, deterministic: bool, masks: Masks = None
    ) -> tuple[Array, object]:
        """Actions for a batch, and the memory for the next call.

        Memory is that of recurrent agents, forgotten where `episode_start` is true. Only MaskablePPO heeds `masks`;
        without them it takes every action to be allowed. A deterministic prediction draws nothing.
        """
        extra = {"action_masks": masks} if self._masked else {}
        with nullcontext() if deterministic else self._drawing_apart():
            return self._model.predict(observation, memory, episode_start, deterministic=deterministic, **extra)

    @contextmanager
    def _drawing_apart(self) -> Iterator[None]:
        # DQN also explores by sampling the action space, whose generator belongs to the training.
        space = self._model.action_space
        trains_with, space._np_random = space.np_random, self._predicting_actions
        try:
            with self._predicting:
                yield
        finally:
            space._np_random = trains_with

    def get_state(self) -> State:
        """Weights, optimisers, counters, replay buffer and the training's random generators."""
        self._refuse_foreign("saved from")
        tensors, generators = get_tensors(self._model), self._training.now().to_state()
        arrays = tensors.prefixed("tensors") | generators.prefixed("generators")
        data = {
            "algorithm": self._alias,
            "num_envs": self._model.n_envs,
            "counters": self._counters(),
            "optimisers": tensors.data,
            "generators": generators.data,
            "action_space": generator_state(self._model.action_space.np_random),
            # ARS counts in NumPy's integers, and measures no time.
            "episodes": [{"r": float(e["r"]), "l": int(e["l"]), "t": 0.0} for e in self._model.ep_info_buffer or ()],
        }
        if self._replay_buffer is not None:
            replay = get_buffer(self._replay_buffer)
            arrays |= replay.prefixed("replay")
            data["replay"] = replay.data
        return State(arrays, data)

    def set_state(self, state: State) -> None:
        """Continues from there. A state of another number of environments is good for predictions only."""
        data = state.data
        if missing := _PARTS - data.keys():
            raise unfit(f"it lacks {', '.join(sorted(missing))}")
        if data["algorithm"] != self._alias:
            raise unfit(f"it is of the agent {data['algorithm']!r}, not {self._alias!r}")
        if data["counters"].keys() != self._counters().keys():
            raise unfit("its counters are of another algorithm")
        foreign = data["num_envs"] != self._model.n_envs
        load_tensors = tensors_to_load(self._model, State(state.under("tensors"), dict(data["optimisers"])))
        generators = Generators.from_state(
            State(state.under("generators"), dict(data["generators"])), self._model.device
        )
        load_replay = None
        if self._replay_buffer is not None and not foreign:
            load_replay = buffer_to_load(
                self._replay_buffer, State(state.under("replay"), dict(data.get("replay", {})))
            )

        set_generator_state(self._model.action_space.np_random, data["action_space"])
        load_tensors()
        if load_replay is not None:
            load_replay()
        self._follow_policy()
        self._set_counters(data["counters"])
        self._trained_elsewhere = _was_trained_elsewhere(data)
        self._set_episodes(data["episodes"])
        self._training.move_to(generators)
        self._foreign_num_envs = data["num_envs"] if foreign else None
        self._set_mark()

    def begin_with(self, state: State) -> None:
        """Takes over the weights of another training's model; optimisers, counters and streams are its own."""
        if state.data.get("algorithm") != self._alias:
            raise unfit(f"it is of the agent {state.data.get('algorithm')!r}, not {self._alias!r}")
        weights_to_load(self._model, State(state.under("tensors")))()
        self._follow_policy()

    def _follow_policy(self) -> None:
        if isinstance(self._model, ResumableARS):
            # ARS moves a vector of weights of its own, and its policy follows.
            self._model.weights = torch.nn.utils.parameters_to_vector(self._model.policy.parameters()).detach()

    @property
    def _replay_buffer(self) -> Any:
        return getattr(self._model, "replay_buffer", None)

    def _counters(self) -> JsonObject:
        return {name: getattr(self._model, name) for name in _COUNTERS if hasattr(self._model, name)}

    def _set_counters(self, counters: JsonMapping) -> None:
        for name, value in counters.items():
            setattr(self._model, name, value)

    def _set_episodes(self, episodes: list[JsonObject]) -> None:
        window = self._model._stats_window_size
        self._model.ep_info_buffer = deque((dict(info) for info in episodes), maxlen=window)
        self._model.ep_success_buffer = deque(maxlen=window)

    def _set_mark(self) -> None:
        buffer = self._replay_buffer
        self._mark = _Mark(
            counters=self._counters(),
            generators=self._training.now(),
            action_space=self._model.action_space.np_random.bit_generator.state,
            replay=None if buffer is None else (buffer.pos, buffer.full),
        )
        #: Transitions trained at the last boundary.
        self.timesteps = int(self._model.num_timesteps)

    def _return_to_mark(self) -> None:
        self._set_counters(self._mark.counters)
        self._training.move_to(self._mark.generators)
        self._model.action_space.np_random.bit_generator.state = self._mark.action_space
        if self._mark.replay is not None:
            # Transitions behind the position are written over next; what a full buffer lost to them stays lost.
            self._replay_buffer.pos, self._replay_buffer.full = self._mark.replay

    def _refuse_foreign(self, doing: str) -> None:
        if self._foreign_num_envs is not None:
            raise unfit(
                f"it is of {self._foreign_num_envs} environments and cannot be {doing} with {self._model.n_envs}"
            )


def _was_trained_elsewhere(data: JsonMapping) -> bool:
    """Whether a state has transitions of which nothing was learnt here and nothing is remembered to be learnt from.

    On-policy agents learn from every transition that they count, and others remember those that they have not learnt
    from: such weights came with their transitions, as those of a file that Stable-Baselines3 saved.
    """
    counters, replay = data["counters"], data.get("replay", {})
    remembers = replay.get("full", False) or replay.get("position", 0) > 0
    return counters["num_timesteps"] > 0 and not counters["_n_updates"] and not remembers


class HooksCallback(BaseCallback):
    """Asks for a halt on every vector step, and reports each state that is whole.

    A rollout starts when the update after the one before is done: the state is whole then.

    Args:
        hooks: The runtime's hooks.
        mark: Called at each whole state, before the runtime hears of it.
    """

    def __init__(self, hooks: TrainingHooks, mark: Callable[[], None]) -> None:
        super().__init__()
        self.halted = False
        self._hooks = hooks
        self._mark = mark
        self._whole_at = 0

    def _init_callback(self) -> None:
        self._whole_at = self.model.num_timesteps

    def _on_step(self) -> bool:
        values = self.locals.get("values")
        if values is not None:  # on-policy algorithms know them, the others do not
            self._hooks.decided(values, self.locals["log_probs"])
        self.halted |= self._hooks.should_halt()
        return not self.halted

    def _on_rollout_start(self) -> None:
        self.report()

    def report(self) -> None:
        """Reports a boundary, unless nothing was trained since the last one."""
        if self.model.num_timesteps != self._whole_at:
            metrics = _take_metrics(self.model)
            losses = {name: value for name, value in metrics.items() if name.endswith("loss")}
            off_policy = getattr(self.model, "replay_buffer", None) is not None
            # Losses cost nothing to look at, and agents that learn from rollouts have few of these to look at weights.
            if not off_policy or not all(map(math.isfinite, losses.values())):
                _refuse_diverged(self.model, losses)
            self._whole_at = self.model.num_timesteps
            self._mark()
            self._hooks.boundary(metrics)


def _refuse_diverged(
    model: BaseAlgorithm, losses: Mapping[str, float] | None = None, cause: Exception | None = None
) -> None:
    """Refuses a model whose losses or weights are not finite any more."""
    broken = [f"{name} is {value}" for name, value in (losses or {}).items() if not math.isfinite(value)]
    broken += [name for name, weights in model.policy.named_parameters() if not bool(torch.isfinite(weights).all())]
    if broken:
        raise TrainingDiverged(
            f"the agent after {model.num_timesteps} transitions",
            f"its numbers are not finite any more: {', '.join(broken[:_MOST_NAMED])}",
            "Lower learning_rate or max_grad_norm, and look for rewards or observations that are not finite.",
        ) from cause


def _take_metrics(model: BaseAlgorithm) -> dict[str, float]:
    logger = model.logger
    metrics = {name: float(value) for name, value in logger.name_to_value.items()}
    logger.name_to_value.clear()
    logger.name_to_count.clear()
    logger.name_to_excluded.clear()
    return metrics
