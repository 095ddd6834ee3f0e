"""Whoever watches a run: the model registry, a tracker, telemetry. The runtime tells all of them the same things."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.inference.checkpoints import Checkpoint
from alphaswarm_rl.ledger import EvaluationPhase, Ledger, RunRow
from alphaswarm_rl.recording.episodes import Episode
from alphaswarm_rl.runtime.events import Event, EventBus
from alphaswarm_rl.runtime.rollout import Evaluation
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.telemetry import is_wanted


@dataclass(frozen=True)
class Watched:
    """The run that is watched.

    Attributes:
        run: Its row as it began.
        spec: What is run.
        settings: Where it is run.
        ledger: Where its rows are.
        bus: Where its events go, for observers that have something to tell themselves.
    """

    run: RunRow
    spec: RLExperimentSpec
    settings: Settings
    ledger: Ledger
    bus: EventBus


@dataclass(frozen=True)
class Judged:
    """A policy that was judged.

    Attributes:
        evaluation: What was found.
        phase: In which phase.
        timesteps: Transitions that the policy had learnt from.
        seed: Seed of the episodes.
        deterministic: Whether it acted without drawing.
        checkpoint: Its checkpoint; None where it has none, or none yet.
        started: When it began.
    """

    evaluation: Evaluation
    phase: EvaluationPhase
    timesteps: int
    seed: int
    deterministic: bool
    checkpoint: Checkpoint | None
    started: datetime


class RunObserver:
    """Watches one run; what it does not care for it leaves as it is here.

    An error that a method raises fails the run: an observer whose trouble is none of the run's keeps it to itself.
    """

    #: The trace that it tells the run as.
    trace_id: str | None = None

    def built(self, env: AnyVectorEnv, agent: str) -> None:
        """The environment and the agent (its alias) are there."""

    def watch(self, env: AnyVectorEnv) -> AnyVectorEnv:
        """The training environment as the learner shall see it: for whoever must see every step."""
        return env

    def event(self, event: Event) -> None:
        """Something happened; the ledger has it already."""

    def episodes(self, episodes: Sequence[Episode]) -> None:
        """Episodes of the training ended."""

    def boundary(self, timesteps: int, metrics: Mapping[str, float]) -> None:
        """The learner learnt from all transitions so far, and says how it went."""

    def saved(self, checkpoint: Checkpoint) -> None:
        """A checkpoint was written."""

    def held(self, folder: Path) -> Sequence[Path]:
        """Checkpoints in the run's folder that must stay, however old they are."""
        return ()

    def pruned(self, paths: Sequence[Path]) -> None:
        """These checkpoints were deleted: newer ones are kept, and nobody held them."""

    def judged(self, judged: Judged) -> None:
        """A policy was judged."""

    def ended(self, run: RunRow) -> None:
        """The run ended; its row says how."""

    def close(self) -> None:
        """Gives everything back, whatever happened."""


class Observers(RunObserver):
    """Several of them, told one after the other."""

    def __init__(self, members: Sequence[RunObserver]) -> None:
        self._members = tuple(members)
        self.trace_id = next((member.trace_id for member in self._members if member.trace_id is not None), None)

    def built(self, env: AnyVectorEnv, agent: str) -> None:
        """Tells all."""
        for member in self._members:
            member.built(env, agent)

    def watch(self, env: AnyVectorEnv) -> AnyVectorEnv:
        """As all of them want it."""
        for member in self._members:
            env = member.watch(env)
        return env

    def event(self, event: Event) -> None:
        """Tells all."""
        for member in self._members:
            member.event(event)

    def episodes(self, episodes: Sequence[Episode]) -> None:
        """Tells all."""
        for member in self._members:
            member.episodes(episodes)

    def boundary(self, timesteps: int, metrics: Mapping[str, float]) -> None:
        """Tells all."""
        for member in self._members:
            member.boundary(timesteps, metrics)

    def saved(self, checkpoint: Checkpoint) -> None:
        """Tells all."""
        for member in self._members:
            member.saved(checkpoint)

    def held(self, folder: Path) -> Sequence[Path]:
        """What any of them holds."""
        return [path for member in self._members for path in member.held(folder)]

    def pruned(self, paths: Sequence[Path]) -> None:
        """Tells all."""
        for member in self._members:
            member.pruned(paths)

    def judged(self, judged: Judged) -> None:
        """Tells all."""
        for member in self._members:
            member.judged(judged)

    def ended(self, run: RunRow) -> None:
        """Tells all."""
        for member in self._members:
            member.ended(run)


@contextmanager
def observing(watched: Watched) -> Iterator[Observers]:
    """The observers that the settings ask for, as long as the run lasts."""
    with ExitStack() as stack:
        members: list[RunObserver] = []
        for opened in _wanted(watched):
            stack.callback(opened.close)
            members.append(opened)
        observers = Observers(members)
        try:
            yield observers
        finally:
            run = watched.ledger.run(watched.run.id)
            if run.status != "running":
                observers.ended(run)


def _wanted(watched: Watched) -> Iterator[RunObserver]:
    """One after the other: each is closed even when the next cannot be opened. Telemetry is first and closes last."""
    if is_wanted(watched.settings, os.environ):
        from alphaswarm_rl.runtime.telemetry_observer import TelemetryObserver

        yield TelemetryObserver(watched)
    if watched.settings.registry.enable and watched.run.target != "replay":
        from alphaswarm_rl.runtime.model_observer import ModelObserver

        yield ModelObserver(watched)
    from alphaswarm_rl.runtime.tracking_observer import TrackingObserver

    yield TrackingObserver(watched)
