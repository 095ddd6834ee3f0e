"""The learner of our own DQN."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.agents.encoders import encoded_shape, encoder_for
from alphaswarm_rl.agents.native.q_function import QFunction, QNetwork
from alphaswarm_rl.agents.native.restoring import restore
from alphaswarm_rl.agents.observations import flattening, last_observation, select_rows, to_arrays
from alphaswarm_rl.agents.stepping import goes_on, refuse_other_autoreset
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
from alphaswarm_rl.core.seeding import derived_seed, generator
from alphaswarm_rl.replay_buffers.nstep import NStepBuffer, NStepWindows

if TYPE_CHECKING:
    from alphaswarm_rl.agents.native.ddqn import DdqnInhouse

Array = np.ndarray[Any, Any]

_log = logging.getLogger(__name__)

#: Vector steps between two boundaries; every step is whole here, so this only bounds how often the runtime is asked.
BOUNDARY_STEPS = 128


class DdqnLearner:
    """Acts by its Q-function, remembers, and learns from what it remembers.

    Its state is whole after every vector step, the replay buffer with its open windows included: a run goes on bit for
    bit from wherever it was stopped, provided that the environment can too; elsewhere episodes begin anew.

    What was legal in the last state of a truncated episode nobody says any more: there every action is.

    Args:
        alias: Name of the agent.
        config: Its parameters.
        request: What it is built for.
    """

    resume: Literal["exact", "approximate"] = "exact"
    rollout_transitions: int | None = None

    def __init__(self, alias: str, config: DdqnInhouse.Config, request: AgentRequest) -> None:
        actions = request.action_space
        if not isinstance(actions, spaces.Discrete):
            raise EnvError(
                f"action space {actions}",
                f"the agent {alias!r} chooses one of several actions",
                "Use an environment with Discrete actions, or ppo_inhouse.",
            )
        self.timesteps = 0
        self.observation: Any = None
        self._alias = alias
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
                f"encoder {config.encoder.name!r} with one step per observation",
                f"{alias!r} learns from single transitions, and carries no state from one to the next",
                "Set obs.stack_frames and leave its length out, or use ppo_inhouse.",
            )
        network = QNetwork(
            self._width,
            config.net_arch,
            self._actions,
            activation=config.activation,
            dueling=config.dueling,
            encoder=encoder,
            shape=encoded_shape(config, request),
        )
        self._q = QFunction(
            network,
            generator=generator(request.seed, "weights"),
            device=request.device,
            learning_rate=config.learning_rate,
            max_grad_norm=config.max_grad_norm,
            adam_eps=config.adam_eps,
            double=config.double,
            dropout_seed=derived_seed(request.seed, "dropout"),
        )
        self._exploring = generator(request.seed, "explore")
        self._replay = self._memory(request) if request.training else None
        self._gradient_steps = 0
        self._metrics: dict[str, float] = {}
        self._restored = False
        self.seed_predictions(request.seed)

    def _memory(self, request: AgentRequest) -> BuiltReplayBuffer:
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
        asked = ReplayBufferRequest(windows.fields, n, derived_seed(request.seed, "replay"))
        return NStepBuffer(windows, self._config.replay.build().build(asked), n)

    # Training.

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Acts and learns until `timesteps` reaches `total_timesteps` or a halt."""
        replay = self._replay
        assert replay is not None
        refuse_other_autoreset(env)
        if self._config.learning_starts >= total_timesteps:
            _log.warning(
                "%s learns nothing: learning_starts is %d, and the training ends after %d transitions",
                self._alias,
                self._config.learning_starts,
                total_timesteps,
            )
        if self.observation is None or (self._restored and not goes_on(env)):
            self._begin(env, replay)
        self._restored = False
        whole_at, masks = self.timesteps, self._masks_of(env)
        while self.timesteps < total_timesteps:
            masks = self._step(env, replay, masks)
            self._learn_what_is_due(env.num_envs, replay)
            if hooks.should_halt():
                break
            if self.timesteps // env.num_envs % BOUNDARY_STEPS == 0:
                whole_at = self.timesteps
                hooks.boundary(self._report())
        if self.timesteps != whole_at:
            hooks.boundary(self._report())

    def _begin(self, env: AnyVectorEnv, replay: BuiltReplayBuffer) -> None:
        self.observation, _ = env.reset()
        replay.break_off()

    def _step(self, env: AnyVectorEnv, replay: BuiltReplayBuffer, masks: Array | None) -> Array | None:
        """One step of all environments, remembered; gives the masks of what is seen now."""
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
        replay.append({name: array[None] for name, array in step.items()})
        self.timesteps += env.num_envs
        return masks

    def _learn_what_is_due(self, num_envs: int, replay: BuiltReplayBuffer) -> None:
        config = self._config
        due = self.timesteps // num_envs % config.train_freq == 0
        if not due or self.timesteps < config.learning_starts or not len(replay):
            return
        for _ in range(config.gradient_steps):
            sample = replay.sample(config.batch_size)
            found = sample.fields
            errors, told = self._q.learn(
                found["observation"],
                found["action"],
                found["reward"],
                np.where(found["terminated"], 0.0, found["discount"]).astype(np.float32),
                found["next_observation"],
                found.get("next_mask"),
                sample.weights.astype(np.float32),
            )
            replay.update_priorities(sample.indices, errors)
            self._gradient_steps += 1
            if self._gradient_steps % config.target_update_interval == 0:
                self._q.update_target(config.tau)
            self._metrics = {"td_error": float(np.abs(errors).mean()), **told}

    @property
    def epsilon(self) -> float:
        """The chance of a random action now."""
        config = self._config
        progress = min(1.0, self.timesteps / config.exploration_steps)
        return config.exploration_initial_eps + progress * (
            config.exploration_final_eps - config.exploration_initial_eps
        )

    def _report(self) -> dict[str, float]:
        told = {
            **self._metrics,
            "epsilon": self.epsilon,
            "learning_rate": self._config.learning_rate,
            "n_updates": float(self._gradient_steps),
        }
        return {f"train/{name}": value for name, value in told.items()}

    def _act(self, seen: Array, epsilon: float, drawing: np.random.Generator, masks: Array | None) -> Array:
        """The best legal actions, or any legal one by that chance; counted from 0."""
        best = self._best(seen, masks)
        if epsilon == 0:
            return best
        lots = drawing.random((len(seen), self._actions + 1))
        any_legal = lots[:, 1:] if masks is None else np.where(masks, lots[:, 1:], -1.0)
        return np.where(lots[:, 0] < epsilon, any_legal.argmax(axis=1), best)

    def _best(self, seen: Array, masks: Array | None) -> Array:
        values = self._q.values(seen)
        best: Array = (values if masks is None else np.where(masks, values, -np.inf)).argmax(axis=1)
        return best

    def _masks_of(self, env: Any) -> Array | None:
        return np.asarray(env.action_masks(), np.bool_) if self._masked else None

    def _to_env(self, actions: Array) -> Array:
        return (actions + self._first_action).astype(self._action_type)

    # Prediction.

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of predictions anew, so that an evaluation repeats itself."""
        self._predicting = generator(seed, "predict")

    def predict(
        self, observation: Any, memory: Any, episode_start: Array, *, deterministic: bool, masks: Any = None
    ) -> tuple[Array, Any]:
        """The best legal actions; where it may draw, now and then another one. It has no memory."""
        legal = None if masks is None else np.asarray(masks, np.bool_)
        epsilon = 0.0 if deterministic else self._config.exploration_final_eps
        return self._to_env(self._act(self._flatten(observation), epsilon, self._predicting, legal)), None

    # State.

    def get_state(self) -> State:
        """Weights, optimiser, memory, generators, counters, and what was seen last."""
        arrays = self._q.get_arrays()
        data: dict[str, Any] = {
            "agent": self._alias,
            "timesteps": self.timesteps,
            "gradient_steps": self._gradient_steps,
            "exploring": generator_state(self._exploring),
        }
        if self._replay is not None:
            replay = self._replay.get_state()
            arrays |= replay.prefixed("replay")
            data["replay"] = replay.data
        if self.observation is not None:
            arrays |= to_arrays(self.observation, "observation")
        return State(arrays, data)

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit; a learner that only predicts takes what it needs for that."""
        restore(self._alias, state, self._take)

    def _take(self, state: State) -> None:
        data = state.data
        self._gradient_steps = int(data["gradient_steps"])
        self._q.set_arrays(state.arrays, self._gradient_steps)
        set_generator_state(self._exploring, data["exploring"])
        self.timesteps = int(data["timesteps"])
        if self._replay is None:
            return
        self._replay.set_state(state.part("replay"))
        self.observation = last_observation(self._space, state.arrays)
        self._restored = True
