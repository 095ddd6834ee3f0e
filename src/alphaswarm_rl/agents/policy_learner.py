"""The learner that runs a fixed policy: it acts and counts steps, learns nothing, and resumes bit for bit.

With it a rule (equal weight, random) or a policy that was trained elsewhere goes through the same runtime as an agent
that learns. A policy builds a runner for n environments: observations (n, ...) and, for a policy that remembers, flags
(n,) of where episodes start go in, actions (n, ...) come out. The state is that of the training runner, the number of
steps, the last observation (n, ...) and the flags.
"""

from __future__ import annotations

from typing import Literal, TypeGuard

import numpy as np

from alphaswarm_rl.agents.observations import last_observation, to_arrays
from alphaswarm_rl.agents.stepping import can_restore, train_by_steps
from alphaswarm_rl.core.contracts import (
    AgentRequest,
    AnyVectorEnv,
    EpisodicRunner,
    PolicyRequest,
    PolicyRunner,
    State,
    TrainingHooks,
)
from alphaswarm_rl.core.errors import CheckpointError
from alphaswarm_rl.core.kinds import Policy
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.types import Array, Batch, Masks


class PolicyLearner:
    """Runs a policy, in the environment of the request where there is one.

    Training and prediction have a policy runner each, so that an evaluation in between does not change what training
    draws, and because a policy may look at the environment it acts in, which is another one there. Only the training
    runner is state: predictions depend on their seed and on the predictions made since.

    After `set_state`, `train` goes on from the saved observation without a reset, provided that the environment offers
    `set_state` as well (and so was restored by whoever restored this); any other environment is reset. So is every one
    where the policy cannot go on bit for bit: a trained policy's draws are no part of its state.
    """

    rollout_transitions: int | None = None
    #: It learns nothing.
    updates = 0

    def __init__(self, policy: Policy, request: AgentRequest) -> None:
        self.timesteps = 0
        self._policy, self._request = policy, request
        self._training = self._build(derived_seed(request.seed, "policy", "train"), request.env)
        self.resume: Literal["exact", "approximate"] = getattr(self._training, "resume", "exact")
        self.seed_predictions(derived_seed(request.seed, "policy", "predict"), request.env)
        self._space = request.observation_space
        #: What training goes on from; None before its first reset.
        self.observation: Batch | None = None
        #: Where the observation is the first of an episode; only policies that remember need it.
        self._starts = np.ones(request.num_envs, np.bool_)
        self._restored = False

    def _build(self, seed: int, env: AnyVectorEnv | None) -> PolicyRunner:
        where = self._request if env is None else AgentRequest.for_env(env, seed)
        spaces = where.observation_space, where.action_space
        load = self._request.load_policy
        return self._policy.build(PolicyRequest(*spaces, where.num_envs, seed, env=env, load_policy=load))

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of predictions anew in that environment, so that an evaluation repeats itself."""
        self._predicting = self._build(seed, env)

    def begin_with(self, state: State) -> None:
        """Refuses: a rule has nothing that another training could have learnt."""
        raise CheckpointError("the agent 'policy'", "it learns nothing that it could begin with", "Leave it out.")

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Steps until `timesteps` reaches `total_timesteps` or a halt; the state is whole after every step."""
        restored = can_restore(env) and self.resume == "exact"
        if self.observation is None or (self._restored and not restored):
            self.observation, _ = env.reset()
            self._starts = np.ones(env.num_envs, np.bool_)
        self._restored = False
        episodic = _is_episodic(self._training)
        legal = getattr(env, "action_masks", None) if episodic else None

        def step() -> None:
            masks = None if legal is None else legal()
            actions = _act(self._training, self.observation, self._starts, deterministic=False, masks=masks)
            self.observation, _, terminated, truncated, _ = env.step(actions)
            if episodic:
                self._starts = np.asarray(terminated | truncated)
            self.timesteps += env.num_envs

        train_by_steps(self, env.num_envs, total_timesteps, hooks, step, dict)

    def predict(
        self, observation: Batch, memory: object, episode_start: Array, *, deterministic: bool, masks: Masks = None
    ) -> tuple[Array, None]:
        """The policy's actions; one that remembers keeps its memory itself, and others get neither starts nor masks."""
        return _act(self._predicting, observation, episode_start, deterministic=deterministic, masks=masks), None

    def get_state(self) -> State:
        """The policy's state, the counter and the last observation."""
        policy = self._training.get_state()
        arrays = policy.prefixed("policy")
        if self.observation is not None:
            arrays |= to_arrays(self.observation)
        if _is_episodic(self._training):
            arrays["starts"] = self._starts.copy()
        return State(arrays, {"timesteps": self.timesteps, "policy": policy.data})

    def set_state(self, state: State) -> None:
        """Continues from there."""
        observation = last_observation(self._space, state.arrays)
        try:
            timesteps, policy = int(state.data["timesteps"]), state.part("policy")
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                "the state of agent 'policy'", f"it cannot be read: {error}", "Load a checkpoint of this agent."
            ) from error
        self._training.set_state(policy)
        self.timesteps = timesteps
        self.observation = observation
        self._starts = np.array(state.arrays.get("starts", self._starts), np.bool_)
        self._restored = True


def _is_episodic(runner: PolicyRunner) -> TypeGuard[EpisodicRunner]:
    """Whether a policy remembers, and so must know where episodes start."""
    return hasattr(runner, "act_in_episodes")


def _act(runner: PolicyRunner, observation: Batch, starts: Array, *, deterministic: bool, masks: Array | None) -> Array:
    if _is_episodic(runner):
        return runner.act_in_episodes(observation, starts, deterministic=deterministic, masks=masks)
    return runner.act(observation, deterministic=deterministic)
