"""Episodes told step by step, and what a term pays for them."""

import numpy as np

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.part import Part


def days(count):
    return np.datetime64("2024-01-01") + np.arange(count)


def panel_of(close, *, periods_per_year=252, **arrays):
    """A panel of these closes, (T,) or (T, A); other columns as keyword arguments."""
    close = np.asarray(close, float)
    close = close[:, None] if close.ndim == 1 else close
    assets = [f"A{i}" for i in range(close.shape[1])]
    shaped = {name: np.asarray(array).reshape(close.shape) for name, array in arrays.items()}
    panel = MarketPanel.from_arrays(
        {"timestamps": days(len(close)), "assets": assets, "close": close, **shaped}, periods_per_year=periods_per_year
    )
    # The environments' own observation wants a feature.
    return panel.with_features({"nothing": np.zeros(close.shape)})


class Episode:
    """One account's episode, written down by hand.

    Args:
        term: What is rewarded.
        panel: The market; a flat one where none is given.
        fill: When orders fill.
        cash: What the account starts with.
    """

    def __init__(self, term, panel=None, *, fill="same_close", cash=100.0, start=0):
        self.panel = panel_of(np.full(500, 10.0)) if panel is None else panel
        market = market_of(self.panel, fill_policy(fill), NUMPY)
        self.view = View(market, cash, 1)
        self.view.average_cost = np.zeros((1, market.assets))
        self.part = Part(term, market, 1)
        self.begin(start)

    def begin(self, start=0):
        """The next episode."""
        view = self.view
        for name in ("positions", "traded", "average_cost"):
            getattr(view, name)[...] = 0.0
        view.bar[...] = view.start[...] = start
        for name in ("cash", "value", "value_before", "peak"):
            getattr(view, name)[...] = view.initial_cash
        self.part.begin(np.array([0]))
        return self

    def step(self, **changes):
        """The reward of a step after which the view shows these numbers; what lasts a step is 0 unless it is named."""
        view = self.view
        view.bar += 1
        view.value_before[...] = view.value
        for name in ("cost", "carry", "turnover", "traded", "called", "terminated", "truncated", "improper_stop"):
            getattr(view, name)[...] = 0
        for name, value in changes.items():
            getattr(view, name)[...] = value
        view.peak[...] = np.maximum(view.peak, view.value)
        out = np.full(1, np.nan)
        self.part.step(view, out)
        return float(out[0])

    def values(self, *values):
        """Rewards of a walk of the account's value."""
        return [self.step(value=value) for value in values]

    def returns(self, *returns):
        """Rewards of a walk of the account's returns."""
        return [self.step(value=self.view.value * (1.0 + gained)) for gained in returns]


def made(cls, **kwargs):
    """The component with these parameters."""
    return cls(cls.Config(**kwargs))
