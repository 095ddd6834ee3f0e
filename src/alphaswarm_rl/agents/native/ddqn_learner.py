"""The learner of our own DQN: it acts by its Q-function, keeps transitions, and learns from those it draws again.

Observations are flat rows (N, width). The replay buffer gets steps (1, N, ...) and gives transitions over several
steps, one row each. The state is whole after every vector step, the replay buffer with its open windows included: a
run goes on bit for bit from wherever it was stopped, provided that the environment can too; elsewhere episodes begin
anew.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.agents.encoders import encoded_shape, encoder_for
from alphaswarm_rl.agents.native.learner import NativeLearner
from alphaswarm_rl.agents.native.q_function import QFunction, QNetwork
from alphaswarm_rl.agents.observations import flattening, last_observation, select_rows, to_arrays
from alphaswarm_rl.agents.stepping import require_same_step_autoreset, train_by_steps
from alphaswarm_rl.core.contracts import (
    AgentRequest,
    AnyVectorEnv,
    BuiltReplayBuffer,
    ReplayBufferField,
    ReplayBufferRequest,
    State,
    TrainingHooks,
)
from alphaswarm_rl.core.errors import ComponentError, EnvError
from alphaswarm_rl.core.generator_state import generator_state, set_generator_state
from alphaswarm_rl.core.refs import ComponentRef
from alphaswarm_rl.core.seeding import derived_seed, generator
from alphaswarm_rl.core.types import Array, Batch, JsonObject, Masks
from alphaswarm_rl.replay_buffers.nstep import NStepBuffer, NStepWindows

if TYPE_CHECKING:
    from alphaswarm_rl.agents.native.ddqn import DdqnInhouse

_log = logging.getLogger(__name__)


class DdqnLearner(NativeLearner):
    """Acts and learns in any batched environment with discrete actions.

    Which actions were legal in the last state of a truncated episode no environment says any more: there every one is.

    Args:
        alias: Name of the agent.
        config: Its parameters.
        request: What it is built for.
    """

    def __init__(self, alias: str, config: DdqnInhouse.Config, request: AgentRequest) -> None:
        actions = request.action_space
        if not isinstance(actions, spaces.Discrete):
            raise EnvError(
                f"action space {actions}",
                f"the agent {alias!r} chooses one of several actions",
                "Use an environment with Discrete actions, or ppo_inhouse.",
            )
        super().__init__(alias)
        self._config = config
        self._actions = int(actions.n)
        self._first_action = int(actions.start)
        self._action_type = actions.dtype
        self._space = request.observation_space
        self._width, self._flatten = flattening(self._space)
        self._masked = request.masks
        encoder = encoder_for(config, request, carries_state=False)
        if getattr(encoder, "recurrent", False):
            raise ComponentError(
                f"encoder {_name(config.encoder)!r} with one step per observation",
                f"{alias!r} learns from single transitions, and carries no state from one to the next",
                "Set obs.stack_frames and leave its length out, or use ppo_inhouse.",
            )
        self._q = QFunction(
            QNetwork(self._width, self._actions, config, encoder, encoded_shape(config, request)),
            config,
            generator=generator(request.seed, "weights"),
            device=request.device,
            dropout_seed=derived_seed(request.seed, "dropout"),
        )
        self._exploring = generator(request.seed, "explore")
        self._buffer = self._new_buffer(request) if request.training else None
        self._gradient_steps = 0
        self._metrics: dict[str, float] = {}
        self.seed_predictions(request.seed)

    def _new_buffer(self, request: AgentRequest) -> BuiltReplayBuffer:
        observation, n = ReplayBufferField((self._width,)), request.num_envs
        fields = {
            "observation": observation,
            "action": ReplayBufferField(dtype=np.int64),
            "reward": ReplayBufferField(),
            "next_observation": observation,
            "terminated": ReplayBufferField(dtype=np.bool_),
            "truncated": ReplayBufferField(dtype=np.bool_),
        }
        if self._masked:
            fields["next_mask"] = ReplayBufferField((self._actions,), np.bool_)
        windows = NStepWindows(fields, n, self._config.n_steps, self._config.gamma)
        storage = ReplayBufferRequest(windows.fields, n, derived_seed(request.seed, "replay"))
        return NStepBuffer(windows, self._config.replay.build().build(storage))

    # Training.

    @property
    def updates(self) -> int | None:
        """Gradient steps that made its policy."""
        return self._gradient_steps

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Acts and learns until `timesteps` reaches `total_timesteps` or a halt."""
        buffer = self._buffer
        assert buffer is not None
        require_same_step_autoreset(env)
        if self._config.learning_starts >= total_timesteps:
            _log.warning(
                "%s learns nothing: learning_starts is %d, and the training ends after %d transitions",
                self._alias,
                self._config.learning_starts,
                total_timesteps,
            )
        if self._needs_reset(env):
            self.observation, _ = env.reset()
            buffer.break_off()
        masks = self._masks_of(env)

        def step() -> None:
            nonlocal masks
            masks = self._step(env, buffer, masks)
            self._learn_if_due(env.num_envs, buffer)

        train_by_steps(self, env.num_envs, total_timesteps, hooks, step, self._report)

    def _step(self, env: AnyVectorEnv, buffer: BuiltReplayBuffer, masks: Array | None) -> Array | None:
        """One step of all environments, kept in the buffer; gives the masks of what is seen now."""
        seen = self._flatten(self.observation)
        actions = self._act(seen, self.epsilon, self._exploring, masks)
        self.observation, rewards, terminated, truncated, infos = env.step(self._to_env(actions))
        after = self._flatten(self.observation)
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            after = after.copy()
            after[ended] = self._flatten(select_rows(infos["final_obs"], ended))
        masks = self._masks_of(env)
        step = {
            "observation": seen,
            "action": actions,
            "reward": np.asarray(rewards, np.float32),
            "next_observation": after,
            "terminated": terminated,
            "truncated": truncated,
        }
        if masks is not None:
            step["next_mask"] = masks | np.asarray(truncated)[:, None]
        buffer.append({name: array[None] for name, array in step.items()})
        self.timesteps += env.num_envs
        return masks

    def _learn_if_due(self, num_envs: int, buffer: BuiltReplayBuffer) -> None:
        config = self._config
        due = self.timesteps // num_envs % config.train_freq == 0
        if not due or self.timesteps < config.learning_starts or not len(buffer):
            return
        for _ in range(config.gradient_steps):
            sample = buffer.sample(config.batch_size)
            errors, metrics = self._q.learn(sample.fields, sample.weights.astype(np.float32))
            buffer.update_priorities(sample.indices, errors)
            self._gradient_steps += 1
            if self._gradient_steps % config.target_update_interval == 0:
                self._q.update_target(config.tau)
            self._metrics = {"td_error": float(np.abs(errors).mean()), **metrics}

    @property
    def epsilon(self) -> float:
        """The chance of a random action now."""
        config = self._config
        progress = min(1.0, self.timesteps / config.exploration_steps)
        return config.exploration_initial_eps + progress * (
            config.exploration_final_eps - config.exploration_initial_eps
        )

    def _report(self) -> dict[str, float]:
        metrics = {
            **self._metrics,
            "epsilon": self.epsilon,
            "learning_rate": self._config.learning_rate,
            "n_updates": float(self._gradient_steps),
        }
        return {f"train/{name}": value for name, value in metrics.items()}

    def _act(self, seen: Array, epsilon: float, drawing: np.random.Generator, masks: Array | None) -> Array:
        """The best legal actions, or any legal one by that chance; counted from 0."""
        best = self._best(seen, masks)
        if epsilon == 0:
            return best
        draws = drawing.random((len(seen), self._actions + 1))
        any_legal = draws[:, 1:] if masks is None else np.where(masks, draws[:, 1:], -1.0)
        return np.where(draws[:, 0] < epsilon, any_legal.argmax(axis=1), best)

    def _best(self, seen: Array, masks: Array | None) -> Array:
        values = self._q.values(seen)
        best: Array = (values if masks is None else np.where(masks, values, -np.inf)).argmax(axis=1)
        return best

    def _masks_of(self, env: AnyVectorEnv) -> Array | None:
        return np.asarray(env.action_masks(), np.bool_) if self._masked else None  # type: ignore[attr-defined]

    def _to_env(self, actions: Array) -> Array:
        return (actions + self._first_action).astype(self._action_type)

    # Prediction.

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of predictions anew, so that an evaluation repeats itself."""
        self._predicting = generator(seed, "predict")

    def predict(
        self, observation: Batch, memory: object, episode_start: Array, *, deterministic: bool, masks: Masks = None
    ) -> tuple[Array, None]:
        """The best legal actions; where it may draw, now and then another one. It has no memory."""
        legal = None if masks is None else np.asarray(masks, np.bool_)
        epsilon = 0.0 if deterministic else self._config.exploration_final_eps
        return self._to_env(self._act(self._flatten(observation), epsilon, self._predicting, legal)), None

    # State.

    def get_state(self) -> State:
        """Weights, optimiser, replay buffer, generators, counters, and what was seen last."""
        arrays = self._q.get_arrays()
        data: JsonObject = {
            "agent": self._alias,
            "timesteps": self.timesteps,
            "gradient_steps": self._gradient_steps,
            "exploring": generator_state(self._exploring),
        }
        if self._buffer is not None:
            buffer = self._buffer.get_state()
            arrays |= buffer.prefixed("replay")
            data["replay"] = buffer.data
        if self.observation is not None:
            arrays |= to_arrays(self.observation)
        return State(arrays, data)

    def _load_policy(self, state: State) -> None:
        self._q.begin_with(state.arrays)

    def _load(self, state: State) -> bool:
        data = state.data
        self._gradient_steps = int(data["gradient_steps"])
        self._q.set_arrays(state.arrays, self._gradient_steps)
        set_generator_state(self._exploring, data["exploring"])
        self.timesteps = int(data["timesteps"])
        if self._buffer is None:
            return False
        self._buffer.set_state(state.part("replay"))
        self.observation = last_observation(self._space, state.arrays)
        return True


def _name(encoder: str | ComponentRef | None) -> str | None:
    return encoder.name if isinstance(encoder, ComponentRef) else encoder
