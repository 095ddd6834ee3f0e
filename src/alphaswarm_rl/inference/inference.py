"""Answering observations with a trained policy, outside any environment loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint, load_checkpoint
from alphaswarm_rl.inference.loaded_policy import LoadedPolicy
from alphaswarm_rl.inference.observation_batch import as_batch
from alphaswarm_rl.inference.selection import sha256_of_folder
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.settings import Settings


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
        self.policy = LoadedPolicy(loaded, settings, frames=frames)
        self.policy.build()
        self.spec = self.policy.spec
        self.checkpoint = self.policy.checkpoint
        self.deterministic = deterministic
        self._stream = self.policy.stream()

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
            ledger.refuse_if_halted()
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

    def answer(self, observation: Any, *, episode_start: bool = False) -> Answer:
        """The action for one observation as it comes from the environment, before any preprocessing.

        Args:
            observation: Numbers in the shape of the environment's observation space; a mapping for a Dict space.
            episode_start: Whether an episode begins here; frame stacks and memories start anew.
        """
        batch, alone = as_batch(observation, self.policy.observation_space)
        if not alone:
            raise RunError("the observation", "it is a batch of them", "Send one at a time.")
        action = self.policy.act(batch, self._stream, episode_start, deterministic=self.deterministic)[0]
        return Answer(action.tolist(), self.checkpoint.sha256)

    def roll_out(self, episodes: int, *, env_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Plays episodes, one answer per step as it is given; see `LoadedPolicy.roll_out`."""
        return self.policy.roll_out(episodes, env_id=env_id, deterministic=self.deterministic)

    def close(self) -> None:
        """Frees the environment."""
        self.policy.close()


def _newest(ledger: Ledger) -> RunRow:
    for run in ledger.runs(target="train", limit=None):
        if run.checkpoint is not None:
            return run
    raise RunError("inference", "no run has a checkpoint yet", "Train one: rl train SPEC.")
