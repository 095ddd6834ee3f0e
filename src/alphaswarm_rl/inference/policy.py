"""A checkpoint's policy, ready to answer.

A checkpoint of schema 2 holds all that answering needs: neither an environment is built nor data read. One of schema 1,
or with a space that has no JSON form, does not say which spaces it is of, and a rule that looks at the market needs an
environment: there it is built, and never stepped.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.arrays.backend import resolve_device
from alphaswarm_rl.core.contracts import AgentRequest, AnyVectorEnv, Learner, State
from alphaswarm_rl.core.errors import CheckpointError, DataError, EnvError
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.types import AnyObservation, AnySpace, Array, JsonObject
from alphaswarm_rl.envs.observation_transform import ObservationTransform
from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint, restoring
from alphaswarm_rl.inference.observation_batch import as_batch
from alphaswarm_rl.inference.policy_plan import PolicyPlan, read_plan, refuse_hindsight
from alphaswarm_rl.inference.policy_stream import PolicyStream
from alphaswarm_rl.inference.process import cpu_threads
from alphaswarm_rl.models.rows import Scope
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, refuse_absent

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.execution.bridge import RLAgentBridge
    from alphaswarm_rl.inference.builder import Builder
    from alphaswarm_rl.market.market import Market
    from alphaswarm_rl.market.panel import MarketPanel

#: How far beyond a bound a number may round.
_ROUNDING = 1e-5


class LoadedPolicy:
    """A policy that answers batches of observations as they come from the environment; clients ask its `stream()`s.

    One thread asks it at a time. Its learner is built when it is first needed: of all that loading does, only this
    draws from the process's generators.

    Args:
        loaded: The verified checkpoint.
        settings: The device, and where data lie.
        frames: Data frames for the data pipeline `frame`, by name.
    """

    def __init__(
        self, loaded: LoadedCheckpoint, settings: Settings, *, frames: Mapping[str, pd.DataFrame] | None = None
    ) -> None:
        self.spec = loaded.trained_spec
        refuse_absent(self.spec)
        self.checkpoint = loaded.checkpoint
        self.device = resolve_device(settings.infer.device)
        self._states, self.seed = loaded.states, loaded.seed
        self.settings, self.frames = settings, frames or {}
        self._env: AnyVectorEnv | None = None
        plan = None if loaded.policy is None else read_plan(loaded.policy, checkpoint=str(loaded.checkpoint.path))
        if plan is None or plan.needs_env:
            builder, window = self._builder(self.spec), self.spec.evaluation.window
            self._env = builder.build_env("infer", num_envs=1, phase="evaluate", window=window)
            plan = builder.policy_plan(self._env, window, remembers=False)
        refuse_hindsight(plan.observation.hindsight)
        self.plan: PolicyPlan = plan

    def _builder(self, spec: RLExperimentSpec) -> Builder:
        from alphaswarm_rl.inference.builder import builder_for

        builder = builder_for(spec, self.settings, seed=self.seed, device=self.device, frames=self.frames)
        with restoring(self.checkpoint.path):
            builder.restore_data(self._states)
        return builder

    @cached_property
    def _learner(self) -> Learner:
        from alphaswarm_rl.inference.frozen_policies import FrozenPolicies

        transform, spec = self.observation_transform(), self.spec
        assert spec.agent is not None
        advantage = spec.training.advantage
        learner: Learner = spec.agent.build().build(
            AgentRequest(
                observation_space=self.observation_space if transform is None else transform.space,
                action_space=self.action_space,
                num_envs=1,
                seed=derived_seed(self.seed, "agent"),
                device=self.device,
                training=False,
                advantage=None if advantage is None else advantage.build(),
                load_policy=FrozenPolicies(self.settings, self.frames),
                stacked_frames=None if transform is None else transform.stacked_frames,
                masks=self.plan.action.masks,
                env=self._env,
            )
        )
        with restoring(self.checkpoint.path):
            learner.set_state(self._states["learner"])
        # What training alone needs, a replay buffer among it, is not kept.
        self._states = {name: state for name, state in self._states.items() if name in ("data", "preprocessing")}
        return learner

    def build(self) -> None:
        """Builds what answers, unless it is built already."""
        # Loading torch makes a million objects that all stay: looking for garbage among them takes a tenth of the time.
        collects = gc.isenabled()
        gc.disable()
        try:
            _ = self._learner
        finally:
            if collects:
                gc.enable()

    @property
    def observation_space(self) -> AnySpace:
        """The space of one observation, before any preprocessing."""
        return self.plan.observation.space

    @property
    def action_space(self) -> AnySpace:
        """The space of one action."""
        return self.plan.action.space

    @property
    def scope(self) -> Scope:
        """The models that may stand in for this one."""
        return self.plan.scope

    @property
    def remembers(self) -> bool:
        """Whether an answer depends on what the same client asked before."""
        return self.plan.remembers or bool(getattr(self._learner, "remembers", False))

    def observation_transform(self) -> ObservationTransform | None:
        """What is done to one client's observations, with the statistics of the training; None: nothing."""
        settings = self.plan.observation.preprocessing.settings
        if settings.changes_nothing:
            return None
        transform = ObservationTransform(self.observation_space, settings)
        if "preprocessing" in self._states:
            with restoring(self.checkpoint.path):
                transform.load_statistics(self._states["preprocessing"])
        return transform

    def stream(self) -> PolicyStream:
        """The policy for a new client, of whom nothing is remembered yet."""
        return PolicyStream(self)

    def bridge(self, market: Market, *, deterministic: bool = True) -> RLAgentBridge:
        """The policy as strategies of backtest engines ask it, for a new client; no environment is built.

        Args:
            market: The bars, as the policy sees them: see `market`.
            deterministic: Whether it acts without drawing.
        """
        from alphaswarm_rl.execution.bridge import RLAgentBridge

        observer, decider = self.plan.observer(market, 1), self.plan.decider(market, 1)
        return RLAgentBridge(self.stream(), observer, decider, deterministic=deterministic)

    def market(self, panel: MarketPanel) -> Market:
        """Bars as the policy saw them in training, for the plan's observer and decider.

        Args:
            panel: The bars so far with their features, before any scaling.
        """
        from alphaswarm_rl.arrays.backend_numpy import NUMPY
        from alphaswarm_rl.market.fills import fill_policy
        from alphaswarm_rl.market.market import market_of

        self.refuse_other_assets(panel)
        traded, pipeline = self.plan.traded_market(), self.spec.data_pipeline
        if pipeline is not None:
            panel = pipeline.build().apply(panel, self.fitted)
        return market_of(panel, fill_policy(traded.fill), NUMPY)

    def refuse_other_assets(self, panel: MarketPanel) -> None:
        """Refuses bars of other assets than those that the policy trades, and of those in another order."""
        traded = self.plan.traded_market()
        if panel.assets != traded.assets:
            raise DataError(
                f"bars of the assets {', '.join(panel.assets)}",
                f"the policy trades {', '.join(traded.assets)}",
                "Give bars of those, in that order.",
            )

    @property
    def fitted(self) -> State:
        """What the scaler of its data pipeline learnt in training."""
        return self._states["data"]

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of its draws anew, for predictions in that environment where there is one."""
        self._learner.seed_predictions(seed, self._env if env is None else env)

    def predict(
        self,
        observation: AnyObservation,
        memory: object,
        starts: Array,
        *,
        deterministic: bool,
        masks: Array | None = None,
    ) -> tuple[Array, object]:
        """One action per observation, prepared as in training, and the memory for the next; see `Learner.predict`."""
        with cpu_threads(self.settings.infer.threads, load_torch=False):
            action, memory = self._learner.predict(
                observation, memory, starts, deterministic=deterministic, masks=masks
            )
        actions = np.asarray(action)
        if not np.isfinite(actions).all():
            raise CheckpointError(
                f"checkpoint {str(self.checkpoint.path)!r}",
                f"its policy answers {actions.tolist()}",
                "Use another checkpoint.",
            )
        return actions, memory

    def warm_up(self) -> object:
        """Its action for a sample observation; one that is not in the action space is an error."""
        space = deepcopy(self.observation_space)
        space.seed(0)
        batch, _ = as_batch(space.sample(), space)
        actions = self.stream().act(batch, deterministic=True)
        refuse_other_than_actions(f"checkpoint {str(self.checkpoint.path)!r}", actions, self.action_space)
        return actions[0].tolist()

    def roll_out(
        self,
        episodes: int,
        *,
        env_id: str | None = None,
        deterministic: bool = True,
        before_step: Callable[[], None] | None = None,
    ) -> Iterator[JsonObject]:
        """Plays episodes in an environment that is built for it, one answer per step as it is given.

        Args:
            episodes: How many episodes: the first ones of the run's own evaluation.
            env_id: A Gymnasium id or the alias of an environment of the same spaces; None takes the spec's.
            deterministic: Whether it acts without drawing.
            before_step: Called before every step; what it raises ends the episodes.
        """
        from alphaswarm_rl.inference.builder import load_preprocessing
        from alphaswarm_rl.options.resolve import effective_spec

        spec = self.spec if env_id is None else effective_spec(self.spec, {"env.envId": env_id}, {}).spec
        builder = self._builder(spec)
        with closing(builder.build_env("evaluate", num_envs=1, phase="evaluate", window=spec.evaluation.window)) as env:
            self._refuse_other_spaces(env, env_id)
            with restoring(self.checkpoint.path):
                load_preprocessing(env, self._states.get("preprocessing"))
            seed = derived_seed(self.seed, "evaluate")
            self.seed_predictions(seed, env)
            observation, _ = env.reset(seed=seed)
            memory: object = None
            episode, step, starts = 0, 0, np.array([True])
            masks = getattr(env, "action_masks", None)
            while episode < episodes:
                if before_step is not None:
                    before_step()
                legal = None if masks is None else masks()
                action, memory = self.predict(observation, memory, starts, deterministic=deterministic, masks=legal)
                observation, rewards, terminated, truncated, _ = env.step(action)
                starts = terminated | truncated
                yield {
                    "episode": episode,
                    "step": step,
                    "action": action[0].tolist(),
                    "reward": float(rewards[0]),
                    "ends": bool(starts[0]),
                    "checkpoint_sha256": self.checkpoint.sha256,
                }
                episode, step = (episode + 1, 0) if starts[0] else (episode, step + 1)

    def _refuse_other_spaces(self, env: AnyVectorEnv, env_id: str | None) -> None:
        transform = self.observation_transform()
        seen = self.observation_space if transform is None else transform.space
        for name, played, trained in (
            ("observation", env.single_observation_space, seen),
            ("action", env.single_action_space, self.action_space),
        ):
            if played != trained:
                raise EnvError(
                    f"environment {env_id!r}",
                    f"its {name} space is {played}, and the policy was trained for {trained}",
                    "Choose an environment of the same spaces.",
                )

    def close(self) -> None:
        """Frees the environment, where one was built."""
        if self._env is not None:
            self._env.close()


def refuse_other_than_actions(what: str, actions: Array, space: AnySpace) -> None:
    """Refuses answers that are no actions of that space, but for rounding at its bounds."""
    if not _are_actions(actions, space):
        raise CheckpointError(what, f"its policy answers {actions.tolist()}, which is not in {space}", "Use another.")


def _are_actions(actions: Array, space: AnySpace) -> bool:
    if actions.shape[1:] != space.shape:
        return False
    if isinstance(space, spaces.Box):
        room = _ROUNDING * (1 + np.abs(actions))
        return bool(((actions >= space.low - room) & (actions <= space.high + room)).all())
    if isinstance(space, spaces.Discrete):
        return bool(((actions >= int(space.start)) & (actions < int(space.start) + int(space.n))).all())
    return all(space.contains(action) for action in actions)
