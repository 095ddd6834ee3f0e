"""A model that is served: its row, its policy, and what it remembers of whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.process_lock import one_at_a_time
from alphaswarm_rl.inference.loaded_policy import LoadedPolicy, Stream, refuse_other_than_actions
from alphaswarm_rl.inference.model_loading import load_model
from alphaswarm_rl.inference.observation_batch import batch_length
from alphaswarm_rl.models.rows import ModelRow
from alphaswarm_rl.settings import Settings

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Served:
    """An answer, made by exactly one model.

    Attributes:
        actions: One action where one observation was asked, otherwise one per observation.
        model_id: The model that answered.
        checkpoint_sha256: Its checksum.
    """

    actions: Array
    model_id: int
    checkpoint_sha256: str

    def as_dict(self) -> dict[str, Any]:
        """The answer as JSON."""
        return {
            "action": self.actions.tolist(),
            "model_id": self.model_id,
            "checkpoint_sha256": self.checkpoint_sha256,
        }


@dataclass
class ServedModel:
    """A model that is loaded.

    Attributes:
        row: The model.
        policy: Its policy.
        deterministic: Whether it acts without drawing.
        streams: What it remembers, by client.
        answered: Whether it has answered anybody yet.
    """

    row: ModelRow
    policy: LoadedPolicy
    deterministic: bool
    streams: dict[str | None, Stream] = field(default_factory=dict)
    answered: bool = False

    def stream(self, client: str | None) -> Stream:
        """What it remembers of a client. A policy that remembers nothing has one stream for all."""
        if not self.policy.remembers:
            client = None
        elif client is None:
            raise RunError(
                f"model {self.row.id}", "it remembers what it was asked before", "Say who asks: client=NAME."
            )
        if client not in self.streams:
            self.streams[client] = self.policy.stream()
        return self.streams[client]

    def ask(self, batch: Any, client: str | None, starts: Array) -> Array:
        """One action per observation, each in the action space. One that draws is asked under `one_at_a_time`."""
        actions = self.policy.act(batch, self.stream(client), starts, deterministic=self.deterministic)
        refuse_other_than_actions(f"model {self.row.id}", actions, self.policy.action_space)
        return actions


@contextmanager
def generators(patience: float) -> Iterator[bool]:
    """Takes the process's generators for a moment; says whether they were free within that time, -1 being for ever."""
    ours = one_at_a_time.acquire(timeout=patience)
    try:
        yield ours
    finally:
        if ours:
            one_at_a_time.release()


def prepare(
    row: ModelRow,
    settings: Settings,
    *,
    frames: Mapping[str, Any] | None,
    deterministic: bool | None,
    patience: float,
) -> ServedModel | None:
    """Loads a model and has it answer a sample; others use the generators meanwhile, but while its network is built.

    Args:
        row: The model.
        settings: The device, and where data lie.
        frames: Data frames for the data pipeline `frame`, by name.
        deterministic: Whether it acts without drawing; None: as its spec evaluates.
        patience: Seconds to wait for the generators, -1 for ever; None is given where they were not free.
    """
    policy = load_model(row, settings, frames=frames)
    try:
        with generators(patience) as ours:
            if not ours:
                policy.close()
                return None
            policy.build()
        policy.warm_up()
    except BaseException:
        policy.close()
        raise
    return ServedModel(row, policy, policy.spec.evaluation.deterministic if deterministic is None else deterministic)


def as_it_is(row: ModelRow) -> tuple[Any, ...]:
    """What must change before a model that could not answer is tried again: its row or its files."""
    try:
        times = tuple(sorted((path.name, path.stat().st_mtime_ns) for path in row.path.iterdir()))
    except OSError:
        times = ()
    return row.model_path, row.sha256, times


def as_starts(episode_start: Any, batch: Any) -> Array:
    """Which observations of a batch begin an episode."""
    starts = np.asarray(False if episode_start is None else episode_start)
    if starts.dtype != np.bool_ or starts.shape not in ((), (batch_length(batch),)):
        raise RunError(
            "episode_start", f"it is {episode_start!r}", "Write true or false, or one of them per observation."
        )
    return np.array(np.broadcast_to(starts, (batch_length(batch),)))
