"""gym-anytrading's accounts for a whole batch at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete

from alphaswarm_rl.core.contracts import EnvRequest, State
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import Array, JsonObject
from alphaswarm_rl.envs.anytrading import Bars
from alphaswarm_rl.envs.base import SeededEnv
from alphaswarm_rl.envs.episodes import checked_pair, matching, refuse_options, refuse_picture

_BOUND = 1e10
_PIPS = 10_000
_FEATURES = 2

#: Added to rewards, makes them float64, and 0.0 of -0.0.
_ZERO = np.float64(0.0)


@dataclass(frozen=True)
class Account:
    """What one task pays. Prices and profits are float32, as they are in the library under NumPy 2.

    Attributes:
        reward: Of (+1 where a long position is closed, -1 where a short one is, else 0; price change since the trade).
        profit: The new total profit of (old one, price of the last trade, price now), where it is settled.
        settles: The position that is settled when it is closed or the episode ends: 1 long, 0 short.
    """

    reward: Callable[[Array, Array], Array]
    profit: Callable[[Array, Array, Array], Array]
    settles: int


def forex_account(fee: float, unit_side: str) -> Account:
    """A pair of currencies: rewards in pips on both sides, profit on the one that leaves the unit's currency."""

    def reward(closed: Array, change: Array) -> Array:
        pips: Array = closed * (change * _PIPS)
        return pips

    def left(profit: Array, traded: Array, price: Array) -> Array:
        return profit * (traded - fee) / price

    def right(profit: Array, traded: Array, price: Array) -> Array:
        return profit / traded * (price - fee)

    return Account(reward, left, settles=0) if unit_side == "left" else Account(reward, right, settles=1)


def stocks_account(bid_fee: float, ask_fee: float) -> Account:
    """A share: reward and profit of long positions alone."""

    def reward(closed: Array, change: Array) -> Array:
        return (closed > 0) * change

    def profit(profit: Array, traded: Array, price: Array) -> Array:
        return profit * (1 - ask_fee) / traded * (1 - bid_fee) * price

    return Account(reward, profit, settles=1)


class BatchedAnyTrading(SeededEnv):
    """Many accounts on the same bars.

    Episodes all begin on the same bar, end on the same bar and have nothing random, so that the whole batch is always
    on one bar: prices are one array for all, whatever their number.

    `infos` has `total_profit`, `total_reward` and `position` (0 short, 1 long) on every step, as that step left them;
    on an episode's last step they are the ended episode's.

    Args:
        request: How many are wanted.
        bars: The bars to show.
        account: What trades pay.
    """

    def __init__(self, request: EnvRequest, bars: Bars, account: Account) -> None:
        self._width = _FEATURES * bars.window_size
        space = Box(-_BOUND, _BOUND, (self._width,), np.float32)
        super().__init__(request, observation_space=space, action_space=Discrete(2))
        closes = bars.frame["Close"].to_numpy(np.float64)[bars.first - bars.window_size : bars.end]
        # Rows of one number: NumPy works with small arrays faster than with its scalars.
        self._prices = closes.astype(np.float32)[:, None]
        # Bar after bar in one dimension, so that the window of any bar is one slice.
        self._signal = np.column_stack((closes, np.diff(closes, prepend=closes[0]))).astype(np.float32).reshape(-1)
        self._first, self._last = bars.window_size, len(closes) - 1
        self._account = account
        self._tick = self._first
        self._position: Array
        self._traded: Array
        self._profit: Array
        self._reward: Array
        self._begin()

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Array, dict[str, Any]]:
        """Starts each environment's next episode; a seed replaces the request's and starts again from episode 0."""
        refuse_options(options, "anytrading")
        self._episodes.restart(seed)
        self._begin()
        return self._observe(), self._infos()

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Sells or buys at the next bar's close; ended episodes are followed at once by their next."""
        if self._episodes.numbers[0] < 0:
            raise ResetNeeded("Cannot call step() before calling reset()")
        # The positions that the actions ask for are the actions themselves.
        target = checked_pair(actions, self.num_envs, "anytrading", "0 (sell) or 1 (buy)").astype(np.float32)
        account, position, traded = self._account, self._position, self._traded
        self._tick += 1
        price = self._prices[self._tick]
        ended = self._tick == self._last

        closed = position - target
        reward = account.reward(closed, price - traded)
        settled = closed > 0 if account.settles else closed < 0
        if ended:
            settled = position == account.settles
        self._profit = np.where(settled, account.profit(self._profit, traded, price), self._profit)
        self._reward = self._reward + reward
        self._traded = np.where(closed, price, traded)
        self._position = target

        infos = self._infos()
        observations = self._observe()
        if ended:
            infos["final_obs"], infos["_final_obs"] = observations, np.ones(self.num_envs, np.bool_)
            self._episodes.advance(self._all)
            self._begin()
            observations = self._observe()
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = np.ones(self.num_envs, np.bool_) if ended else np.zeros(self.num_envs, np.bool_)
        return observations, reward + _ZERO, terminated, truncated, infos

    def render(self) -> NoReturn:
        """Not offered."""
        refuse_picture("Use {class: gymnasium, kwargs: {id: stocks-v0}} or forex-v0.")

    def get_state(self) -> State:
        """The bar, the accounts, episode numbers and seed: everything."""
        episodes = self._episodes.state()
        arrays = {name: getattr(self, f"_{name}").copy() for name in ("position", "traded", "profit", "reward")}
        return State(arrays={**arrays, **episodes.arrays}, data={**episodes.data, "tick": self._tick})

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit."""
        tick = state.data.get("tick")
        if not isinstance(tick, int) or not self._first <= tick < self._last:
            raise EnvError(
                f"the environment state's bar {tick!r}",
                f"episodes act on bars {self._first} to {self._last - 1} here",
                "Build the environment as it was built for the run that saved the state.",
            )
        position, traded = matching(state, "position", self._position), matching(state, "traded", self._traded)
        profit, reward = matching(state, "profit", self._profit), matching(state, "reward", self._reward)
        self._episodes.set_state(state)
        self._tick = tick
        self._position, self._traded = position.astype(np.float32), traded.astype(np.float32)
        self._profit, self._reward = profit.astype(np.float32), reward.astype(np.float32)

    def _begin(self) -> None:
        self._tick = self._first
        self._position = np.zeros(self.num_envs, np.float32)
        # Nothing has been traded yet; the library counts from the bar before the first.
        self._traded = np.full(self.num_envs, self._prices[self._first - 1])
        self._profit = np.ones(self.num_envs, np.float32)
        self._reward = np.zeros(self.num_envs, np.float32)

    def _observe(self) -> Array:
        end = _FEATURES * (self._tick + 1)
        observations = np.empty((self.num_envs, self._width), np.float32)
        observations[:] = self._signal[end - self._width : end]
        return observations

    def _infos(self) -> dict[str, Any]:
        return {
            "total_profit": self._profit.astype(np.float64),
            "total_reward": self._reward.astype(np.float64),
            "position": self._position.astype(np.int64),
        }
