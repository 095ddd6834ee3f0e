"""Trained policies that a spec names by run or model: found, verified, and ready to act in any run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core.contracts import AnyVectorEnv, FrozenRef, State
from alphaswarm_rl.core.errors import CheckpointError, OptionError, RunError
from alphaswarm_rl.inference.checkpoints import CheckpointStore, LoadedCheckpoint, load_checkpoint
from alphaswarm_rl.inference.loaded_policy import LoadedPolicy
from alphaswarm_rl.inference.memories import memory_from_state, memory_to_state
from alphaswarm_rl.inference.model_loading import load_model, model_by_id
from alphaswarm_rl.inference.selection import Selection, trained_by
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.runs import ENDED
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class FoundPolicy:
    """A trained policy that was found.

    Attributes:
        called: What people call it.
        loaded: Its checkpoint, verified.
        spec: The spec that it was trained by.
        load: Builds it.
    """

    called: str
    loaded: LoadedCheckpoint
    spec: RLExperimentSpec
    load: Callable[[], LoadedPolicy]

    @property
    def notice(self) -> str:
        """What a run's row says of it."""
        at = self.loaded.checkpoint
        return f"frozen policy: {self.called} at step {at.timesteps}, checkpoint sha256 {at.sha256}"


class FrozenPolicies:
    """Finds trained policies in the ledger and the registry, each once.

    Args:
        settings: Where these are.
        frames: Data frames for the data pipeline `frame`, by name.
    """

    def __init__(self, settings: Settings, frames: Mapping[str, Any] | None = None) -> None:
        self._settings = settings
        self._frames = frames
        self._found: dict[FrozenRef, FoundPolicy] = {}

    def find(self, ref: FrozenRef) -> FoundPolicy:
        """The policy of that name; one that is not there, or not what its checksum says, is an error."""
        if ref not in self._found:
            found = self._of_model(ref.model) if ref.model is not None else self._of_run(str(ref.run), ref.checkpoint)
            sha256 = found.loaded.checkpoint.sha256
            if ref.sha256 not in (None, sha256):
                raise CheckpointError(
                    f"policy 'frozen' of {found.called}",
                    f"its checkpoint has the SHA-256 {sha256}, not {ref.sha256}",
                    "Name the checkpoint that was meant, or its checksum.",
                )
            self._found[ref] = found
        return self._found[ref]

    def __call__(self, ref: FrozenRef) -> PlayingPolicy:
        """A copy of that policy with memory and draws of its own."""
        return PlayingPolicy(self.find(ref).load())

    def _of_run(self, run_id: str, checkpoint: str | int) -> FoundPolicy:
        with Ledger.open(self._settings) as ledger:
            run = ledger.run(run_id)
            if run.status not in ENDED and checkpoint == "last":
                raise RunError(
                    f"run {run.id}",
                    f"it is {run.status}, and its last checkpoint will be another one",
                    "Wait for its end, or name a step.",
                )
            payload = ledger.version(run.version_id).payload
            spec = RLExperimentSpec.from_data(payload, source=f"stored version {run.version_id}", stored=True)
            selection = Selection(ledger, CheckpointStore(self._settings.models_path), spec)
            wanted = None if checkpoint == "last" else checkpoint
            loaded = selection.load(run, wanted, verb="a frozen policy")
        if loaded is None:
            raise RunError(f"run {run.id}", "it has no checkpoint", "Name a run that trained.")
        load = partial(LoadedPolicy, loaded, self._settings, frames=self._frames)
        return FoundPolicy(f"run {run.id}", loaded, trained_by(loaded), load)

    def _of_model(self, model_id: int) -> FoundPolicy:
        if not self._settings.registry.enable:
            raise OptionError("the model registry", "it is switched off", "Leave registry.enable as it is: true.")
        with ModelRegistry.open(self._settings, make=False) as registry:
            row = model_by_id(registry, model_id, unvalidated=True)
        loaded = load_checkpoint(row.path, expected_sha256=row.sha256)
        load = partial(load_model, row, self._settings, frames=self._frames)
        return FoundPolicy(f"model {row.id}", loaded, trained_by(loaded), load)


class PlayingPolicy:
    """A trained policy that plays in an environment of somebody else's: see `core.contracts.TrainedPolicy`.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: LoadedPolicy) -> None:
        self._policy = policy
        self._stream = policy.stream()
        self.observation_space: spaces.Space[Any] = policy.observation_space
        self.action_space: spaces.Space[Any] = policy.action_space

    def seed(self, seed: int, env: AnyVectorEnv | None) -> None:
        """Starts the stream of its draws anew."""
        self._policy.seed_predictions(seed, env)

    def act(self, observation: Any, episode_start: Any, *, deterministic: bool, masks: Any) -> Array:
        """One action per observation."""
        return self._policy.act(observation, self._stream, episode_start, deterministic=deterministic, masks=masks)

    def get_state(self) -> State:
        """Its memory and its frames of the episodes in progress."""
        memory = memory_to_state(self._stream.memory)
        transform = State() if self._stream.transform is None else self._stream.transform.get_state()
        data = {"memory": memory.data, "transform": transform.data, "length": self._stream.length}
        return State(memory.prefixed("memory") | transform.prefixed("transform"), data)

    def set_state(self, state: State) -> None:
        """Continues these episodes."""
        try:
            self._stream.length = state.data["length"]
            self._stream.memory = memory_from_state(_part(state, "memory"))
            if self._stream.transform is not None:
                self._stream.transform.set_state(_part(state, "transform"))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                "the state of policy 'frozen'", f"it cannot be read: {error!r}", "Load a checkpoint of this policy."
            ) from error


def _part(state: State, name: str) -> State:
    arrays = {key.removeprefix(f"{name}/"): array for key, array in state.arrays.items() if key.startswith(f"{name}/")}
    return State(arrays, dict(state.data[name]))
