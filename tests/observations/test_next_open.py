"""The one observation that looks ahead."""

import numpy as np

from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.observations.next_open import NextOpen
from tests.observations.panels import observed


def test_it_is_the_next_open_over_the_current_close():
    nan = np.nan
    panel = MarketPanel.from_arrays(
        {
            "timestamps": (np.datetime64("2024-01-01") + np.arange(4)).astype("datetime64[ns]"),
            "assets": ["KO", "PEP"],
            "open": np.array([[99, nan], [105, nan], [nan, 49], [121, 51]]),
            "close": np.array([[100, nan], [110, nan], [nan, 50], [98, 50]]),
        }
    )
    assert NextOpen().names(panel) == ("next_open:KO", "next_open:PEP")
    # Over a gap nothing changes; PEP's first open has no close before it; behind the last bar there is none.
    expected = [[0.05, 0], [0, 0], [0.1, 0.02], [0, 0]]
    np.testing.assert_allclose(observed(NextOpen(), panel), expected, rtol=1e-6)


def test_it_needs_opens_and_serves_evaluation_too():
    assert NextOpen.needs == ("open",)
    assert not NextOpen.training_only
