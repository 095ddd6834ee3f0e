"""How long the statistics of a study take: overfitting, combinatorial splits, the bootstrap.

    python benchmarks/overfitting.py [--json]

The splits are timed beside those of skfolio; both list every split of the same periods.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable

import numpy as np
from judging import at_least, at_most, tell
from skfolio.model_selection import CombinatorialPurgedCV

from alphaswarm_rl.core.types import Array
from alphaswarm_rl.statistics import (
    CombinatorialPurgedKFold,
    probability_of_backtest_overfitting,
    rademacher_complexity,
    stationary_bootstrap,
)

_PERIODS = 2500
_REPEATS = 5
_DRAWS = 10_000


def seconds(task: Callable[[], object], repeats: int = _REPEATS) -> float:
    """The median time of a task."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        task()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def best_sharpe(rows: Array) -> Array:
    """The Sharpe ratio of the best column, of each resample."""
    mean, square = rows.mean(axis=1), np.einsum("btk,btk->bk", rows, rows) / rows.shape[1]
    return np.asarray((mean / np.sqrt(square - mean**2)).max(axis=1))


def main() -> int:
    """Prints the figures; fails when one is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    many, few = (0.01 * rng.standard_normal((_PERIODS, columns)) for columns in (200, 20))
    ours = CombinatorialPurgedKFold(10, 2, purge=5, embargo=5)
    theirs = CombinatorialPurgedCV(n_folds=10, n_test_folds=2, purged_size=5, embargo_size=5)
    splits = seconds(lambda: list(ours.split(_PERIODS)))
    peer = seconds(lambda: list(theirs.split(few)))
    overfitting = seconds(lambda: probability_of_backtest_overfitting(many, 16))
    bootstrap = {
        name: seconds(lambda measure=measure: stationary_bootstrap(few, measure, resamples=_DRAWS), repeats=3)
        for name, measure in (("mean", lambda rows: rows.mean(axis=(1, 2))), ("best Sharpe ratio", best_sharpe))
    }
    signs = seconds(lambda: rademacher_complexity(many), repeats=3)
    size = f"{_PERIODS} periods"
    lines = [
        at_most("probability of backtest overfitting, seconds", overfitting, 2.0, f"16 blocks, {size}, 200 columns"),
        at_least("combinatorial splits, times as fast as skfolio's", peer / splits, 1.0, f"10 folds, 2 tested, {size}"),
        *(
            at_most(f"bootstrap of the {name}, seconds", took, 3.0, f"{_DRAWS} draws, {size}, 20 columns")
            for name, took in bootstrap.items()
        ),
        at_most("Rademacher complexity, seconds", signs, 5.0, f"{_DRAWS} draws, {size}, 200 columns"),
    ]
    return tell(platform.platform(), lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
