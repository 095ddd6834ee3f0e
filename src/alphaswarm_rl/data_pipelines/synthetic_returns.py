"""Models of log returns, (T, A), one row per bar.

Shocks have one common factor: z_i = sqrt(rho) f + sqrt(1 - rho) e_i. Every consumer draws from a stream of its own, so
that asset i does not depend on the others' number and a longer draw begins with the shorter one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphaswarm_rl.core.seeding import generator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Scale:
    """How much is drawn.

    Attributes:
        bars: T.
        assets: A.
        year: Length of a bar in years.
        volatility: Volatility per year.
        correlation: Correlation of shocks.
        seed: Seed of everything.
    """

    bars: int
    assets: int
    year: float
    volatility: float
    correlation: float
    seed: int

    @property
    def deviation(self) -> float:
        """Standard deviation of one bar's log return."""
        return self.volatility * float(np.sqrt(self.year))

    def normal(self, use: str) -> Array:
        """Independent standard normal numbers, (T, A)."""
        columns = [
            generator(self.seed, "synthetic", use, asset).standard_normal(self.bars) for asset in range(self.assets)
        ]
        return np.column_stack(columns)

    def shocks(self) -> Array:
        """Correlated standard normal numbers, (T, A)."""
        factor = generator(self.seed, "synthetic", "factor").standard_normal(self.bars)[:, None]
        own = self.normal("asset")
        return np.asarray(np.sqrt(self.correlation) * factor + np.sqrt(1.0 - self.correlation) * own)


def log_returns(model: str, scale: Scale, parameters: Mapping[str, float]) -> Array:
    """Log returns of each bar by that model."""
    if model == "ou":
        return ornstein_uhlenbeck(scale, **parameters)
    if model == "regime_switching":
        return regime_switching(scale, **parameters)
    if model == "jumps":
        return jumps(scale, **parameters)
    if model == "garch":
        return garch(scale, **parameters)
    return gbm(scale, **parameters)


def gbm(scale: Scale, drift: float = 0.0) -> Array:
    """Geometric Brownian motion; prices grow by exp(drift) a year in expectation; drift 0 is a martingale."""
    return (drift * scale.year - scale.deviation**2 / 2) + scale.deviation * scale.shocks()


def ornstein_uhlenbeck(scale: Scale, mean_reversion: float) -> Array:
    """Log prices that return to where they started; the exact transition of the process, not an Euler step."""
    keep = np.exp(-mean_reversion * scale.year)
    shock = scale.volatility * np.sqrt((1 - keep**2) / (2 * mean_reversion)) * scale.shocks()
    level = np.zeros((scale.bars + 1, scale.assets))
    for bar in range(scale.bars):
        level[bar + 1] = keep * level[bar] + shock[bar]
    return np.diff(level, axis=0)


def regime_switching(scale: Scale, drift: float, persistence: float, stress_volatility: float) -> Array:
    """Two regimes common to all assets: a calm one, and one of stress in which the drift turns round."""
    leaves = generator(scale.seed, "synthetic", "regime").random(scale.bars) >= persistence
    stressed = (np.cumsum(leaves) % 2 == 1)[:, None]
    growth = np.where(stressed, -drift, drift) * scale.year
    deviation = np.where(stressed, stress_volatility * np.sqrt(scale.year), scale.deviation)
    return np.asarray(growth - deviation**2 / 2 + deviation * scale.shocks())


def jumps(scale: Scale, drift: float, jump_rate: float, jump_mean: float, jump_deviation: float) -> Array:
    """GBM with normal log jumps, at most one a bar; the drift is compensated, so that expected growth stays `drift`."""
    chance = jump_rate * scale.year
    draws = [generator(scale.seed, "synthetic", "jump", asset).random(scale.bars) for asset in range(scale.assets)]
    size = jump_mean + jump_deviation * scale.normal("jump size")
    expected = np.exp(jump_mean + jump_deviation**2 / 2) - 1
    jumped = np.where(np.column_stack(draws) < chance, size, 0.0)
    return np.asarray(gbm(scale, drift) - np.log1p(chance * expected) + jumped)


def garch(scale: Scale, drift: float, garch_alpha: float, garch_beta: float) -> Array:
    """GARCH(1, 1) shocks of each asset around the long-run variance that `volatility` says."""
    usual = scale.deviation**2
    variance = np.full(scale.assets, usual)
    shocks = scale.shocks()
    out = np.empty_like(shocks)
    for bar in range(scale.bars):
        shock = np.sqrt(variance) * shocks[bar]
        out[bar] = drift * scale.year - variance / 2 + shock
        variance = usual * (1 - garch_alpha - garch_beta) + garch_alpha * shock**2 + garch_beta * variance
    return out
