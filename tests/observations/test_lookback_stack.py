"""The features of the last bars."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.observations.lookback_stack import LookbackStack
from tests.observations.panels import at, observed


def tiny():
    nan = np.nan
    arrays = {
        "timestamps": (np.datetime64("2024-01-01") + np.arange(4)).astype("datetime64[ns]"),
        "assets": ["KO", "PEP"],
        "close": np.array([[100, nan], [110, nan], [nan, 50], [99, 75]]),
    }
    features = {"a": np.array([[1, nan], [2, nan], [nan, 3], [4, 5]]), "b": np.arange(8.0).reshape(4, 2)}
    return MarketPanel.from_arrays(arrays).with_features(features)


def test_bars_then_assets_then_features_the_oldest_first():
    builder = LookbackStack(LookbackStack.Config(lookback=2))
    assert builder.names(tiny()) == (
        *("a:KO:t-1", "b:KO:t-1", "a:PEP:t-1", "b:PEP:t-1"),
        *("a:KO:t-0", "b:KO:t-0", "a:PEP:t-0", "b:PEP:t-0"),
    )
    assert observed(builder, tiny(), [2])[0].tolist() == [2, 2, 0, 3, 2, 4, 3, 5]
    assert observed(builder, tiny(), [3])[0].tolist() == [2, 4, 3, 5, 4, 6, 5, 7]
    shown = observed(builder, tiny(), [3])[0].reshape(2, 2, 2)
    np.testing.assert_array_equal(shown, tiny().features[2:4])


def test_all_features_are_read_where_they_are():
    assert LookbackStack().prepare(tiny()) == {}


def test_chosen_features_in_the_order_asked_for():
    builder = LookbackStack(LookbackStack.Config(lookback=1, features=["b", "a"]))
    assert at(builder, tiny(), 3) == {"b:KO:t-0": 6, "a:KO:t-0": 4, "b:PEP:t-0": 7, "a:PEP:t-0": 5}


def test_returns_are_the_last_feature_of_each_bar():
    builder = LookbackStack(LookbackStack.Config(lookback=2, features=["a"], price_returns=True))
    # KO: a gap at bar 2, then 99 over the carried 110. PEP starts at bar 2.
    assert at(builder, tiny(), 3) == pytest.approx(
        {
            "a:KO:t-1": 2,
            "return:KO:t-1": 0,
            "a:PEP:t-1": 3,
            "return:PEP:t-1": 0,
            "a:KO:t-0": 4,
            "return:KO:t-0": -0.1,
            "a:PEP:t-0": 5,
            "return:PEP:t-0": 0.5,
        }
    )


def test_a_first_decision_has_all_bars():
    assert LookbackStack().warmup_bars() == 4
    # The return of the oldest bar needs the bar before it.
    assert LookbackStack(LookbackStack.Config(price_returns=True)).warmup_bars() == 5
    builder = LookbackStack(LookbackStack.Config(lookback=1, features=[], price_returns=True))
    assert at(builder, tiny(), builder.warmup_bars())["return:KO:t-0"] == pytest.approx(0.1)


def test_nothing_to_show_is_an_error():
    bare = MarketPanel.from_arrays({name: getattr(tiny(), name) for name in ("timestamps", "assets", "close")})
    with pytest.raises(DataError, match="price_returns: true"):
        LookbackStack().names(bare)
    assert len(LookbackStack(LookbackStack.Config(price_returns=True)).names(bare)) == 10
    with pytest.raises(DataError, match=r"feature 'aa'.*'lookback_stack' shows it.*Did you mean"):
        LookbackStack(LookbackStack.Config(features=["aa"])).names(tiny().with_features({"aaa": np.zeros((4, 2))}))
