"""Proxies from bars, and the quotes themselves where there are any."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.envs import stock_trading  # noqa: F401  (registers)
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.observations.microstructure import Microstructure
from tests.observations.panels import at


def tiny():
    """KO has a gap at bar 2; PEP starts at bar 2 and is flat at bar 3."""
    nan = np.nan
    return MarketPanel.from_arrays(
        {
            "timestamps": (np.datetime64("2024-01-01") + np.arange(4)).astype("datetime64[ns]"),
            "assets": ["KO", "PEP"],
            "close": np.array([[100, nan], [101, nan], [nan, 50], [98, 50]]),
            "high": np.array([[102, nan], [102, nan], [nan, 50.5], [102, 50]]),
            "low": np.array([[100, nan], [98, nan], [nan, 49.5], [98, 50]]),
            "volume": np.array([[100, nan], [300, nan], [nan, 0], [200, 10]]),
        }
    )


def built(**kwargs):
    return Microstructure(Microstructure.Config(**kwargs))


def test_proxies_from_bars_by_hand():
    builder = built(lookback=3, scale=1.0)
    assert builder.names(tiny()) == (
        *("range_bps:KO", "close_location:KO", "vol_clock:KO"),
        *("range_bps:PEP", "close_location:PEP", "vol_clock:PEP"),
    )
    # The low is 100 and the close 100: at the very bottom. One bar is its own mean.
    assert list(at(builder, tiny(), 0).values()) == pytest.approx([200, -1, 0, 0, 0, 0])
    # Three quarters up from 98 to 102; volume 300 against a mean of 200.
    assert list(at(builder, tiny(), 1).values()) == pytest.approx([4 / 101 * 1e4, 0.5, 0.5, 0, 0, 0])
    # A gap says nothing; PEP closes in its middle, and nothing was traded.
    assert list(at(builder, tiny(), 2).values()) == pytest.approx([0, 0, 0, 200, 0, 0])
    # KO's mean is over 300 and 200, since the gap is no bar; PEP's high is its low, its mean over 0 and 10 is 5.
    assert list(at(builder, tiny(), 3).values()) == pytest.approx([4 / 98 * 1e4, -1, -0.2, 0, 0, 1])


def test_basis_points_are_scaled_and_the_rest_is_not():
    plain, scaled = (at(built(lookback=3, scale=scale), tiny(), 1) for scale in (1.0, 0.01))
    assert scaled["range_bps:KO"] == pytest.approx(0.01 * plain["range_bps:KO"])
    assert scaled["close_location:KO"] == plain["close_location:KO"]


def test_quotes_take_the_place_of_proxies():
    nan = np.nan
    bid, ask = np.array([[99, nan]] * 4), np.array([[101, nan]] * 4)
    quoted = tiny().with_features({"bid": bid, "ask": ask})
    shown = at(built(scale=1.0), quoted, 1)
    assert list(shown) == [
        *("spread_bps:KO", "close_location:KO", "vol_clock:KO"),
        *("spread_bps:PEP", "close_location:PEP", "vol_clock:PEP"),
    ]
    assert shown["spread_bps:KO"] == pytest.approx(200)
    assert shown["spread_bps:PEP"] == 0
    sizes = {"bid_size": np.array([[30, nan]] * 4), "ask_size": np.array([[10, nan]] * 4)}
    assert at(built(), tiny().with_features(sizes), 1)["imbalance:KO"] == 0.5
    assert at(built(), tiny().with_features(sizes), 1)["imbalance:PEP"] == 0
    assert "range_bps:KO" in built().names(tiny().with_features(sizes))


def test_scaled_quotes_are_refused():
    scaled = tiny().with_features({"bid": np.full((4, 2), -0.3), "ask": np.full((4, 2), 0.3)})
    with pytest.raises(DataError, match=r"feature 'bid'.*scaler: none"):
        built().prepare(scaled)


def test_an_environment_refuses_bars_without_volume():
    bare = MarketPanel.from_arrays({name: getattr(tiny(), name) for name in ("timestamps", "assets", "close")})
    with pytest.raises(DataError, match=r"column 'high'.*'microstructure' needs it"):
        make_env("stock_trading", panel=bare, fill="next_close", observation={"class": "microstructure"})


def test_a_first_decision_has_a_whole_mean():
    assert built().warmup_bars() == 19
