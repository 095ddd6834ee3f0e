"""The curve of a training: what its train.step events say, by transitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from alphaswarm_rl.core.learning_figures import LearningFigures
from alphaswarm_rl.ledger import EventRow, Ledger, RunRow
from alphaswarm_rl.ledger.liveness import LIVE
from alphaswarm_rl.operations.data import Count, Data
from alphaswarm_rl.operations.operation import NamedRun, operation
from alphaswarm_rl.settings import Settings


class CurveQuery(NamedRun):
    """The curve of which run.

    Attributes:
        run: The run's id, the beginning of it, or latest.
        points: At most that many points, evenly spread; the last one is always there.
    """

    points: Count = 50


class CurvePoint(Data):
    """Where a training was.

    Attributes:
        timesteps: Transitions learnt from.
        ts: When.
        reason: Why it was said: a log interval, a second of silence (`time`), the end, or a halt.
        episodes: Episodes that had ended.
        mean_reward: Mean return of the last 100 of them.
        steps_per_second: Transitions per second.
        loss: What the agent minimises, or the loss of its critic; null where it knows none.
        entropy: Entropy of the policy's actions, of agents that know it.
        explained_variance: Share of the returns' variance that the critic's values explain, of agents that know it.
        metrics: All that the agent says, by its own names.
    """

    timesteps: int
    ts: datetime
    reason: str
    episodes: int
    mean_reward: float | None
    steps_per_second: float | None
    loss: float | None
    entropy: float | None
    explained_variance: float | None
    metrics: Mapping[str, float | None]


class Curve(Data, apart=("why_empty",)):
    """The curve of a run.

    Attributes:
        run_id: The run.
        status: Its state.
        total_points: How many points there are.
        points: Those that were asked for, in order.
        why_empty: Why there are none, where there are none.
    """

    run_id: str
    status: str
    total_points: int
    points: tuple[CurvePoint, ...]
    why_empty: str | None


@operation("runs.curve")
def run_curve(settings: Settings, request: CurveQuery) -> Curve:
    """A training's curve: reward, rate, loss, entropy and explained variance by transitions."""
    with Ledger.open(settings) as ledger:
        run = ledger.run(request.run)
        found = _points(ledger.events(run.id))
    spread = _spread(found, request.points)
    return Curve(run.id, run.status, len(found), spread, None if found else _why_empty(run))


def _points(events: Iterable[EventRow]) -> list[CurvePoint]:
    """The points that count: where a run went back to a checkpoint, those beyond it were made again."""
    points: list[CurvePoint] = []
    for event in events:
        if event.stage == "train.step":
            points.append(_point(event))
        elif event.stage == "agent.built" and "resumed_at" in event.payload:
            points = [point for point in points if point.timesteps <= event.payload["resumed_at"]]
    return points


def _point(event: EventRow) -> CurvePoint:
    payload = event.payload
    figures = LearningFigures.of(payload["metrics"])
    return CurvePoint(
        timesteps=payload["timesteps"],
        ts=event.ts,
        # Events of earlier versions have none: they were all of log intervals.
        reason=payload.get("reason", "interval"),
        episodes=payload["episodes"],
        mean_reward=payload["mean_reward"],
        steps_per_second=payload["steps_per_second"],
        loss=figures.loss,
        entropy=figures.entropy,
        explained_variance=figures.explained_variance,
        metrics=payload["metrics"],
    )


def _spread(points: Sequence[CurvePoint], count: int) -> tuple[CurvePoint, ...]:
    """That many of them at most, as evenly as whole numbers can be; of one it is the last."""
    if len(points) <= count:
        return tuple(points)
    last = len(points) - 1
    return tuple(points[last - round(index * last / max(count - 1, 1))] for index in reversed(range(count)))


def _why_empty(run: RunRow) -> str:
    if run.target != "train":
        return f"a run of {run.target} learns nothing"
    return "the run has said nothing yet" if run.status in LIVE else f"the run ended before it learnt: {run.status}"
