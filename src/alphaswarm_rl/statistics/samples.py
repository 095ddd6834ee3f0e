"""What samples say of what they were drawn from: means, deviations, a lower bound of the mean, a trend.

Sums are exact (`math.fsum`), and whatever is not finite is None, never infinity or NaN: these figures are stored, and
decide whether a model passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Point = tuple[float, float]

#: How sure a lower bound is.
CONFIDENCE = 0.95
#: Fewer returns that are all equal have no lower bound: that two agree says nothing of how far a third may be off.
EQUAL_EPISODES = 10


def mean_of(values: Sequence[float]) -> float | None:
    """The mean of some values."""
    return _finite(lambda: math.fsum(values) / len(values))


def sample_std(episodes: int, std: float | None, returns: Sequence[float | None] | None) -> float | None:
    """The standard deviation with n - 1, of single returns where there are some; None with fewer than two episodes."""
    if episodes < 2:
        return None
    if returns is None:
        return None if std is None else _finite(lambda: std * math.sqrt(episodes / (episodes - 1)))
    finite = [value for value in returns if value is not None]
    mean = mean_of(finite) if len(finite) == episodes else None
    if mean is None:
        return None
    return _finite(lambda: math.sqrt(math.fsum((value - mean) ** 2 for value in finite) / (episodes - 1)))


def lower_bound(
    episodes: int,
    mean: float | None,
    std: float | None,
    returns: Sequence[float | None] | None,
    confidence: float = CONFIDENCE,
) -> float | None:
    """The number that the true mean exceeds with that confidence, by Student's t; one episode has no such bound."""
    spread = sample_std(episodes, std, returns)
    if mean is None or spread is None:
        return None
    return _finite(lambda: mean - _student(episodes - 1, confidence) * spread / math.sqrt(episodes))


def episodes_lower_bound(
    episodes: int,
    mean: float | None,
    std: float | None,
    returns: Sequence[float | None] | None,
    confidence: float = CONFIDENCE,
) -> float | None:
    """The lower bound of episodes' mean return; fewer than `EQUAL_EPISODES` that are all equal have none."""
    if sample_std(episodes, std, returns) == 0 and episodes < EQUAL_EPISODES:
        return None
    return lower_bound(episodes, mean, std, returns, confidence)


def _finite(figure: Callable[[], float]) -> float | None:
    """A figure; None where it is not finite, or cannot be computed because numbers grow too large on the way."""
    try:
        value = figure()
    except (OverflowError, ValueError):  # fsum gives these for sums that are too large, and for inf - inf
        return None
    return value if math.isfinite(value) else None


def _student(freedom: int, share: float) -> float:
    """The number that Student's t is below with that probability."""
    # Imported here: a tenth of a second that only those pay who judge.
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    return float(stdtrit(freedom, share))


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most so many points, each the mean of as many neighbours as any other but the last; NaN where it has none."""
    size = math.ceil(len(points) / most) if points else 1
    groups = [points[first : first + size] for first in range(0, len(points), size)]
    means = [(mean_of([x for x, _ in group]), mean_of([y for _, y in group])) for group in groups]
    return [(math.nan if x is None else x, math.nan if y is None else y) for x, y in means]


@dataclass(frozen=True)
class Trend:
    """A straight line through points.

    Attributes:
        slope: Its slope.
        margin: Half the width of the slope's interval.
        rise: What it adds from the smallest x to the largest.
    """

    slope: float
    margin: float
    rise: float

    @property
    def is_flat(self) -> bool:
        """Whether the slope's interval contains 0."""
        return abs(self.slope) <= self.margin


def trend(points: Sequence[Point], interval: float) -> Trend | None:
    """The line of least squares through three points or more that do not all have one x; None where it is not finite.

    Args:
        points: The points.
        interval: The share of the slope's interval, such as 0.9.
    """
    try:
        line = _line(points, interval)
    except OverflowError:
        return None
    return line if all(map(math.isfinite, vars(line).values())) else None


def _line(points: Sequence[Point], interval: float) -> Trend:
    count = len(points)
    mean_x = math.fsum(x for x, _ in points) / max(count, 1)
    mean_y = math.fsum(y for _, y in points) / max(count, 1)
    spread = math.fsum((x - mean_x) ** 2 for x, _ in points)
    if count < 3 or spread == 0:
        raise ValueError("a line needs three points that do not all have one x")
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    residual = math.fsum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    error = math.sqrt(residual / (count - 2) / spread)
    margin = _student(count - 2, (1 + interval) / 2) * error
    return Trend(slope, margin, slope * (max(x for x, _ in points) - min(x for x, _ in points)))
