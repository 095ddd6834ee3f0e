"""Answering observations with a trained policy, outside any environment loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.errors import EnvError, RunError
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.envs.preprocessing import PreprocessedEnv
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.options import effective_spec
from alphaswarm_rl.runtime.building import Builder, lake_of, load_preprocessing
from alphaswarm_rl.runtime.checkpoints import LoadedCheckpoint, load_checkpoint
from alphaswarm_rl.runtime.envelope import refuse_if_halted
from alphaswarm_rl.runtime.fingerprints import resolve_device, torch_threads
from alphaswarm_rl.runtime.selection import sha256_of_folder, trained_by
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, refuse_absent


@dataclass(frozen=True)
class Answer:
    """The policy's action for one observation."""

    action: Any
    checkpoint_sha256: str

    def as_dict(self) -> dict[str, Any]:
        """The answer as JSON."""
        return {"action": self.action, "checkpoint_sha256": self.checkpoint_sha256}


class Inference:
    """A policy that answers a stream of observations, one episode after another.

    Args:
        loaded: The verified checkpoint.
        settings: The device.
        deterministic: Whether it acts without drawing.
        frames: Data frames for the data pipeline `frame`, by name.
    """

    def __init__(
        self,
        loaded: LoadedCheckpoint,
        settings: Settings,
        *,
        deterministic: bool = True,
        frames: Mapping[str, Any] | None = None,
    ) -> None:
        spec = trained_by(loaded)
        refuse_absent(spec)
        self.spec = spec
        self.deterministic = deterministic
        self._threads = settings.infer.threads
        self.checkpoint = loaded.checkpoint
        self._seed = loaded.seed
        self._data = {name: state for name, state in loaded.states.items() if name == "data"}
        self._preprocessing = loaded.states.get("preprocessing")
        self._device, self._root, self._frames = resolve_device(settings.infer.device), settings.data_path, frames
        self._lake = lake_of(settings)
        builder = self._builder(spec)
        # The environment is built for its spaces alone; it is never stepped.
        self._env = builder.build_env("infer", num_envs=1, phase="evaluate", window=spec.evaluation.window)
        self._learner = builder.build_learner(self._env, training=False)
        self._learner.set_state(loaded.states["learner"])
        load_preprocessing(self._env, self._preprocessing)
        self._memory: Any = None
        self._starts = True

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        run: str | None = None,
        deterministic: bool = True,
        frames: Mapping[str, Any] | None = None,
    ) -> Inference:
        """The policy of the settings' model path, of a run, or of the newest run that has a checkpoint."""
        with Ledger.open(settings) as ledger:
            refuse_if_halted(ledger, None)
            if run is None and settings.infer.model_path is not None:
                path = settings.infer.model_path.expanduser()
                loaded = load_checkpoint(path, expected_sha256=sha256_of_folder(ledger, path))
            else:
                row = _newest(ledger) if run is None else ledger.run(run)
                if row.checkpoint is None or row.removed_at is not None:
                    raise RunError(
                        f"run {row.id}", "it has no checkpoint", "Use a run that trained and was not removed."
                    )
                loaded = load_checkpoint(Path(row.checkpoint), expected_sha256=row.checkpoint_sha256)
        return cls(loaded, settings, deterministic=deterministic, frames=frames)

    def _builder(self, spec: RLExperimentSpec) -> Builder:
        builder = Builder(
            spec, seed=self._seed, device=self._device, root=self._root, frames=self._frames, lake=self._lake
        )
        builder.restore_data(self._data)
        return builder

    def answer(self, observation: Any, *, episode_start: bool = False) -> Answer:
        """The action for one observation as it comes from the environment, before any preprocessing.

        Args:
            observation: Numbers in the shape of the environment's observation space; a mapping for a Dict space.
            episode_start: Whether an episode begins here; frame stacks and memories start anew.
        """
        space = self._raw_space()
        batch = _as_batch(observation, space)
        starts = np.array([episode_start or self._starts])
        self._starts = False
        if isinstance(self._env, PreprocessedEnv):
            batch = self._env.transform.apply(batch, starts)
        with torch_threads(self._threads):
            action, self._memory = self._learner.predict(batch, self._memory, starts, deterministic=self.deterministic)
        return Answer(np.asarray(action)[0].tolist(), self.checkpoint.sha256)

    def roll_out(self, episodes: int, *, env_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Plays episodes, one answer per step as it is given.

        Args:
            episodes: How many episodes: the first ones of the run's own evaluation.
            env_id: A Gymnasium id or the alias of an environment of the same spaces; None takes the spec's.
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
                with torch_threads(self._threads):
                    action, memory = self._learner.predict(
                        observation,
                        memory,
                        starts,
                        deterministic=self.deterministic,
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

    def _raw_space(self) -> spaces.Space[Any]:
        env = self._env.env if isinstance(self._env, PreprocessedEnv) else self._env
        return env.single_observation_space

    def close(self) -> None:
        """Frees the environment."""
        self._env.close()


def _newest(ledger: Ledger) -> RunRow:
    for run in ledger.runs(target="train", limit=None):
        if run.checkpoint is not None:
            return run
    raise RunError("inference", "no run has a checkpoint yet", "Train one: rl train SPEC.")


def _as_batch(observation: Any, space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, dict) or set(observation) != set(space.spaces):
            raise RunError(
                "the observation", f"a mapping with the keys {sorted(space.spaces)} is needed", "Send such a mapping."
            )
        return {key: _as_batch(observation[key], part) for key, part in space.spaces.items()}
    try:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # what does not fit the type becomes infinite, and is refused
            exact = np.asarray(observation, dtype=np.float64)
            array = exact.astype(space.dtype)
    except (TypeError, ValueError) as error:
        raise RunError(
            "the observation", f"it is not an array of numbers: {error}", f"Send one of shape {space.shape}."
        ) from error
    if array.shape != space.shape:
        raise RunError("the observation", f"its shape is {array.shape}", f"Send one of shape {space.shape}.")
    if not np.isfinite(array).all():
        raise RunError("the observation", "it holds NaN or infinity", "Send finite numbers.")
    if np.issubdtype(array.dtype, np.integer) and not (np.array_equal(exact, array) and _contains(space, array)):
        raise RunError("the observation", f"it is not in {space}", "Send whole numbers of that range.")
    return array[None]


def _contains(space: spaces.Space[Any], array: np.ndarray[Any, Any]) -> bool:
    return bool(space.contains(array.item() if array.ndim == 0 else array))
