"""Rules that choose assets, by worked examples."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import AlphaSwarmError, DataError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.market.panel import MarketPanel


def model(alias, **kwargs):
    return build_from_config({"class": alias, "kwargs": kwargs}, kind="universe_model")


def panel_of(close, volume=None, **options):
    close = np.asarray(close, float)
    arrays = {
        "timestamps": np.datetime64("2024-01-01", "ns") + np.arange(len(close)) * np.timedelta64(1, "D"),
        "assets": [*"ABCDEFGH"[: close.shape[1]]],
        "close": close,
    }
    if volume is not None:
        arrays["volume"] = np.where(np.isnan(close), np.nan, np.broadcast_to(np.asarray(volume, float), close.shape))
    return MarketPanel.from_arrays(arrays, **options)


def test_a_static_universe_is_what_is_named_in_its_order():
    assert tuple(model("static", symbols=["C", "A"]).choose(panel_of(np.ones((3, 3))))) == ("C", "A")
    with pytest.raises(AlphaSwarmError, match="name each once"):
        model("static", symbols=["C", "C"])


def test_money_is_price_times_volume_the_most_first():
    # 10 x 5 = 50, 1 x 60 = 60, 20 x 1 = 20.
    panel = panel_of(np.full((4, 3), [10.0, 1.0, 20.0]), [5, 60, 1])
    assert model("top_traded_value", n=2).choose(panel) == ("B", "A")
    assert model("top_traded_value", n=3).choose(panel) == ("B", "A", "C")


def test_only_the_newest_bars_count():
    close = np.ones((10, 2))
    volume = np.ones((10, 2))
    volume[:7, 0], volume[7:, 1] = 100, 2
    panel = panel_of(close, volume)
    assert model("top_traded_value", n=1, lookback=3).choose(panel) == ("B",)
    assert model("top_traded_value", n=1, lookback=4).choose(panel) == ("A",)


def test_a_bar_without_a_trade_counts_as_none():
    close = np.ones((6, 2))
    close[2:4, 0] = np.nan
    # 4 x 30 over six bars is less than 6 x 21.
    assert model("top_traded_value", n=2, lookback=6).choose(panel_of(close, [30, 21])) == ("B", "A")


def test_of_equals_the_first_by_name_is_taken():
    assert model("top_traded_value", n=2).choose(panel_of(np.ones((3, 4)), 7)) == ("A", "B")


@pytest.mark.parametrize(("silent", "chosen"), [(2, ("B",)), (3, ("A",))])
def test_an_asset_that_fell_silent_is_passed_over(silent, chosen):
    close = np.ones((10, 2))
    close[7:, 0] = np.nan  # its last trade is three bars before the newest bar
    panel = panel_of(close, [1000, 1])
    assert model("top_traded_value", n=1, silent_bars=silent).choose(panel) == chosen


def test_an_asset_that_did_not_trade_yet_is_never_chosen():
    close = np.ones((4, 3))
    close[:3, 2] = np.nan
    known = panel_of(close, 1).window(end="2024-01-04")
    assert known.assets == ("A", "B", "C")
    with pytest.raises(DataError, match="3 assets are to be chosen, and 2 of 3 traded then"):
        model("top_traded_value", n=3, silent_bars=100).choose(known)
    assert model("screened", min_bars=1, silent_bars=100).choose(known) == ("A", "B")


def test_volume_is_asked_for_by_name():
    with pytest.raises(DataError, match="'top_traded_value': it needs the column 'volume'"):
        model("top_traded_value", n=1).choose(panel_of(np.ones((3, 2))))
    with pytest.raises(DataError, match="'screened': it needs the column 'volume'"):
        model("screened", min_bars=1, min_traded_value=1).choose(panel_of(np.ones((3, 2))))
    assert model("screened", min_bars=1).choose(panel_of(np.ones((3, 2)))) == ("A", "B")


def test_a_screen_asks_for_bars_price_and_money():
    close = np.full((6, 4), [10.0, 10.0, 2.0, 10.0])
    close[:3, 1] = np.nan
    panel = panel_of(close, [5, 5, 50, 1])
    assert model("screened", min_bars=6).choose(panel) == ("A", "C", "D")
    assert model("screened", min_bars=3, min_price=10).choose(panel) == ("A", "B", "D")
    assert model("screened", min_bars=1, min_traded_value=50).choose(panel) == ("A", "C")
    # B traded 50 on three of six bars: 25 a bar.
    assert model("screened", min_bars=1, min_traded_value=25).choose(panel) == ("A", "B", "C")


def test_a_screen_that_nothing_passes_is_an_error():
    with pytest.raises(DataError, match="none of 2 assets had shown what is asked"):
        model("screened", min_bars=4).choose(panel_of(np.ones((3, 2))))
