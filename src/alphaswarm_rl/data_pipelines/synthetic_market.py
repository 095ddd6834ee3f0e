"""Synthetic panels: log returns by a model, and whole bars around them.

Returns are (T, A), one row per bar. Shocks have one common factor: z_i = sqrt(rho) f + sqrt(1 - rho) e_i. Every
consumer draws from a stream of its own, so that asset i does not depend on how many others there are and a longer draw
begins with the shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.core.seeding import generator
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.panel import MarketPanel

if TYPE_CHECKING:
    from alphaswarm_rl.data_pipelines.synthetic import SyntheticPipeline
    from alphaswarm_rl.market.panel_build import PanelArrays

_SECONDS = {"1m": 60, "5m": 300, "15m": 900, "30m": 1800, "1h": 3600, "4h": 14_400, "1d": 86_400}
_DAY = 86_400
_FIRST_PRICE = 100.0
_USUAL_VOLUME = 1e6
#: Standard deviations of the opening gap and of the wicks, in those of a bar's return.
_GAP, _WICK = 0.3, 0.5


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


def make_panel(config: SyntheticPipeline.Config, parameters: Mapping[str, float], seed: int) -> MarketPanel:
    """The panel that these parameters and this seed describe."""
    bars_per_day = _DAY // _SECONDS[config.bar]
    per_year = (365.0 if config.weekends else 252.0) * bars_per_day
    scale = Scale(config.n_bars, config.n_assets, 1 / per_year, config.volatility, config.correlation, seed)
    arrays = _bars(log_returns(config.model, scale, parameters), scale, config)
    if config.model == "oracle":
        following = arrays["close"][1:] / arrays["close"][:-1] - 1.0
        arrays["features"] = {"next_return": np.concatenate([following, np.zeros_like(following[:1])])}
    elif config.model == "noise":
        arrays["features"] = {"noise": scale.normal("noise")}
    return MarketPanel.from_arrays(
        arrays,
        periods_per_year=config.periods_per_year or per_year,
        feature_dtype=config.feature_dtype,
        training_only=("next_return",) if config.model == "oracle" else (),
    )


def _bars(returns: Array, scale: Scale, config: SyntheticPipeline.Config) -> PanelArrays:
    """Bars with these returns: low <= open, close <= high, volume above 0."""
    close = _FIRST_PRICE * np.exp(np.cumsum(returns, axis=0))
    before = np.concatenate([np.full_like(close[:1], _FIRST_PRICE), close[:-1]])
    opened = before * np.exp(_GAP * scale.deviation * scale.normal("open"))
    wick = _WICK * scale.deviation
    return {
        "timestamps": _times(config.start, config.n_bars, _SECONDS[config.bar], weekends=config.weekends),
        "assets": [f"SYN{asset}" for asset in range(config.n_assets)],
        "open": opened,
        "high": np.maximum(opened, close) * np.exp(wick * np.abs(scale.normal("high"))),
        "low": np.minimum(opened, close) * np.exp(-wick * np.abs(scale.normal("low"))),
        "close": close,
        "volume": _USUAL_VOLUME * np.exp(0.5 * scale.normal("volume")),
    }


def _times(start: str, count: int, seconds: int, *, weekends: bool) -> Array:
    """Labels of `count` bars from that date on, around the clock on every day that trades."""
    day, rest = np.divmod(np.arange(count), _DAY // seconds)
    first = moment(start).astype("datetime64[D]")
    days = first + day if weekends else np.busday_offset(first, day, roll="forward")
    return np.asarray(days.astype("datetime64[ns]") + (rest * seconds * 10**9).astype("timedelta64[ns]"))


def log_returns(model: str, scale: Scale, parameters: Mapping[str, float]) -> Array:
    """Log returns of each bar by that model."""
    models: dict[str, Callable[..., Array]] = {
        "ou": ornstein_uhlenbeck,
        "regime_switching": regime_switching,
        "jumps": jumps,
        "garch": garch,
    }
    return models.get(model, gbm)(scale, **parameters)


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
