"""Whole bars around synthetic returns: times, open, high, low, close, volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.data_pipelines.synthetic_returns import Array, Scale, log_returns
from alphaswarm_rl.market.panel import MarketPanel

if TYPE_CHECKING:
    from alphaswarm_rl.data_pipelines.synthetic import SyntheticPipeline

_SECONDS = {"1m": 60, "5m": 300, "15m": 900, "30m": 1800, "1h": 3600, "4h": 14_400, "1d": 86_400}
_DAY = 86_400
_FIRST_PRICE = 100.0
_USUAL_VOLUME = 1e6
#: Standard deviations of the opening gap and of the wicks, in those of a bar's return.
_GAP, _WICK = 0.3, 0.5


def make_panel(config: SyntheticPipeline.Config, parameters: Mapping[str, float], seed: int) -> MarketPanel:
    """The panel that these parameters and this seed describe."""
    bars_per_day = _DAY // _SECONDS[config.bar]
    per_year = (365.0 if config.weekends else 252.0) * bars_per_day
    scale = Scale(config.n_bars, config.n_assets, 1 / per_year, config.volatility, config.correlation, seed)
    bars = bars_around(log_returns(config.model, scale, parameters), scale)
    arrays: dict[str, Any] = {
        "timestamps": times(config.start, config.n_bars, _SECONDS[config.bar], weekends=config.weekends),
        "assets": [f"SYN{asset}" for asset in range(config.n_assets)],
        **bars,
    }
    if config.model == "oracle":
        following = bars["close"][1:] / bars["close"][:-1] - 1.0
        arrays["features"] = {"next_return": np.concatenate([following, np.zeros_like(following[:1])])}
    elif config.model == "noise":
        arrays["features"] = {"noise": scale.normal("noise")}
    return MarketPanel.from_arrays(
        arrays,
        periods_per_year=config.periods_per_year or per_year,
        feature_dtype=config.feature_dtype,
        training_only=("next_return",) if config.model == "oracle" else (),
    )


def times(start: str, count: int, seconds: int, *, weekends: bool) -> Array:
    """Labels of `count` bars from that date on, around the clock on every day that trades."""
    day, rest = np.divmod(np.arange(count), _DAY // seconds)
    first = moment(start).astype("datetime64[D]")
    days = first + day if weekends else np.busday_offset(first, day, roll="forward")
    return np.asarray(days.astype("datetime64[ns]") + (rest * seconds * 10**9).astype("timedelta64[ns]"))


def bars_around(returns: Array, scale: Scale) -> dict[str, Array]:
    """Open, high, low, close and volume: low <= open, close <= high, volume above 0."""
    close = _FIRST_PRICE * np.exp(np.cumsum(returns, axis=0))
    before = np.concatenate([np.full_like(close[:1], _FIRST_PRICE), close[:-1]])
    opened = before * np.exp(_GAP * scale.deviation * scale.normal("open"))
    wick = _WICK * scale.deviation
    return {
        "open": opened,
        "high": np.maximum(opened, close) * np.exp(wick * np.abs(scale.normal("high"))),
        "low": np.minimum(opened, close) * np.exp(-wick * np.abs(scale.normal("low"))),
        "close": close,
        "volume": _USUAL_VOLUME * np.exp(0.5 * scale.normal("volume")),
    }
