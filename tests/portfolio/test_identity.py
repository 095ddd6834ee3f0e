"""The stage that changes nothing."""

import numpy as np

from alphaswarm_rl.actions.continuous_weights import ContinuousWeights  # noqa: F401  (registers)
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.portfolio.identity import Identity
from tests.actions.views import ACCOUNT, panel_of, view_of


def test_the_weights_stay_as_they_are():
    weights = np.array([[0.2, -0.3], [0.0, 1.5]])
    out = weights.copy()
    Identity().step(view_of([0, 0]), {}, out)
    assert (out == weights).all()


def test_an_environment_with_it_is_the_one_without():
    def values(portfolio):
        env = make_env(
            "stock_trading",
            panel=panel_of([[10.0, 20.0], [11.0, 19.0], [12.0, 21.0], [9.0, 22.0]]),
            action={"class": "continuous_weights"},
            observation=ACCOUNT,
            fill="next_close",
            episode_bars=None,
            portfolio=portfolio,
        )
        env.reset()
        return [env.step(np.array([[0.5, 0.25]], np.float32))[4]["portfolio_value"][0] for _ in range(3)]

    assert values([{"class": "identity"}]) == values([])
