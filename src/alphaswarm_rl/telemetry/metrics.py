"""What is measured of a run. The newest values stand on a board; the exporter reads it at its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from alphaswarm_rl.core.learning_figures import LearningFigures
from alphaswarm_rl.settings import MetricsSettings

#: Attributes of one value, by name.
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: Its name; Prometheus writes `_` for `.`, and `_total` behind a counter.
        kind: Whether its value goes up and down, or only up.
        description: What it is.
        track: The setting that turns it off; None: it is always there.
    """

    name: str
    kind: Literal["gauge", "counter"]
    description: str
    track: str | None = None


EPISODE_REWARD = Metric(
    "rl.episode.reward", "gauge", "Mean return of the training episodes that ended last.", "track_reward"
)
STEP_REWARD = Metric(
    "rl.step.reward", "gauge", "Mean reward of the last training step over the environments.", "track_reward"
)
EPISODE_LENGTH = Metric("rl.episode.length", "gauge", "Mean length of the training episodes that ended last, in steps.")
LOSS = Metric("rl.loss", "gauge", "A loss that the learner reports, by its name.", "track_loss")
ENTROPY = Metric("rl.entropy", "gauge", "Entropy of the policy's actions.", "track_entropy")
EXPLAINED_VARIANCE = Metric(
    "rl.explained_variance", "gauge", "Share of the returns' variance that the critic's values explain."
)
FPS = Metric("rl.fps", "gauge", "Training transitions per second.", "track_fps")
EVALUATION_REWARD = Metric("rl.evaluation.reward", "gauge", "Mean return of the last evaluation, by phase.")
ROWS_COMMITTED = Metric("rl.rows.committed", "counter", "Recorded rows that are in their tables, by kind.")
HALTED = Metric("rl.halted", "gauge", "1 when the run was halted, else 0.")

#: Every metric there is.
METRICS = (
    EPISODE_REWARD,
    STEP_REWARD,
    EPISODE_LENGTH,
    LOSS,
    ENTROPY,
    EXPLAINED_VARIANCE,
    FPS,
    EVALUATION_REWARD,
    ROWS_COMMITTED,
    HALTED,
)


class Board:
    """The newest value of each metric, with attributes of which there are few.

    Args:
        meter: Makes the instruments, each once.
        settings: Which of them are wanted.
        attributes: What every value carries.
    """

    def __init__(self, meter: Meter, settings: MetricsSettings, attributes: Mapping[str, str]) -> None:
        self._attributes = attributes
        self._cells: dict[str, dict[Labels, Observation]] = {}
        for metric in METRICS:
            if metric.track is None or getattr(settings, metric.track):
                cells = self._cells[metric.name] = {}
                make = getattr(meter, f"create_observable_{metric.kind}")
                make(metric.name, callbacks=[_reader(cells)], description=metric.description)

    def set(self, metric: Metric, value: float | None, **attributes: str) -> None:
        """Writes a value; one that is not finite is none, and one that nobody wants is passed over."""
        cells = self._cells.get(metric.name)
        if cells is not None and value is not None and math.isfinite(value):
            cells[tuple(attributes.items())] = Observation(value, {**self._attributes, **attributes})

    def learnt(self, metrics: Mapping[str, float | None]) -> None:
        """Writes what a learner says of its update: its losses, the entropy and the explained variance."""
        figures = LearningFigures.of(metrics)
        self.set(ENTROPY, figures.entropy, phase="train")
        self.set(EXPLAINED_VARIANCE, figures.explained_variance, phase="train")
        for name, loss in figures.losses.items():
            self.set(LOSS, loss, phase="train", loss=name)


def _reader(cells: Mapping[Labels, Observation]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: list(cells.values())
