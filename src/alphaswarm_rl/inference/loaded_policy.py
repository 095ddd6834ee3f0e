"""A checkpoint's policy, built and ready to answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.arrays.backend import resolve_device
from alphaswarm_rl.core.contracts import AnyVectorEnv, Learner
from alphaswarm_rl.core.errors import CheckpointError, EnvError, RunError
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.envs.observation_transform import ObservationTransform
from alphaswarm_rl.envs.preprocessing import PreprocessedEnv
from alphaswarm_rl.inference.building import Builder, lake_of, load_preprocessing
from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint
from alphaswarm_rl.inference.cpu_threads import cpu_threads
from alphaswarm_rl.inference.observation_batch import as_batch, batch_length
from alphaswarm_rl.inference.scopes import raw_env, scope_of
from alphaswarm_rl.inference.selection import trained_by
from alphaswarm_rl.models.rows import Scope
from alphaswarm_rl.options import effective_spec
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, refuse_absent

Array = np.ndarray[Any, Any]

#: How far beyond a bound a number may round.
_ROUNDING = 1e-5


@dataclass
class Stream:
    """What a policy remembers of one asker: stacked frames and a memory, for each observation of its batches.

    Attributes:
        transform: What is done to its observations; None: nothing.
        memory: The memory of a recurrent policy.
        length: How many observations it asks at a time; None before it first asks.
    """

    transform: ObservationTransform | None
    memory: Any = None
    length: int | None = None


class LoadedPolicy:
    """A policy that answers batches of observations as they come from the environment.

    One thread asks it at a time.

    Args:
        loaded: The verified checkpoint.
        settings: The device.
        frames: Data frames for the data pipeline `frame`, by name.
    """

    def __init__(
        self, loaded: LoadedCheckpoint, settings: Settings, *, frames: Mapping[str, Any] | None = None
    ) -> None:
        spec = trained_by(loaded)
        refuse_absent(spec)
        self.spec = spec
        self.checkpoint = loaded.checkpoint
        self.device = resolve_device(settings.infer.device)
        self._threads = settings.infer.threads
        self._seed = loaded.seed
        self._data = {name: state for name, state in loaded.states.items() if name == "data"}
        self._preprocessing = loaded.states.get("preprocessing")
        self._settings, self._frames = settings, frames
        builder = self._builder(spec)
        # The environment is built for its spaces alone; it is never stepped.
        self._env = builder.build_env("infer", num_envs=1, phase="evaluate", window=spec.evaluation.window)
        load_preprocessing(self._env, self._preprocessing)
        self._unbuilt = builder, loaded.states["learner"]
        self._always_remembers = (spec.obs.stack_frames or 1) > 1 or "recurrent" in builder.agent.rl_tags

    @cached_property
    def _learner(self) -> Learner:
        """Built when it is first needed: of all that loading does, only this draws from the process's generators."""
        builder, state = self._unbuilt
        learner = builder.build_learner(self._env, training=False)
        learner.set_state(state)
        del self._unbuilt
        return learner

    @property
    def remembers(self) -> bool:
        """Whether an answer depends on what the same asker asked before."""
        return self._always_remembers or getattr(self._learner, "remembers", False)

    def build(self) -> None:
        """Builds what answers, unless it is there."""
        _ = self._learner

    def _builder(self, spec: RLExperimentSpec) -> Builder:
        from alphaswarm_rl.inference.frozen_policies import FrozenPolicies  # which loads policies itself

        builder = Builder(
            spec,
            seed=self._seed,
            device=self.device,
            root=self._settings.data_path,
            frames=self._frames,
            lake=lake_of(self._settings),
            frozen=FrozenPolicies(self._settings, self._frames),
        )
        builder.restore_data(self._data)
        return builder

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The space of one observation, before any preprocessing."""
        return raw_env(self._env).single_observation_space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The space of one action."""
        return self._env.single_action_space

    @property
    def scope(self) -> Scope:
        """The models that may stand in for this one."""
        return scope_of(self.spec, self._env)

    def stream(self) -> Stream:
        """What is remembered of a new asker: nothing yet."""
        if not isinstance(self._env, PreprocessedEnv):
            return Stream(None)
        transform = ObservationTransform(self.observation_space, self._env.transform.settings)
        transform.load_statistics(self._env.statistics())
        return Stream(transform)

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None) -> None:
        """Starts the stream of its draws anew, for predictions in that environment."""
        self._learner.seed_predictions(seed, env)

    def act(
        self, batch: Any, stream: Stream, episode_start: Any = False, *, deterministic: bool, masks: Any = None
    ) -> Array:
        """One action per observation of the batch.

        Args:
            batch: Observations, as `as_batch` gives them.
            stream: What is remembered of whoever asks; it takes these observations in.
            episode_start: Whether an episode begins here, for all or for each; nothing before it is remembered.
            deterministic: Whether it acts without drawing.
            masks: Which actions are legal, for policies that heed masks; None: all.
        """
        length = batch_length(batch)
        starts = np.array(np.broadcast_to(np.asarray(episode_start, dtype=bool), (length,)))
        if self.remembers and stream.length not in (None, length):
            raise RunError(
                f"{length} observations",
                f"the policy remembers {stream.length} episodes of this asker",
                "Ask for as many at a time as before, or under another name.",
            )
        starts |= stream.length is None
        stream.length = length
        if stream.transform is not None:
            batch = stream.transform.apply(batch, starts)
        with cpu_threads(self._threads):
            action, stream.memory = self._learner.predict(
                batch, stream.memory, starts, deterministic=deterministic, masks=masks
            )
        actions = np.asarray(action)
        if not np.isfinite(actions).all():
            raise CheckpointError(
                f"checkpoint {str(self.checkpoint.path)!r}",
                f"its policy answers {actions.tolist()}",
                "Use another checkpoint.",
            )
        return actions

    def warm_up(self) -> Any:
        """Its action for a sample observation; one that is not in the action space is an error."""
        space = deepcopy(self.observation_space)
        space.seed(0)
        batch, _ = as_batch(space.sample(), space)
        actions = self.act(batch, self.stream(), deterministic=True)
        refuse_other_than_actions(f"checkpoint {str(self.checkpoint.path)!r}", actions, self.action_space)
        return actions[0].tolist()

    def roll_out(
        self, episodes: int, *, env_id: str | None = None, deterministic: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Plays episodes, one answer per step as it is given.

        Args:
            episodes: How many episodes: the first ones of the run's own evaluation.
            env_id: A Gymnasium id or the alias of an environment of the same spaces; None takes the spec's.
            deterministic: Whether it acts without drawing.
        """
        spec = self.spec if env_id is None else effective_spec(self.spec, {"env.envId": env_id}, {}).spec
        builder = self._builder(spec)
        with closing(builder.build_env("evaluate", num_envs=1, phase="evaluate", window=spec.evaluation.window)) as env:
            self._refuse_other_spaces(env, env_id)
            load_preprocessing(env, self._preprocessing)
            seed = derived_seed(self._seed, "evaluate")
            self._learner.seed_predictions(seed, env)
            observation, _ = env.reset(seed=seed)
            memory: Any = None
            episode, step, starts = 0, 0, np.array([True])
            masks = getattr(env, "action_masks", None)
            while episode < episodes:
                with cpu_threads(self._threads):
                    action, memory = self._learner.predict(
                        observation,
                        memory,
                        starts,
                        deterministic=deterministic,
                        masks=None if masks is None else masks(),
                    )
                observation, rewards, terminated, truncated, _ = env.step(action)
                starts = terminated | truncated
                yield {
                    "episode": episode,
                    "step": step,
                    "action": np.asarray(action)[0].tolist(),
                    "reward": float(rewards[0]),
                    "ends": bool(starts[0]),
                    "checkpoint_sha256": self.checkpoint.sha256,
                }
                episode, step = (episode + 1, 0) if starts[0] else (episode, step + 1)

    def _refuse_other_spaces(self, env: AnyVectorEnv, env_id: str | None) -> None:
        for name in ("observation", "action"):
            theirs, ours = (getattr(each, f"single_{name}_space") for each in (env, self._env))
            if theirs != ours:
                raise EnvError(
                    f"environment {env_id!r}",
                    f"its {name} space is {theirs}, and the policy was trained for {ours}",
                    "Choose an environment of the same spaces.",
                )

    def close(self) -> None:
        """Frees the environment."""
        self._env.close()


def refuse_other_than_actions(what: str, actions: Array, space: spaces.Space[Any]) -> None:
    """Refuses answers that are no actions of that space, but for rounding at its bounds."""
    if not _are_actions(actions, space):
        raise CheckpointError(what, f"its policy answers {actions.tolist()}, which is not in {space}", "Use another.")


def _are_actions(actions: Array, space: spaces.Space[Any]) -> bool:
    if actions.shape[1:] != space.shape:
        return False
    if isinstance(space, spaces.Box):
        room = _ROUNDING * (1 + np.abs(actions))
        return bool(((actions >= space.low - room) & (actions <= space.high + room)).all())
    if isinstance(space, spaces.Discrete):
        return bool(((actions >= int(space.start)) & (actions < int(space.start) + int(space.n))).all())
    return all(space.contains(action) for action in actions)
