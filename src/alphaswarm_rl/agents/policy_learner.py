"""The learner that runs a policy, learns nothing, and resumes bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from alphaswarm_rl.agents.observations import last_observation, to_arrays
from alphaswarm_rl.agents.stepping import goes_on
from alphaswarm_rl.core.contracts import (
    AgentRequest,
    AnyVectorEnv,
    PolicyRequest,
    PolicyRunner,
    State,
    TrainingHooks,
)
from alphaswarm_rl.core.errors import CheckpointError
from alphaswarm_rl.core.kinds import Policy
from alphaswarm_rl.core.seeding import derived_seed

#: Vector steps between two boundaries; every step is whole here, so this only bounds how often the runtime is asked.
BOUNDARY_STEPS = 128

Array = np.ndarray[Any, Any]


def build_policy_learner(policy: Policy, request: AgentRequest) -> PolicyLearner:
    """The learner that runs `policy`, in the environment of `request` where there is one."""

    def build(seed: int, env: AnyVectorEnv | None) -> PolicyRunner:
        where = request if env is None else AgentRequest.for_env(env, seed)
        return policy.build(
            PolicyRequest(
                observation_space=where.observation_space,
                action_space=where.action_space,
                num_envs=where.num_envs,
                seed=seed,
                env=env,
                load_policy=request.load_policy,
            )
        )

    return PolicyLearner(build, request)


class PolicyLearner:
    """Runs a policy.

    Training and prediction have a policy runner each, so that an evaluation in between does not change what training
    draws, and because a policy may look at the environment it acts in, which is another one there. Only the training
    runner is state: predictions depend on their seed and on the predictions made since.

    After `set_state`, `train` goes on from the saved observation without a reset, provided that the environment offers
    `set_state` as well (and so was restored by whoever restored this); any other environment is reset. So is every one
    where the policy cannot go on bit for bit: a trained policy's draws are no part of its state.
    """

    rollout_transitions: int | None = None

    def __init__(self, build: Callable[[int, AnyVectorEnv | None], PolicyRunner], request: AgentRequest) -> None:
        self.timesteps = 0
        self._build = build
        self._training = build(derived_seed(request.seed, "policy", "train"), request.env)
        self.resume: Literal["exact", "approximate"] = getattr(self._training, "resume", "exact")
        self.seed_predictions(derived_seed(request.seed, "policy", "predict"), request.env)
        self._observation_space = request.observation_space
        self._observation: Any = None
        #: Where the observation is the first of an episode; policies that remember are told.
        self._starts = np.ones(request.num_envs, np.bool_)
        self._restored = False

    @property
    def observation(self) -> Any:
        """What training goes on from; None before its first reset."""
        return self._observation

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of predictions anew in that environment, so that an evaluation repeats itself."""
        self._predicting = self._build(seed, env)

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Steps until `timesteps` reaches `total_timesteps` or a halt; the state is whole after every step."""
        restored = goes_on(env) and self.resume == "exact"
        if self._observation is None or (self._restored and not restored):
            self._observation, _ = env.reset()
            self._starts = np.ones(env.num_envs, np.bool_)
        self._restored = False
        whole_at = self.timesteps
        episodic = _remembers(self._training)
        legal = getattr(env, "action_masks", None) if episodic else None
        while self.timesteps < total_timesteps:
            masks = None if legal is None else legal()
            actions = _act(self._training, self._observation, self._starts, deterministic=False, masks=masks)
            self._observation, _, terminated, truncated, _ = env.step(actions)
            if episodic:
                self._starts = np.asarray(terminated | truncated)
            self.timesteps += env.num_envs
            if hooks.should_halt():
                break
            if self.timesteps // env.num_envs % BOUNDARY_STEPS == 0:
                whole_at = self.timesteps
                hooks.boundary({})
        if self.timesteps != whole_at:
            hooks.boundary({})

    def predict(
        self, observation: Any, memory: Any, episode_start: Array, *, deterministic: bool, masks: Any = None
    ) -> tuple[Array, Any]:
        """The policy's actions; one that has a memory keeps it itself, and others are told neither starts nor masks."""
        return _act(self._predicting, observation, episode_start, deterministic=deterministic, masks=masks), None

    def get_state(self) -> State:
        """The policy's state, the counter and the last observation."""
        policy = self._training.get_state()
        arrays = policy.prefixed("policy")
        if self._observation is not None:
            arrays |= to_arrays(self._observation, "observation")
        if _remembers(self._training):
            arrays["starts"] = self._starts.copy()
        return State(arrays, {"timesteps": self.timesteps, "policy": policy.data})

    def set_state(self, state: State) -> None:
        """Continues from there."""
        arrays = {name.removeprefix("policy/"): a for name, a in state.arrays.items() if name.startswith("policy/")}
        observation = last_observation(self._observation_space, state.arrays)
        try:
            timesteps, policy = int(state.data["timesteps"]), State(arrays, dict(state.data["policy"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                "the state of agent 'policy'", f"it cannot be read: {error}", "Load a checkpoint of this agent."
            ) from error
        self._training.set_state(policy)
        self.timesteps = timesteps
        self._observation = observation
        self._starts = np.array(state.arrays.get("starts", self._starts), np.bool_)
        self._restored = True


def _remembers(runner: Any) -> bool:
    """Whether a policy wants to know where episodes start: it is an `EpisodicRunner`."""
    return hasattr(runner, "act_in_episodes")


def _act(runner: Any, observation: Any, starts: Array, *, deterministic: bool, masks: Any) -> Array:
    acted: Array
    if _remembers(runner):
        acted = runner.act_in_episodes(observation, starts, deterministic=deterministic, masks=masks)
    else:
        acted = runner.act(observation, deterministic=deterministic)
    return acted
