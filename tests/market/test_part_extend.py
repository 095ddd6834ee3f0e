"""A part that goes on with more bars has the tables of a part that begins with all of them."""

import numpy as np
import pytest

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.catalogue import discover, listing
from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.part import Part
from tests.envs.panels import random_panel

FIRST, LAST = 40, 46


def whole_panel():
    panel = random_panel(3, bars=LAST, assets=3, actions=True)
    rng = np.random.default_rng(0)
    return panel.with_market_features({name: rng.uniform(1, 2, LAST) for name in ("turbulence", "vix")})


def carrying():
    """Every observation that says from how many bars it makes a row."""
    found = []
    discover()
    for component in listing("observation"):
        for kwargs in ({}, {"lookback": 5}, {"lookback": 5, "price_returns": True}, {"fields": ["f0"]}):
            try:
                part = component(component.Config(**kwargs))
                if part.prepared_from() is not None:
                    part.prepare(whole_panel())
            except (AlphaSwarmError, ValueError, AttributeError):
                continue
            if part.prepared_from() is not None:
                found.append(pytest.param(part, id=f"{component.rl_alias} {kwargs}"))
    return found


@pytest.mark.parametrize("component", carrying())
def test_new_rows_are_those_of_the_whole(component):
    panel, fill = whole_panel(), fill_policy("next_open")
    part = Part(component, market_of(panel.cut(0, FIRST), fill, NUMPY), 1)
    for bars in (FIRST + 1, FIRST + 2, LAST):
        market = market_of(panel.cut(0, bars), fill, NUMPY)
        part.extend(market)
        expected = Part(component, market, 1).state
        assert part.state.keys() == expected.keys()
        for name, table in expected.items():
            np.testing.assert_array_equal(part.state[name], table, err_msg=name)


def test_some_observations_carry_their_rows():
    assert len(carrying()) >= 6
