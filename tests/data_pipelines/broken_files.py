"""Files of bars, each broken in one way, and what that is called."""

import numpy as np
import pandas as pd

_ASSETS = ("AAA", "BBB", "CCC")
_PRICES = ["open", "high", "low", "close"]


def clean(n_bars=600, assets=_ASSETS, seed=0):
    """A long table of daily bars in which nothing is wrong, by asset and time."""
    rng = np.random.default_rng(seed)
    days = pd.bdate_range("2020-01-01", periods=n_bars).strftime("%Y-%m-%d")
    tables = []
    for asset in assets:
        close = 100 * np.exp(np.cumsum(rng.normal(0, 0.015, n_bars)))
        opened = close * np.exp(rng.normal(0, 0.004, n_bars))
        high, low = np.maximum(opened, close) * 1.003, np.minimum(opened, close) / 1.003
        volume = rng.integers(10_000, 20_000, n_bars).astype(float)
        bars = {"open": opened, "high": high, "low": low, "close": close, "volume": volume}
        tables.append(pd.DataFrame({"date": days, "asset": asset, **bars}))
    return pd.concat(tables, ignore_index=True).round(4)


def of(frame, asset, first, last=None):
    """Labels of an asset's bars from one to before another."""
    rows = frame.index[frame["asset"] == asset]
    return rows[first : first + 1 if last is None else last]


def times(frame, asset, first, last, factor):
    """The bars of an asset with prices multiplied."""
    frame.loc[of(frame, asset, first, last), _PRICES] *= factor
    return frame


def put(frame, row, column, value):
    """The table with one cell changed."""
    if isinstance(value, str):
        frame[column] = frame[column].astype(object)
    frame.loc[row, column] = value
    return frame


def marked(frame):
    """A split that is marked, of prices that contain it already."""
    frame["splits"] = 0.0
    return put(frame, of(frame, "AAA", 300)[0], "splits", 4.0)


def stale(frame):
    """Sixty bars of one price."""
    rows = of(frame, "BBB", 100, 160)
    frame.loc[rows, _PRICES] = frame.loc[rows[0], "close"]
    return frame


def copied(frame):
    """An asset under another name."""
    return pd.concat([frame, frame[frame["asset"] == "AAA"].assign(asset="DDD")], ignore_index=True)


def without_days(frame):
    """Fifty days that nobody has."""
    days = frame["date"].unique()[200:250]
    return frame[~frame["date"].isin(days)]


def on_saturdays(frame):
    """Five bars on Saturdays."""
    rows = of(frame, "AAA", 0, 5)
    days = pd.bdate_range("2020-02-07", periods=5, freq="W-SAT").strftime("%Y-%m-%d")
    more = pd.concat([frame, frame.loc[rows].assign(date=list(days))])
    return more.sort_values(["asset", "date"], kind="stable")


def other_times(frame):
    """An asset whose bars are labelled at another time of the day."""
    frame["date"] = frame["date"].where(frame["asset"] != "CCC", frame["date"] + "T05:00:00")
    frame["date"] = frame["date"].where(frame["asset"] == "CCC", frame["date"] + "T00:00:00")
    return frame


#: By what it is called: how a clean table is broken so. Errors first.
BROKEN = {
    "missing_column": lambda frame: frame.drop(columns="close"),
    "ambiguous_column": lambda frame: frame.assign(ticker=frame["asset"]),
    "missing_date": lambda frame: put(frame, 7, "date", ""),
    "bad_date": lambda frame: put(frame, 7, "date", "31.12.2020"),
    "mixed_zones": lambda frame: put(frame, 7, "date", "2020-01-10T00:00:00+02:00"),
    "missing_asset": lambda frame: put(frame, 7, "asset", ""),
    "bad_asset": lambda frame: put(frame, 7, "asset", "A\x1b[2J"),
    "not_a_number": lambda frame: put(frame, 7, "close", "n/a?"),
    "bad_price": lambda frame: put(frame, 7, "close", -1.0),
    "bad_amount": lambda frame: put(frame, 7, "volume", -5.0),
    "incomplete_bar": lambda frame: put(frame, 7, "open", np.nan),
    "high_below_low": lambda frame: put(frame, 7, "high", frame.loc[7, "low"] / 2),
    "outside_range": lambda frame: put(frame, 7, "close", frame.loc[7, "high"] * 1.5),
    "double_row": lambda frame: pd.concat([frame.loc[:7], frame.loc[7:]]),
    "unsorted_row": lambda frame: frame.loc[[*range(6), 7, 6, *range(8, len(frame))]],
    "no_bar": lambda frame: frame.assign(close=frame["close"].where(frame["asset"] != "BBB")),
    "too_few_bars": lambda frame: frame[frame["date"] == frame["date"][0]],
    "suspected_split": lambda frame: times(frame, "AAA", 300, 600, 0.25),
    "split_not_in_prices": marked,
    "unit_change": lambda frame: times(frame, "BBB", 400, 600, 100.0),
    "spike": lambda frame: times(frame, "BBB", 400, 401, 1000.0),
    "jump": lambda frame: times(frame, "CCC", 300, 600, 3.45),
    "wick": lambda frame: put(frame, 7, "high", frame.loc[7, "high"] * 8),
    "gap": lambda frame: frame.drop(of(frame, "CCC", 100, 150)),
    "calendar_gap": without_days,
    "odd_day": on_saturdays,
    "misaligned": other_times,
    "stale_price": stale,
    "zero_volume": lambda frame: frame.assign(volume=frame["volume"].where(frame.index % 20 > 0, 0.0)),
    "same_series": copied,
}
