"""What holds for every panel, with any gaps."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.market.panel import ARRAYS, MarketPanel


@st.composite
def grids(draw):
    """Closes with random gaps, at least one bar for each asset, at irregular moments."""
    length, assets = draw(st.integers(2, 12)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    close = rng.uniform(1, 200, (length, assets))
    close[rng.random((length, assets)) < draw(st.sampled_from([0.0, 0.3, 0.8]))] = np.nan
    close[rng.integers(length, size=assets), range(assets)] = 50.0
    times = np.datetime64("2020-01-01", "ns") + np.cumsum(rng.integers(1, 10, length)).astype("timedelta64[D]")
    volume = rng.uniform(0, 1e6, (length, assets))
    names = [f"A{index}" for index in range(assets)]
    return {"timestamps": times, "assets": names, "close": close, "volume": volume, "features": {"f": close * 2}}


@given(grids())
def test_gaps_are_masked_and_carried_forward(grid):
    panel, close = MarketPanel.from_arrays(grid), grid["close"]
    np.testing.assert_array_equal(panel.tradable, ~np.isnan(close))
    for asset in range(close.shape[1]):
        last = np.nan
        for bar, value in enumerate(close[:, asset]):
            last = last if np.isnan(value) else value
            np.testing.assert_equal(panel.close[bar, asset], last)
        assert panel.last_bar[asset] == np.flatnonzero(~np.isnan(close[:, asset]))[-1]
    assert np.isfinite(panel.features).all()


@given(grids(), st.data())
def test_a_window_is_the_bars_of_its_dates(grid, data):
    panel = MarketPanel.from_arrays(grid)
    first = data.draw(st.integers(0, panel.num_bars - 2))
    stop = data.draw(st.integers(first + 2, panel.num_bars))
    warmup = data.draw(st.integers(0, 15))
    end = panel.timestamps[stop] if stop < panel.num_bars else None
    cut = panel.window(panel.timestamps[first], end, warmup_bars=warmup)
    begin = max(0, first - warmup)
    assert cut.warmup == first - begin
    for name in ("timestamps", "close", "tradable", "volume", "features"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(panel, name)[begin:stop])
        assert np.shares_memory(getattr(cut, name), getattr(panel, name))
    for asset, last in enumerate(panel.last_bar):
        assert cut.last_bar[asset] == min(max(last - begin, -1), cut.num_bars - 1)


@given(grids(), st.data())
def test_cutting_twice_is_cutting_once(grid, data):
    panel = MarketPanel.from_arrays(grid)
    first = data.draw(st.integers(0, panel.num_bars - 2))
    again = data.draw(st.integers(first, panel.num_bars - 2))
    twice = panel.window(panel.timestamps[first]).window(panel.timestamps[again])
    assert twice.fingerprint == panel.window(panel.timestamps[again]).fingerprint


@pytest.mark.parametrize(
    "name", [name for name in ARRAYS if name not in ("open", "high", "low", "splits", "dividends")]
)
@given(grid=grids(), data=st.data())
def test_any_single_value_changes_the_fingerprint(name, grid, data):
    panel = MarketPanel.from_arrays(grid).with_market_features({"m": np.arange(float(len(grid["timestamps"])))})
    array = getattr(panel, name).copy()
    place = data.draw(st.integers(0, array.size - 1))
    if array.dtype == bool:
        array.flat[place] = not array.flat[place]
    elif array.dtype.kind == "M":
        array.flat[place] += np.timedelta64(1, "ns")
    elif array.dtype.kind == "i":
        array.flat[place] += 1
    else:
        value = array.flat[place]
        array.flat[place] = 1.0 if np.isnan(value) else np.nextafter(value, np.inf, dtype=array.dtype)
    assert dataclasses.replace(panel, **{name: array}).fingerprint != panel.fingerprint


@given(grids())
def test_names_and_facts_change_the_fingerprint(grid):
    panel = MarketPanel.from_arrays(grid)
    others = [
        dataclasses.replace(panel, assets=("Z", *panel.assets[1:])),
        dataclasses.replace(panel, feature_names=("g",)),
        dataclasses.replace(panel, adjusted=True),
        dataclasses.replace(panel, stamp="close"),
        dataclasses.replace(panel, periods_per_year=panel.periods_per_year + 1),
        dataclasses.replace(panel, training_only_features=frozenset({"f"})),
        dataclasses.replace(panel, warmup=1),
        dataclasses.replace(panel, volume=None),
        dataclasses.replace(panel, volume=None, dividends=panel.volume),
    ]
    assert len({panel.fingerprint, *(other.fingerprint for other in others)}) == len(others) + 1
    assert dataclasses.replace(panel).fingerprint == panel.fingerprint
