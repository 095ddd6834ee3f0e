"""Trained policies that a spec names by run or model: found, verified, and ready to act in any run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from alphaswarm_rl.core.contracts import FrozenRef
from alphaswarm_rl.core.errors import CheckpointError, SpecError
from alphaswarm_rl.core.refs import walk_refs
from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint
from alphaswarm_rl.inference.policy import LoadedPolicy
from alphaswarm_rl.inference.policy_stream import PolicyStream
from alphaswarm_rl.inference.registered_models import load_model
from alphaswarm_rl.inference.trained_checkpoints import checkpoint_of_model, checkpoint_of_run
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.policies.frozen import FrozenPolicy
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec

if TYPE_CHECKING:
    import pandas as pd


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

    def __init__(self, settings: Settings, frames: Mapping[str, pd.DataFrame] | None = None) -> None:
        self._settings = settings
        self._frames = frames
        self._found: dict[FrozenRef, FoundPolicy] = {}

    def find(self, ref: FrozenRef) -> FoundPolicy:
        """The policy of that name; one that is not there, or not what its checksum says, is an error."""
        if ref not in self._found:
            found = (
                self._find_model(ref.model) if ref.model is not None else self._find_run(str(ref.run), ref.checkpoint)
            )
            sha256 = found.loaded.checkpoint.sha256
            if ref.sha256 not in (None, sha256):
                raise CheckpointError(
                    f"policy 'frozen' of {found.called}",
                    f"its checkpoint has the SHA-256 {sha256}, not {ref.sha256}",
                    "Name the checkpoint that was meant, or its checksum.",
                )
            self._found[ref] = found
        return self._found[ref]

    def named_in(self, spec: RLExperimentSpec) -> tuple[FoundPolicy, ...]:
        """Every trained policy that a spec names; one that would see prepared observations is refused."""
        named = [component for ref in walk_refs(spec) if isinstance(component := ref.build(), FrozenPolicy)]
        obs = spec.obs
        if named and (obs.normalize != "none" or obs.clip_range is not None or (obs.stack_frames or 1) > 1):
            raise SpecError(
                f"policy {FrozenPolicy.rl_alias!r}",
                "it prepares observations as in its training, and the spec's obs would change them before",
                "Write obs: {normalize: none}.",
            )
        return tuple(self.find(component.names()) for component in named)

    def __call__(self, ref: FrozenRef) -> PolicyStream:
        """A copy of that policy with memory and draws of its own."""
        return self.find(ref).load().stream()

    def _find_run(self, run_id: str, checkpoint: str | int) -> FoundPolicy:
        with Ledger.open(self._settings) as ledger:
            run, loaded = checkpoint_of_run(ledger, self._settings, run_id, checkpoint, purpose="a frozen policy")
        load = partial(LoadedPolicy, loaded, self._settings, frames=self._frames)
        return FoundPolicy(f"run {run.id}", loaded, loaded.trained_spec, load)

    def _find_model(self, model_id: int) -> FoundPolicy:
        row, loaded = checkpoint_of_model(self._settings, model_id)
        load = partial(load_model, row, self._settings, frames=self._frames)
        return FoundPolicy(f"model {row.id}", loaded, loaded.trained_spec, load)
