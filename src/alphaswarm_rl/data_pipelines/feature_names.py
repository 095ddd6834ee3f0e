"""Names of features: what each computes, from which columns, and from which bar on it is defined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from alphaswarm_rl.core.errors import DataError

#: Bars of the market features and of the indicators that are named without a number.
DEFAULT_WINDOWS = {"rsi": 14, "cci": 14, "dx": 14, "atr": 14, "returns": 1, "volatility": 20}
TURBULENCE_WINDOW = 252
_BOLLINGER_WINDOW = 20
_MACD_SLOW = 26

_NUMBERED = re.compile(r"(rsi|cci|dx|atr|returns|volatility)(?:_([1-9]\d*))?")
_AVERAGE = re.compile(r"close_([1-9]\d*)_sma")
_TURBULENCE = re.compile(r"turbulence(?:_([1-9]\d*))?")
_EXAMPLES = "macd, boll_ub, boll_lb, rsi_N, cci_N, dx_N, atr_N, close_N_sma, returns_N, volatility_N"
#: Deviations of one value are not defined.
_SHORTEST = {"volatility": 2}
_SPANS = {"cci": 0, "atr": 0, "rsi": 1, "dx": 1, "returns": 1, "volatility": 1}


@dataclass(frozen=True)
class IndicatorName:
    """An indicator, as its name says it.

    Attributes:
        name: The name itself, such as rsi_30.
        kind: Which formula.
        window: Bars that the formula looks back over.
        needs: Columns that it reads.
        first: Index, among an asset's own bars, of the first one at which it is defined.
        neutral: What stands before that: a number, or the bar's close.
        in_price: Whether its values are money per unit, so that a split renames them.
    """

    name: str
    kind: str
    window: int
    needs: tuple[str, ...]
    first: int
    neutral: float | Literal["close"]
    in_price: bool = False


def parse_indicator(name: str) -> IndicatorName:
    """The indicator of that name."""
    if name == "macd":
        return IndicatorName(name, "macd", _MACD_SLOW, ("close",), _MACD_SLOW - 1, 0.0, in_price=True)
    if name in ("boll_ub", "boll_lb"):
        return IndicatorName(name, name, _BOLLINGER_WINDOW, ("close",), _BOLLINGER_WINDOW - 1, "close", in_price=True)
    average = _AVERAGE.fullmatch(name)
    if average:
        window = int(average[1])
        return IndicatorName(name, "sma", window, ("close",), window - 1, "close", in_price=True)
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None:
        raise DataError(f"feature {name!r}", "there is no such indicator", f"Known: {_EXAMPLES}.")
    kind = numbered[1]
    window = int(numbered[2] or DEFAULT_WINDOWS[kind])
    if window < _SHORTEST.get(kind, 1):
        raise DataError(f"feature {name!r}", "its window is too short to be defined", "Make it longer.")
    needs = ("high", "low", "close") if kind in ("cci", "atr") else ("high", "low") if kind == "dx" else ("close",)
    first = window if _SPANS[kind] else window - 1
    neutral = 50.0 if kind == "rsi" else 0.0
    return IndicatorName(name, kind, window, needs, first, neutral, in_price=kind == "atr")


def turbulence_window(name: str) -> int | None:
    """Bars that a market feature called turbulence or turbulence_N looks back over; None for another name."""
    match = _TURBULENCE.fullmatch(name)
    return None if match is None else int(match[1] or TURBULENCE_WINDOW)


def check_features(names: Sequence[str]) -> None:
    """Refuses a name that is no indicator, and one that is there twice."""
    for name in names:
        parse_indicator(name)
    _refuse_repeats(names)


def check_market_features(names: Sequence[str]) -> None:
    """Refuses a name that is no market feature, and one that is there twice."""
    for name in names:
        window = turbulence_window(name)
        if name != "vix" and window is None:
            raise DataError(f"market feature {name!r}", "there is no such feature", "Known: turbulence_N, vix.")
        if window is not None and window < 2:
            raise DataError(f"market feature {name!r}", "its window is too short to be defined", "Make it longer.")
    _refuse_repeats(names)


def _refuse_repeats(names: Sequence[str]) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise DataError(f"feature {name!r}", "it is named twice", "Name it once.")
