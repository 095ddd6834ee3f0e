"""What learners from fresh rollouts have in common: collecting, scaling, predicting, and their whole state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from alphaswarm_rl.agents.native.actor_critic import ActorCritic, noise_of
from alphaswarm_rl.agents.native.restoring import restore
from alphaswarm_rl.agents.native.scaling import ObservationScale, RewardScale
from alphaswarm_rl.agents.observations import flattening, last_observation, select_rows, to_arrays
from alphaswarm_rl.agents.stepping import goes_on, refuse_other_autoreset
from alphaswarm_rl.core.blas_threads import blas_threads
from alphaswarm_rl.core.contracts import AgentRequest, AnyVectorEnv, RolloutRewards, State, TrainingHooks
from alphaswarm_rl.core.generator_state import generator_state, set_generator_state
from alphaswarm_rl.core.kinds import BaseAdvantageEstimator
from alphaswarm_rl.core.seeding import generator

Array = np.ndarray[Any, Any]


@dataclass
class Rollout:
    """Steps of all environments, time first; what is not filled yet holds nothing.

    Attributes:
        observations: As they came, flat, (T, N, width).
        actions: As they were drawn, (T, N, k).
        final_values: Values of what truncated episodes showed last, (T, N).
        masks: Legal choices, (T, N, outputs), where the environment says them.
        starts: Which steps are the first of an episode, (T, N), where the networks remember.
        memory: What they remembered before the first step, (N, memory_width).
        filled: Steps so far.
    """

    observations: Array
    actions: Array
    log_probs: Array
    values: Array
    final_values: Array
    rewards: Array
    terminated: Array
    truncated: Array
    masks: Array | None
    starts: Array | None
    memory: Array | None
    filled: int = 0

    def get_state(self) -> dict[str, Array]:
        """What is filled."""
        return {
            name: array.copy() if name == "memory" else array[: self.filled].copy() for name, array in self._arrays()
        }

    def set_state(self, arrays: dict[str, Array]) -> None:
        """Continues from there."""
        self.filled = len(arrays["rewards"])
        for name, array in self._arrays():
            if name == "memory":
                array[:] = arrays[name]
            else:
                array[: self.filled] = arrays[name]

    def _arrays(self) -> list[tuple[str, Array]]:
        return [(name, array) for name, array in vars(self).items() if isinstance(array, np.ndarray)]


class OnPolicyLearner(ABC):
    """Collects rollouts in any batched environment, and learns from each.

    Its state is whole after every vector step: a rollout that is not full is part of it. So a run goes on bit for bit
    from wherever it was stopped, provided that the environment can too; elsewhere episodes begin anew.

    Args:
        request: What it is built for.
        net: The networks.
        n_steps: Steps per environment in one rollout.
        gamma: Discount per step.
        estimator: Makes advantages of rewards.
        scale_observations: Whether observations are standardised.
        scale_rewards: Whether rewards are divided by the spread of their discounted sums.
    """

    resume: Literal["exact", "approximate"] = "exact"

    def __init__(
        self,
        request: AgentRequest,
        net: ActorCritic,
        *,
        alias: str,
        n_steps: int,
        gamma: float,
        estimator: BaseAdvantageEstimator,
        scale_observations: bool,
        scale_rewards: bool,
    ) -> None:
        self.net = net
        self.timesteps = 0
        self.rollout_transitions: int | None = n_steps * request.num_envs
        self.observation: Any = None
        self._alias = alias
        self._n_steps = n_steps
        self._estimator = estimator
        self._space = request.observation_space
        self._width, self._flatten = flattening(request.observation_space)
        self._scale = ObservationScale(self._width) if scale_observations else None
        self._reward_scale = RewardScale(request.num_envs, gamma) if scale_rewards else None
        self._drawing = generator(request.seed, "draw")
        self._shuffling = generator(request.seed, "shuffle")
        self._noise: Array | None = None
        self._masked = net.head.discrete and request.masks
        self._rollout = self._storage(request.num_envs) if request.training else None
        #: What is remembered now, and which environments begin an episode with the next step.
        self._memory = np.zeros((request.num_envs, net.memory_width), np.float32) if net.memory_width else None
        self._starts = np.ones(request.num_envs, np.bool_)
        self._restored = False
        self.seed_predictions(request.seed)

    def _storage(self, n: int) -> Rollout:
        steps, head, remembers = self._n_steps, self.net.head, self.net.memory_width > 0
        return Rollout(
            observations=np.zeros((steps, n, self._width), np.float32),
            actions=np.zeros((steps, n, head.numbers), np.int64 if head.discrete else np.float32),
            log_probs=np.zeros((steps, n), np.float32),
            values=np.zeros((steps, n), np.float32),
            final_values=np.zeros((steps, n), np.float32),
            rewards=np.zeros((steps, n)),
            terminated=np.zeros((steps, n), np.bool_),
            truncated=np.zeros((steps, n), np.bool_),
            masks=np.zeros((steps, n, head.outputs), np.bool_) if self._masked else None,
            starts=np.zeros((steps, n), np.bool_) if remembers else None,
            memory=np.zeros((n, self.net.memory_width), np.float32) if remembers else None,
        )

    # Training.

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Collects and learns until `timesteps` reaches `total_timesteps` or a halt."""
        rollout = self._rollout
        assert rollout is not None
        refuse_other_autoreset(env)
        if self.observation is None or (self._restored and not goes_on(env)):
            self._begin(env, rollout)
        self._restored = False
        n = env.num_envs
        # More threads round differently, and cost more than they give in networks of this size.
        with blas_threads(1):
            while self.timesteps < total_timesteps:
                begun = self.timesteps - rollout.filled * n
                length = min(self._n_steps, math.ceil((total_timesteps - begun) / n))
                halted = self._collect(env, rollout, length, hooks)
                metrics: dict[str, float] = {}
                if rollout.filled == length:
                    metrics = self._learn(rollout, length, min(begun / total_timesteps, 1.0))
                    rollout.filled, self._noise = 0, None
                elif not goes_on(env):
                    # Its episodes cannot be taken up again: the steps that nothing was learnt from did not happen.
                    self._forget(rollout, n)
                    return
                hooks.boundary(metrics)
                if halted:
                    return

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
                known = None if memory is None else memory[rows]
                rollout.final_values[step, rows] = self.net.values(last, known)
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

    def _rewards(self, rollout: Rollout, length: int) -> RolloutRewards:
        """What the estimator sees: the value after a truncated step is that of what the episode showed last."""
        terminated, truncated = rollout.terminated[:length], rollout.truncated[:length]
        rewards = rollout.rewards[:length]
        if self._reward_scale is not None:
            rewards = self._reward_scale(rewards, terminated | truncated)
        values = next_values = None
        if self._estimator.uses_values:
            values = rollout.values[:length].astype(np.float64)
            after = self.net.values(self._scaled(self._flatten(self.observation)), self._memory)
            next_values = np.where(truncated, rollout.final_values[:length], np.concatenate([values[1:], after[None]]))
        return RolloutRewards(rewards, terminated, truncated, values=values, next_values=next_values)

    @abstractmethod
    def _learn(self, rollout: Rollout, length: int, progress: float) -> dict[str, float]:
        """Learns from a full rollout; gives the metrics of the update."""

    def _scaled(self, observations: Array) -> Array:
        return observations if self._scale is None else self._scale(observations)

    # Prediction.

    @property
    def remembers(self) -> bool:
        """Whether an action depends on what was seen before."""
        return self.net.memory_width > 0

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of predictions anew, so that an evaluation repeats itself."""
        self._predicting = generator(seed, "predict")

    def predict(
        self, observation: Any, memory: Any, episode_start: Array, *, deterministic: bool, masks: Any = None
    ) -> tuple[Array, Any]:
        """Actions for a batch, and the memory for the next call, where the networks remember."""
        seen = self._flatten(observation)
        noise = None if deterministic else noise_of(self.net.head, self._predicting, len(seen))
        legal = None
        if masks is not None and self.net.head.discrete:
            legal = self.net.head.legal(masks, len(seen))
        if self.net.memory_width:
            known = np.zeros((len(seen), self.net.memory_width), np.float32) if memory is None else np.array(memory)
            known[np.asarray(episode_start, np.bool_)] = 0.0
            memory = known
        with blas_threads(1):
            drawn, _, _, memory = self.net.draw(self._scaled(seen), noise, legal, memory)
        return self.net.head.to_env(drawn), memory

    # State.

    def get_state(self) -> State:
        """Weights, optimiser, statistics, generators, counters, and the rollout so far."""
        first, second, steps = self.net.optimiser()
        parts = {
            "weights": self.net.weights(),
            "adam_first": first,
            "adam_second": second,
            "streams": self.net.streams(),
        }
        data: dict[str, Any] = {
            "agent": self._alias,
            "timesteps": self.timesteps,
            "gradient_steps": steps,
            "drawing": generator_state(self._drawing),
            "shuffling": generator_state(self._shuffling),
        }
        for name, scale in (("observations", self._scale), ("rewards", self._reward_scale)):
            if scale is not None:
                state = scale.get_state()
                parts[f"scale_{name}"], data[f"scale_{name}"] = state.arrays, state.data
        if self._rollout is not None:
            parts["rollout"] = self._rollout.get_state()
        if self._noise is not None:
            parts["noise"] = {"noise": self._noise}
        if self._memory is not None:
            parts["memory"] = {"memory": self._memory.copy(), "starts": self._starts.copy()}
        arrays = {f"{part}/{name}": array for part, its in parts.items() for name, array in its.items()}
        if self.observation is not None:
            arrays |= to_arrays(self.observation, "observation")
        return State(arrays, data)

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit; a learner that only predicts takes what it needs for that."""
        restore(self._alias, state, self._take)

    def _take(self, state: State) -> None:
        data = state.data
        self.net.set_weights(state.under("weights"))
        if self._scale is not None:
            self._scale.set_state(state.part("scale_observations"))
        self.timesteps = int(data["timesteps"])
        if self._rollout is None:
            return  # what only training needs may be of another device
        self.net.set_optimiser(state.under("adam_first"), state.under("adam_second"), int(data["gradient_steps"]))
        self.net.set_streams(state.under("streams"))
        set_generator_state(self._drawing, data["drawing"])
        set_generator_state(self._shuffling, data["shuffling"])
        if self._reward_scale is not None:
            self._reward_scale.set_state(state.part("scale_rewards"))
        self._rollout.set_state(state.under("rollout"))
        self._noise = state.under("noise").get("noise")
        if self._memory is not None:
            known = state.under("memory")
            self._memory, self._starts = np.array(known["memory"]), np.array(known["starts"])
        self.observation = last_observation(self._space, state.arrays)
        self._restored = True
