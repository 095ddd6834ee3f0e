"""Small markets, and accounts in them that stand at a bar without an environment."""

import numpy as np

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.view import View
from alphaswarm_rl.envs import stock_trading  # noqa: F401  (registers)
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.observations import portfolio_state, stacked, technical_indicators  # noqa: F401  (registers)
from alphaswarm_rl.rewards import pnl  # noqa: F401  (registers)
from alphaswarm_rl.terminations import margin_call  # noqa: F401  (registers)

ACCOUNT = {"class": "portfolio_state"}
FREE = {"commission_rate": 0, "half_spread_bps": 0, "borrow_rate": 0}


def days(count):
    return np.datetime64("2024-01-01", "ns") + np.arange(count) * np.timedelta64(1, "D")


def panel_of(close, **columns):
    """A panel with these closes (T, A); assets are called A0, A1, ..."""
    close = np.asarray(close, float)
    names = [f"A{index}" for index in range(close.shape[1])]
    return MarketPanel.from_arrays({"timestamps": days(len(close)), "assets": names, "close": close, **columns})


def view_of(actions, *, prices=(10.0, 20.0), cash=1000.0, positions=None, fill="next_close"):
    """Accounts with these positions (n, A) that all decide at the same prices; the panel goes on at the same prices."""
    actions = np.asarray(actions)
    n, close = len(actions), np.array([prices, prices, prices], float)
    columns = dict.fromkeys(("open", "high", "low"), close)
    market = market_of(panel_of(close, **columns), fill_policy(fill), NUMPY)
    view = View(market, cash, n)
    view.action = actions
    view.bar[:] = 1
    view.cash[:] = cash
    if positions is not None:
        view.positions[:] = positions
    view.value[:] = view.cash + (view.positions * view.close).sum(axis=-1)
    return view


def state_of(action, view):
    return {**action.prepare(view.market.panel), **action.init(view.n, np)}


def decoded(action, view, actions=None):
    """What the action hands to the account."""
    if actions is not None:
        view.action = actions
    shape = view.n if action.trade(view.market.panel).way == "position" else view.positions.shape
    out = np.full(shape, 7.0)
    action.step(view, state_of(action, view), out)
    return out
