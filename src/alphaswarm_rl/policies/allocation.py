"""Target weights of a decision at a bar, from what is known at its close."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.market.panel import MarketPanel

Array = np.ndarray[Any, Any]

#: Returns that differ by no more have no variance to speak of.
_STILL = 1e-12


def equal_weights(panel: MarketPanel, bar: int) -> Array:
    """The same weight for every asset that can be traded at that bar; all 0 where none can."""
    there = _tradable(panel, bar)
    return there / max(int(there.sum()), 1)


def trailing_returns(panel: MarketPanel, bar: int, lookback: int) -> Array:
    """The simple returns of the `lookback` bars up to that one, (lookback, A); NaN where a price is missing.

    They are what a holder gets, dividends and splits included; adjusted prices already contain them.
    """
    rows = slice(bar - lookback + 1, bar + 1)
    after, before = panel.close[rows], panel.close[bar - lookback : bar]
    if panel.dividends is not None:
        after = after + panel.dividends[rows]
    if panel.splits is not None:
        after = after * panel.splits[rows]
    return after / before - 1.0


class MeanRiskWeights:
    """Optimal weights by mean and variance of trailing returns: long only, and fully invested.

    Only assets take part that can be traded at the bar, have a price on every bar of the lookback, and moved in it.
    Where the lookback is not there yet, or fewer than two assets take part, weights are equal.

    Args:
        policy: The policy's alias, for errors.
        lookback: How many returns are looked at.
        objective: Least variance; or the highest mean - risk_aversion * variance, both per bar.
        risk_aversion: What variance costs, for the utility.
    """

    def __init__(
        self,
        policy: str,
        *,
        lookback: int,
        objective: Literal["minimum_variance", "utility"],
        risk_aversion: float = 1.0,
    ) -> None:
        self._policy = policy
        self._lookback = lookback
        self._objective = objective
        self._risk_aversion = risk_aversion

    def __call__(self, panel: MarketPanel, bar: int) -> Array:
        """The weights (A,) of a decision at that bar."""
        if bar < self._lookback:
            return equal_weights(panel, bar)
        returns = trailing_returns(panel, bar, self._lookback)
        # Without a price the difference is NaN, and not above anything.
        known = _tradable(panel, bar) & (np.ptp(returns, axis=0) > _STILL)
        if known.sum() < 2:
            return equal_weights(panel, bar)
        weights = np.zeros(panel.num_assets)
        weights[known] = self._solve(returns[:, known], when=str(panel.timestamps[bar]))
        return weights

    def _solve(self, returns: Array, *, when: str) -> Array:
        from cvxpy import SolverError
        from skfolio.exceptions import NonPositiveVarianceError
        from skfolio.optimization import MeanRisk, ObjectiveFunction

        least = self._objective == "minimum_variance"
        # In units of their spread: a solver's tolerances mean nothing for the tiny variances of short bars.
        spread = returns.std()
        model = MeanRisk(
            objective_function=ObjectiveFunction.MINIMIZE_RISK if least else ObjectiveFunction.MAXIMIZE_UTILITY,
            risk_aversion=self._risk_aversion * spread,
        )
        try:
            found = model.fit(returns / spread).weights_
        except (SolverError, NonPositiveVarianceError, ValueError) as error:
            raise ComponentError(
                f"policy {self._policy!r} at {when}",
                f"no optimal weights were found for {returns.shape[1]} assets: {error}",
                "Look at the prices before that date, or choose another lookback.",
            ) from error
        # A solver keeps its constraints to some digits only.
        solution: Array = np.maximum(found, 0.0)
        solution /= solution.sum()
        return solution


def _tradable(panel: MarketPanel, bar: int) -> Array:
    there: Array = panel.tradable[bar] & np.isfinite(panel.close[bar])
    return there
