"""Weights from trailing returns: equal, by inverse volatility, by mean and variance, by hierarchical risk parity.

An allocation is long only and fully invested, over the assets that take part. Policies and portfolio stages both stand
on it; the optimising ones are skfolio's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.core.view import Panel

Method = Literal["inverse_volatility", "minimum_variance", "utility", "hierarchical_risk_parity"]

#: Returns that differ by no more have no variance to speak of.
_STILL = 1e-12


def tradable_at(panel: Panel, bar: int) -> Array:
    """Which assets can be traded at that bar and have a price, (A,)."""
    return np.asarray(panel.tradable[bar] & np.isfinite(panel.close[bar]))


def equal_weights(panel: Panel, bar: int, allowed: Array | None = None) -> Array:
    """The same weight for every asset that can be traded at that bar; all 0 where none can.

    Args:
        panel: The bars.
        bar: The bar of the decision.
        allowed: Assets that may take part, (A,); None: all.
    """
    tradable = tradable_at(panel, bar) if allowed is None else tradable_at(panel, bar) & allowed
    return tradable / max(int(tradable.sum()), 1)


def trailing_returns(panel: Panel, bar: int, lookback: int) -> Array:
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


@dataclass(frozen=True)
class TrailingWeights:
    """Weights by trailing returns: long only, and fully invested.

    Only assets take part that may, can be traded at the bar, have a price on every bar of the lookback, and moved in
    it. Where the lookback is not there yet, or fewer than two assets take part, weights are equal.

    Attributes:
        what: Whose weights they are, for errors.
        lookback: How many returns are looked at.
        method: In inverse proportion to volatility; least variance; the highest mean - risk_aversion * variance, both
            per bar; hierarchical risk parity.
        risk_aversion: What variance costs, for the utility.
    """

    what: str
    lookback: int
    method: Method
    risk_aversion: float = 1.0

    def __call__(self, panel: Panel, bar: int, allowed: Array | None = None) -> Array:
        """The weights (A,) of a decision at that bar; `allowed` (A,) says who may take part."""
        if bar < self.lookback:
            return equal_weights(panel, bar, allowed)
        returns = trailing_returns(panel, bar, self.lookback)
        # Without a price the difference is NaN, and not above anything.
        known = tradable_at(panel, bar) & (np.ptp(returns, axis=0) > _STILL)
        if allowed is not None:
            known &= allowed
        if known.sum() < 2:
            return equal_weights(panel, bar, allowed)
        weights = np.zeros(panel.num_assets)
        weights[known] = self._solve(returns[:, known], when=str(panel.timestamps[bar]))
        return weights

    def _solve(self, returns: Array, *, when: str) -> Array:
        if self.method == "inverse_volatility":
            return inverse_volatility(returns)
        from cvxpy import SolverError
        from skfolio.exceptions import NonPositiveVarianceError

        # In units of their spread: a solver's tolerances mean nothing for the tiny variances of short bars.
        spread = returns.std()
        try:
            found = self._model(spread).fit(returns / spread).weights_
        except (SolverError, NonPositiveVarianceError, ValueError) as error:
            raise ComponentError(
                f"{self.what} at {when}",
                f"no optimal weights were found for {returns.shape[1]} assets: {error}",
                "Look at the prices before that date, or choose another lookback.",
            ) from error
        # A solver keeps its constraints to some digits only.
        solution: Array = np.maximum(found, 0.0)
        solution /= solution.sum()
        return solution

    def _model(self, spread: float) -> Any:
        from skfolio.optimization import HierarchicalRiskParity, MeanRisk, ObjectiveFunction

        if self.method == "hierarchical_risk_parity":
            return HierarchicalRiskParity()
        least = self.method == "minimum_variance"
        return MeanRisk(
            objective_function=ObjectiveFunction.MINIMIZE_RISK if least else ObjectiveFunction.MAXIMIZE_UTILITY,
            risk_aversion=self.risk_aversion * spread,
        )


def inverse_volatility(returns: Array) -> Array:
    """Weights (A,) in inverse proportion to the standard deviations of returns (T, A)."""
    inverse: Array = 1.0 / returns.std(axis=0, ddof=1)
    inverse /= inverse.sum()
    return inverse


#: Target weights (A,) of a decision at a bar, from the panel's rows up to that bar.
Allocation = Callable[[Panel, int], Array]
