"""Orders in units: no share is lost between what a policy says and what is ordered."""

import numpy as np
import pytest

from alphaswarm_rl import make_env
from alphaswarm_rl.core.refs import build_from_config
from tests.actions.views import ACCOUNT, FREE, decoded, panel_of, view_of


def orders(actions, *, dtype=np.float32, prices=(10.0, 20.0), alias="integer_shares", **kwargs):
    actions = np.asarray(actions, dtype)[:, None] * np.ones((1, len(prices)), dtype)
    action = build_from_config({"class": alias, "kwargs": kwargs}, kind="action")
    view = view_of(actions, prices=prices)
    view.average_cost = np.full(view.positions.shape, 1.0)
    return decoded(action, view)[:, 0]


@pytest.mark.parametrize("alias", ["integer_shares", "stop_loss_shares"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hmax", [100, 1000, 7, 12345])
def test_every_order_of_the_grid_is_the_whole_number_that_is_meant(alias, dtype, hmax):
    grid = np.arange(-hmax, hmax + 1)
    found = orders(grid / hmax, dtype=dtype, hmax=hmax, alias=alias)
    np.testing.assert_array_equal(np.trunc(found), grid)


def test_orders_in_money_are_the_units_that_are_meant():
    # 0.29 of 1000 is 290 money: 29 units of 10, not 28.
    assert orders([0.29, -0.29], hmax=1000, unit="money").tolist() == [29.0, -29.0]


def test_what_lies_between_two_units_stays_there():
    found = orders([0.2899, 0.29001, 0.995, 0.005], hmax=100)
    assert np.trunc(found).tolist() == [28.0, 29.0, 99.0, 0.0]
    np.testing.assert_allclose(found, [28.99, 29.001, 99.5, 0.5], rtol=1e-6)


def test_fractions_of_units_stay_as_they_are():
    exact = np.float64(np.float32(0.29)) * 100
    assert orders([0.29], hmax=100, whole=False).tolist() == [exact]


def test_an_account_holds_the_29_shares_that_it_ordered():
    panel = panel_of(np.full((4, 1), 10.0))
    env = make_env("stock_trading", panel=panel, fill="next_close", hmax=100, costs=FREE, observation=ACCOUNT)
    env.reset(seed=0)
    env.step(np.array([[0.29]], np.float32))
    assert env.view.positions[0, 0] == 29.0
