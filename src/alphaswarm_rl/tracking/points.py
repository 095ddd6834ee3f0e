"""The points of a journal: those that count, those that a resume dropped, and those that it lacks.

A run that is resumed goes back to a checkpoint, and its journal says so by a `drop` operation. Points before it that
lie beyond the checkpoint count no more: the run makes them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from alphaswarm_rl.core.run_listener import EvaluationMetrics
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.tracking.journal import Operation

#: What names of metrics begin with: of an evaluation, by its phase; of the summary of a run.
_EVALUATED = ("validation/", "evaluate/", "replay/", "backtest/")
FINAL = "final/"

#: A metric of the clock: a step that is made again has another value.
RATE = "steps_per_second"

_REWARD, _LENGTH = "episode/reward", "episode/length"


@dataclass(frozen=True)
class EpisodeSums:
    """Episodes that are in no point yet: how many, and the sums of their rewards and lengths."""

    count: int = 0
    reward: float = 0.0
    length: int = 0

    def __add__(self, other: EpisodeSums) -> EpisodeSums:
        return EpisodeSums(self.count + other.count, self.reward + other.reward, self.length + other.length)

    @property
    def means(self) -> dict[str, float]:
        """The means as metrics; none where there are no episodes."""
        if not self.count:
            return {}
        return {_REWARD: self.reward / self.count, _LENGTH: self.length / self.count}

    def as_data(self) -> JsonObject:
        """What the journal keeps: JSON has no NaN."""
        reward = self.reward if math.isfinite(self.reward) else None
        return {"count": self.count, "reward": reward, "length": self.length}

    @classmethod
    def of(cls, operation: Operation) -> EpisodeSums:
        """What an operation of the journal kept."""
        reward = operation.data["reward"]
        return cls(operation.data["count"], math.nan if reward is None else reward, operation.data["length"])


def dropped(history: Iterable[Operation]) -> set[int]:
    """The numbers of the operations that count no more, because a later one dropped them."""
    numbers: set[int] = set()
    drops: list[Operation] = []
    for operation in reversed(list(history)):
        if operation.kind == "drop":
            drops.append(operation)
        elif operation.kind in ("metrics", "episodes") and any(_is_beyond(operation, drop) for drop in drops):
            numbers.add(operation.number)
    return numbers


def _is_beyond(operation: Operation, drop: Operation) -> bool:
    """Whether a point lies beyond the checkpoint that a run went back to, as its rows in the tables do."""
    names, step = operation.data.get("metrics", ()), operation.data["step"]
    if step > drop.data["step"] or any(name.startswith(FINAL) for name in names):
        return True
    evaluated = any(name.startswith(_EVALUATED) for name in names)
    return bool(evaluated and drop.data["evaluated_too"] and step == drop.data["step"])


def counting(history: Iterable[Operation]) -> list[Operation]:
    """The operations without those that were dropped."""
    operations = list(history)
    gone = dropped(operations)
    return [operation for operation in operations if operation.number not in gone]


def pending_episodes(history: Iterable[Operation]) -> EpisodeSums:
    """The episodes that are in no point yet."""
    pending = EpisodeSums()
    for operation in counting(history):
        if operation.kind == "episodes":
            pending += EpisodeSums.of(operation)
        elif operation.kind == "metrics" and _LENGTH in operation.data["metrics"]:
            pending = EpisodeSums()
    return pending


def has_final_point(history: Iterable[Operation]) -> bool:
    """Whether the summary of the run is said."""
    points = (operation for operation in counting(history) if operation.kind == "metrics")
    return any(name.startswith(FINAL) for point in points for name in point.data["metrics"])


def missing_evaluations(
    history: Iterable[Operation], evaluations: Iterable[EvaluationMetrics]
) -> Iterator[EvaluationMetrics]:
    """The evaluations of which the journal has no point: the process was killed after it stored their rows."""
    in_journal = {
        (name.partition("/")[0], operation.data["step"])
        for operation in counting(history)
        if operation.kind == "metrics"
        for name in operation.data["metrics"]
    }
    return (each for each in evaluations if (each.phase, each.timesteps) not in in_journal)


def finite(values: Mapping[str, object]) -> dict[str, float]:
    """The finite numbers among values."""
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def prefixed(prefix: str, values: Mapping[str, object]) -> dict[str, object]:
    """The values under names that begin with the prefix and a slash."""
    return {f"{prefix}/{name}": value for name, value in values.items()}
