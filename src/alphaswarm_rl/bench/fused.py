"""The yardstick: a whole `stock_trading` step, its observation included, as one Numba loop over accounts.

No parts, no slots, no infos: what composition costs is the distance to this. Accounts go through in blocks that stay in
the cache.
"""

from __future__ import annotations

import numpy as np

from alphaswarm_rl.arrays.jit import njit
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.envs.trading_env import TradingEnv
from alphaswarm_rl.market.kernels_numba import mark, trade_shares

_BLOCK = 32


@njit
def _step(
    cash, positions, actions, bar, start, last, fill, close, tradable, volume, rates, hmax, maintenance,
    features, scale, initial, first, length, starts, draws,
    cost, turnover, traded, value, before, carry, called, reward, truncated, orders, out,
):  # fmt: skip
    assets = positions.shape[1]
    for block in range(0, cash.size, _BLOCK):
        end = min(block + _BLOCK, cash.size)
        for i in range(block, end):
            before[i] = value[i]
            for j in range(assets):
                orders[i, j] = min(max(float(actions[i, j]), -1.0), 1.0) * hmax
            bar[i] += 1
        trade_shares(
            block, end, cash, positions, orders, bar, fill, tradable, volume, rates, True, cost, turnover, traded
        )
        mark(block, end, cash, positions, bar, close, rates, maintenance, value, carry, called)
        for i in range(block, end):
            reward[i] = (value[i] - before[i]) * scale
            truncated[i] = bar[i] >= last[i]
            if truncated[i]:
                start[i] = first + int(draws[i] * starts)
                bar[i] = start[i]
                last[i] = start[i] + length
                cash[i] = initial
                value[i] = initial
                positions[i, :] = 0.0
            now, begin, row = close[bar[i]], close[start[i]], features[bar[i]]
            per_unit = 1.0 / value[i]
            out[i, 0] = cash[i] * per_unit
            for j in range(assets):
                out[i, 1 + j] = now[j] / begin[j] - 1.0
                out[i, 1 + assets + j] = positions[i, j] * now[j] * per_unit
            for j in range(row.size):
                out[i, 1 + 2 * assets + j] = row[j]


class FusedStockTrading:
    """`stock_trading` with its own parts, fused; built from the composed environment so that both do the same.

    Args:
        env: The composed environment, just reset.
    """

    def __init__(self, env: TradingEnv) -> None:
        plan, view, market, n = env.plan, env.view, env.market, env.num_envs
        self.num_envs = n
        self._width = len(env.feature_names)
        self._draws = np.random.default_rng(0).random(n)
        none = np.empty((0, 0))
        rates = np.array(plan.costs.rates(plan.panel.periods_per_year))
        state = [view.cash, view.positions, view.bar, view.start, view.last]
        cash, positions, bar, start, last = (array.copy() for array in state)
        self._accounts = (cash, positions)
        self._time = (bar, start, last, market.fill_price, market.close, market.tradable, none, rates)
        self._rules = (
            plan.action.config.hmax,
            plan.margin.maintenance,
            market.features,
            plan.terms[0].term.config.scale,
        )
        self._episodes = (plan.initial_cash, plan.first_bar, plan.length, plan.starts, self._draws)
        floats, flags = [np.empty(n) for _ in range(6)], [np.empty(n, np.bool_) for _ in range(2)]
        cost, turnover, value, before, carry, reward = floats
        value[:] = view.value
        self.value, self.reward = value, reward
        called, truncated = flags
        orders, traded = np.empty_like(positions), np.empty_like(positions)
        self._results = (cost, turnover, traded, value, before, carry, called, reward, truncated, orders)

    def step(self, actions: Array) -> Array:
        """One step of all; the observation is a new array, as everywhere."""
        out = np.empty((self.num_envs, self._width), np.float32)
        _step(*self._accounts, actions, *self._time, *self._rules, *self._episodes, *self._results, out)
        return out
