"""PPO in any batched environment of NumPy arrays: collecting, minibatches and prediction.

Of N environments T = `n_steps` steps are collected into a `Rollout`, time first: observations (T, N, F), flattened to F
numbers, actions (T, N, K), and rewards, values, log-probabilities and both end flags (T, N). Then advantages are
estimated over time, and the T * N transitions are learnt from in shuffled minibatches (B, ...). Networks that remember
have a memory (N, M); they learn from whole sequences of some environments instead, (T, n, F).

The state is whole after every vector step: a rollout that is not full is part of it. So a run goes on bit for bit from
wherever it was stopped, provided that the environment can too; elsewhere episodes begin anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from operator import itemgetter

import numpy as np

from alphaswarm_rl.agents.native.actor_critic import STATISTICS, Minibatch, noise_of
from alphaswarm_rl.agents.native.host_actor_critic import HostActorCritic
from alphaswarm_rl.agents.native.ppo_learner import PpoLearner, PpoSettings, Rollout
from alphaswarm_rl.agents.native.scaling import ObservationScale, RewardScale
from alphaswarm_rl.agents.observations import flattening, last_observation, select_rows, to_arrays
from alphaswarm_rl.agents.stepping import can_restore, require_same_step_autoreset
from alphaswarm_rl.core.blas_threads import blas_threads
from alphaswarm_rl.core.contracts import AgentRequest, AnyVectorEnv, State, TrainingHooks
from alphaswarm_rl.core.generator_state import generator_state, set_generator_state
from alphaswarm_rl.core.seeding import generator
from alphaswarm_rl.core.types import Array, Batch, Masks


class HostPpoLearner(PpoLearner):
    """Collects rollouts in NumPy, and learns from each; its arguments are those of `PpoLearner`."""

    net: HostActorCritic

    def __init__(self, alias: str, settings: PpoSettings, request: AgentRequest, net: HostActorCritic) -> None:
        super().__init__(alias, settings, request, net)
        n = request.num_envs
        self._space = request.observation_space
        self._width, self._flatten = flattening(request.observation_space)
        self._scale = self._observation_moments = (
            ObservationScale(self._width) if settings.scales_observations else None
        )
        self._reward_scale = RewardScale(np.zeros(n), settings.gamma) if settings.scales_rewards else None
        self._drawing = generator(request.seed, "draw")
        self._shuffling = generator(request.seed, "shuffle")
        self._noise: Array | None = None
        self._rollout = self._new_rollout(n, masked=net.head.discrete and request.masks) if request.training else None
        #: What is remembered now, and which environments begin an episode with the next step.
        self._memory = np.zeros((n, net.memory_width), np.float32) if net.memory_width else None
        self._starts = np.ones(n, np.bool_)
        self.seed_predictions(request.seed)

    def _new_rollout(self, n: int, *, masked: bool) -> Rollout:
        steps, head, remembers = self._settings.n_steps, self.net.head, self.net.memory_width > 0
        return Rollout(
            observations=np.zeros((steps, n, self._width), np.float32),
            actions=np.zeros((steps, n, head.numbers), np.int64 if head.discrete else np.float32),
            log_probs=np.zeros((steps, n), np.float32),
            values=np.zeros((steps, n), np.float32),
            final_values=np.zeros((steps, n), np.float32),
            rewards=np.zeros((steps, n)),
            terminated=np.zeros((steps, n), np.bool_),
            truncated=np.zeros((steps, n), np.bool_),
            masks=np.zeros((steps, n, head.outputs), np.bool_) if masked else None,
            starts=np.zeros((steps, n), np.bool_) if remembers else None,
            memory=np.zeros((n, self.net.memory_width), np.float32) if remembers else None,
        )

    # Training.

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Collects and learns until `timesteps` reaches `total_timesteps` or a halt."""
        rollout = self._rollout
        assert rollout is not None
        require_same_step_autoreset(env)
        self._undo_cut(env, total_timesteps)
        if self._needs_reset(env):
            self._begin(env, rollout)
        n = env.num_envs
        # More threads round differently, and cost more than they give in networks of this size.
        with blas_threads(1):
            while self.timesteps < total_timesteps:
                begun = self.timesteps - rollout.filled * n
                length = min(self._settings.n_steps, math.ceil((total_timesteps - begun) / n))
                halted = self._collect(env, rollout, length, hooks)
                metrics: dict[str, float] = {}
                if rollout.filled == length:
                    if length < self._settings.n_steps:
                        self._before_cut = self.get_state()
                    metrics = self._learn(rollout, length, min(begun / total_timesteps, 1.0))
                    rollout.filled, self._noise = 0, None
                elif not can_restore(env):
                    # Its episodes cannot be taken up again: the steps that nothing was learnt from did not happen.
                    self._forget(rollout, n)
                    return
                hooks.boundary(metrics)
                if halted:
                    return

    def _undo_cut(self, env: AnyVectorEnv, total_timesteps: int) -> None:
        """Takes back what a rollout taught that an earlier total cut short, where there is more of it to come.

        An environment that cannot be put back begins new episodes: there the rollout is over.
        """
        before, self._before_cut = self._before_cut, None
        if total_timesteps <= self.timesteps:
            self._before_cut = before
        elif before is not None and can_restore(env):
            self._load(before)

    def _forget(self, rollout: Rollout, n: int) -> None:
        self.timesteps -= rollout.filled * n
        rollout.filled, self._noise = 0, None

    def _begin(self, env: AnyVectorEnv, rollout: Rollout) -> None:
        self.observation, _ = env.reset()
        self._forget(rollout, env.num_envs)
        self._starts[:] = True
        if self._memory is not None:
            self._memory = np.zeros_like(self._memory)
        if self._scale is not None:
            self._scale.begin(self._flatten(self.observation))
        if self._reward_scale is not None:
            self._reward_scale.restart()

    def _collect(self, env: AnyVectorEnv, rollout: Rollout, length: int, hooks: TrainingHooks) -> bool:
        """Fills the rollout; says whether a halt came, before it was full or just then."""
        head, n = self.net.head, env.num_envs
        if self._noise is None:
            self._noise = noise_of(head, self._drawing, length, n)
        elif len(self._noise) < length:  # a shorter rollout was begun, for a smaller total
            more = noise_of(head, self._drawing, length - len(self._noise), n)
            self._noise = np.concatenate([self._noise, more])
        while rollout.filled < length:
            step = rollout.filled
            seen = rollout.observations[step]
            seen[:] = self._flatten(self.observation)
            masks = None
            if rollout.masks is not None:
                masks = rollout.masks[step]
                masks[:] = head.legal(env.action_masks(), n)  # type: ignore[attr-defined]
            if rollout.starts is not None and rollout.memory is not None:
                rollout.starts[step] = self._starts
                if step == 0:
                    rollout.memory[:] = self._memory
            drawn, log_probs, values, memory = self.net.draw(self._scaled(seen), self._noise[step], masks, self._memory)
            self.observation, rewards, terminated, truncated, infos = env.step(head.to_env(drawn))
            rollout.actions[step], rollout.log_probs[step], rollout.values[step] = drawn, log_probs, values
            rollout.rewards[step], rollout.terminated[step], rollout.truncated[step] = rewards, terminated, truncated
            rollout.final_values[step] = 0.0
            if np.count_nonzero(truncated) and self._estimator.uses_values:
                rows = np.flatnonzero(truncated)
                last = self._scaled(self._flatten(select_rows(infos["final_obs"], rows)))
                remembered = None if memory is None else memory[rows]
                rollout.final_values[step, rows] = self.net.values(last, remembered)
            if memory is not None:
                self._starts = terminated | truncated
                memory[self._starts] = 0.0
                self._memory = memory
            rollout.filled += 1
            self.timesteps += n
            hooks.decided(values, log_probs)
            if hooks.should_halt():
                return True
        return False

    def _scaled(self, observations: Array) -> Array:
        return observations if self._scale is None else self._scale(observations)

    def _learn(self, rollout: Rollout, length: int, progress: float) -> dict[str, float]:
        last_values = None
        if self._estimator.uses_values:
            last_values = self.net.values(self._scaled(self._flatten(self.observation)), self._memory)
        found = self._estimate(rollout, length, rollout.values[:length].astype(np.float64), last_values)
        flat = rollout.observations[:length].reshape(-1, self._width)
        whole = rollout.transitions(length, self._scaled(flat).reshape(rollout.observations[:length].shape), found)
        whole = replace(whole, advantages=whole.advantages.astype(np.float32), returns=whole.returns.astype(np.float32))
        batches = self._batches(whole)
        if rollout.memory is not None and rollout.starts is not None:
            batches = self._sequences(whole, rollout.memory, rollout.starts[:length])
        extras = {} if found.returns is None else {"explained_variance": _explained(whole.values, whole.returns)}
        metrics = self._update(batches, np.zeros(len(STATISTICS)), progress, {**extras, **found.extras})
        if self._scale is not None:
            self._scale.update(flat)
        return metrics

    def _batches(self, whole: Minibatch) -> Callable[[], Iterator[Minibatch]]:
        """Gives minibatches in a new order at each call."""
        count, size = len(whole.log_probs), self._settings.batch_size

        def batches() -> Iterator[Minibatch]:
            order = self._shuffling.permutation(count)
            shuffled = whole.map(lambda array: array[order])
            for first in range(0, count, size):
                yield shuffled.map(itemgetter(slice(first, first + size)))

        return batches

    def _sequences(self, whole: Minibatch, memory: Array, starts: Array) -> Callable[[], Iterator[Minibatch]]:
        """Gives whole sequences of some environments, about as many transitions as a batch has, in a new order."""
        length, n = starts.shape
        size = max(1, self._settings.batch_size // length)

        def sequences(array: Array, rows: Array) -> Array:
            return np.ascontiguousarray(array.reshape(length, n, *array.shape[1:])[:, rows])

        def flat_sequences(array: Array, rows: Array) -> Array:
            return sequences(array, rows).reshape(-1, *array.shape[1:])

        def batches() -> Iterator[Minibatch]:
            order = self._shuffling.permutation(n)
            for first in range(0, n, size):
                rows = order[first : first + size]
                chosen = whole.map(partial(flat_sequences, rows=rows))
                yield replace(
                    chosen,
                    observations=sequences(whole.observations, rows),
                    memory=memory[rows],
                    starts=np.ascontiguousarray(starts[:, rows]),
                )

        return batches

    # Prediction.

    @property
    def waiting(self) -> int:
        """Transitions of the rollout that is not full yet."""
        rollout = self._rollout
        return 0 if rollout is None else rollout.filled * rollout.rewards.shape[1]

    @property
    def remembers(self) -> bool:
        """Whether an action depends on what was seen before."""
        return self.net.memory_width > 0

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of predictions anew, so that an evaluation repeats itself."""
        self._predicting = generator(seed, "predict")

    def predict(
        self, observation: Batch, memory: object, episode_start: Array, *, deterministic: bool, masks: Masks = None
    ) -> tuple[Array, Array | None]:
        """Actions for a batch, and the memory for the next call, where the networks remember."""
        seen = self._flatten(observation)
        noise = None if deterministic else noise_of(self.net.head, self._predicting, len(seen))
        legal = None
        if masks is not None and self.net.head.discrete:
            legal = self.net.head.legal(masks, len(seen))
        before = None
        if self.net.memory_width:
            before = np.zeros((len(seen), self.net.memory_width), np.float32) if memory is None else np.array(memory)
            before[np.asarray(episode_start, np.bool_)] = 0.0
        with blas_threads(1):
            drawn, _, _, after = self.net.draw(self._scaled(seen), noise, legal, before)
        return self.net.head.to_env(drawn), after

    # State.

    def _training_state(self) -> State:
        arrays = State(self.net.streams()).prefixed("streams")
        if self._rollout is not None:
            arrays |= State(self._filled(self._rollout)).prefixed("rollout")
        if self._noise is not None:
            arrays["noise/noise"] = self._noise
        if self._memory is not None:
            arrays |= {"memory/memory": self._memory.copy(), "memory/starts": self._starts.copy()}
        if self.observation is not None:
            arrays |= to_arrays(self.observation)
        data = {"drawing": generator_state(self._drawing), "shuffling": generator_state(self._shuffling)}
        return State(arrays, data)

    def _load_training_state(self, state: State) -> None:
        rollout, saved = self._rollout, state.under("rollout")
        assert rollout is not None
        self.net.set_streams(state.under("streams"))
        set_generator_state(self._drawing, state.data["drawing"])
        set_generator_state(self._shuffling, state.data["shuffling"])
        rollout.filled = len(saved["rewards"])
        for name, part in self._filled(rollout, copy=False).items():
            part[:] = saved[name]
        self._noise = state.under("noise").get("noise")
        if self._memory is not None:
            remembered = state.under("memory")
            self._memory, self._starts = np.array(remembered["memory"]), np.array(remembered["starts"])
        self.observation = last_observation(self._space, state.arrays)

    @staticmethod
    def _filled(rollout: Rollout, *, copy: bool = True) -> dict[str, Array]:
        """The part of each array that is filled; of the memory, all."""
        arrays = {name: array for name, array in vars(rollout).items() if isinstance(array, np.ndarray)}
        parts = {name: array if name == "memory" else array[: rollout.filled] for name, array in arrays.items()}
        return {name: part.copy() for name, part in parts.items()} if copy else parts


def _explained(values: Array, returns: Array) -> float:
    """The share of the returns' variance that the values knew; NaN where there is none."""
    variance = float(returns.var())
    return 1.0 - float((returns - values).var()) / variance if variance > 0 else math.nan
