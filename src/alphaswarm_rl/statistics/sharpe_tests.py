"""How much a Sharpe ratio proves: of one series, and of the best of many trials.

Bailey and Lopez de Prado (2012, 2014). Sharpe ratios are per period and not per year, skewness and kurtosis those of a
population, the kurtosis of a normal distribution 3. The deflated ratio is the one of 2014: its error is that of the
observed Sharpe ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.errors import StatisticsError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.statistics.checks import finite, share
from alphaswarm_rl.statistics.performance import sharpe

#: Fewest periods that have a deviation.
_LEAST = 2


@dataclass(frozen=True)
class SharpeEstimate:
    """A Sharpe ratio per period with what its error depends on.

    Attributes:
        sharpe: The ratio; NaN where returns do not vary, or are fewer than two.
        periods: How many returns there were.
        skew: Their skewness.
        kurtosis: Their kurtosis, 3 for a normal distribution.
    """

    sharpe: float
    periods: int
    skew: float = 0.0
    kurtosis: float = 3.0

    @classmethod
    def of(cls, returns: Array, risk_free: float | Array = 0.0) -> SharpeEstimate:
        """The estimate from returns.

        Args:
            returns: The returns, (periods,).
            risk_free: The risk-free rate per period.

        Raises:
            StatisticsError: A return is not finite, or they are no row.
        """
        excess = finite(returns, "returns", dimensions=1) - risk_free
        estimate = float(sharpe(excess, 1.0))
        if math.isnan(estimate):
            return cls(math.nan, len(excess), math.nan, math.nan)
        deviations = excess - excess.mean()
        second, third, fourth = (float((deviations**power).mean()) for power in (2, 3, 4))
        return cls(estimate, len(excess), third / second**1.5, fourth / second**2)

    @property
    def error(self) -> float:
        """The standard error; NaN with fewer than two periods, or where the moments allow none."""
        return math.sqrt(self._spread / (self.periods - 1)) if self.periods >= _LEAST else math.nan

    @property
    def _spread(self) -> float:
        """The variance of the ratio times the periods but one; NaN where it would not be above 0."""
        spread = 1.0 - self.skew * self.sharpe + (self.kurtosis - 1.0) / 4.0 * self.sharpe**2
        return spread if spread > 0 else math.nan


def probabilistic_sharpe_ratio(estimate: SharpeEstimate, threshold: float = 0.0) -> float:
    """The probability that the true Sharpe ratio is above a threshold per period; NaN without an error."""
    return _normal((estimate.sharpe - threshold) / estimate.error)


def expected_maximum_sharpe(variance: float, trials: float) -> float:
    """The best Sharpe ratio that so many independent trials without skill are expected to show.

    Args:
        variance: The variance of the trials' Sharpe ratios, with n - 1.
        trials: How many trials; the effective number, where they are correlated. One has nothing to choose from: 0.

    Raises:
        StatisticsError: There is less than one trial, or the variance is below 0 or not finite.
    """
    if not (trials >= 1 and math.isfinite(trials)):
        raise StatisticsError(f"{trials} trials", "the best of them is asked for", "Give 1 or more.")
    if trials == 1:
        return 0.0
    if not (variance >= 0 and math.isfinite(variance)):
        raise StatisticsError(f"the variance {variance} of trials", "it is no variance", "Give 0 or more.")
    gamma = np.euler_gamma
    # The approximation falls below 0 for hardly more than one trial, where the expectation does not.
    expected = (1.0 - gamma) * _quantile(1.0 - 1.0 / trials) + gamma * _quantile(1.0 - 1.0 / (trials * math.e))
    return math.sqrt(variance) * max(expected, 0.0)


def deflated_sharpe_ratio(estimate: SharpeEstimate, variance: float, trials: float) -> float:
    """The probability that the best of many trials has a Sharpe ratio above what luck alone would have brought.

    Args:
        estimate: Of the best trial.
        variance: The variance of the trials' Sharpe ratios per period, with n - 1.
        trials: How many trials there were, shown or not.
    """
    return probabilistic_sharpe_ratio(estimate, expected_maximum_sharpe(variance, trials))


def minimum_track_record(estimate: SharpeEstimate, threshold: float = 0.0, confidence: float = 0.95) -> float:
    """The periods needed to be so sure that the true Sharpe ratio is above a threshold per period.

    It is infinite where the estimate does not exceed the threshold, NaN where there is no estimate.
    """
    share(confidence, "confidence")
    if estimate.sharpe <= threshold:
        return math.inf
    return 1.0 + estimate._spread * (_quantile(confidence) / (estimate.sharpe - threshold)) ** 2


def minimum_backtest_length(trials: float, expected: float = 1.0) -> float:
    """How long data must be for the best of so many trials without skill not to be expected to show this Sharpe ratio.

    Args:
        trials: How many independent trials.
        expected: The Sharpe ratio; one per year gives years, one per period gives periods.
    """
    if not expected > 0:
        raise StatisticsError(f"a Sharpe ratio of {expected}", "luck alone reaches it", "Give one above 0.")
    return (expected_maximum_sharpe(1.0, trials) / expected) ** 2


def effective_trials(returns: Array) -> float:
    """How many independent trials correlated ones amount to: `r + (1 - r) * trials`, with `r` their mean correlation.

    It lies between 1 and the number of trials. A trial whose returns do not vary is correlated with none.

    Args:
        returns: The returns of each trial over the same periods, (periods, trials).

    Raises:
        StatisticsError: A return is not finite, or there are fewer than two periods or no trial.
    """
    table = finite(returns, "the returns of trials", dimensions=2)
    periods, trials = table.shape
    if periods < _LEAST or trials < 1:
        why = f"there are {trials} trials of {periods} periods"
        raise StatisticsError("the returns of trials", why, "Give one trial and two periods or more.")
    if trials == 1:
        return 1.0
    deviations = table - table.mean(axis=0)
    lengths = np.sqrt((deviations**2).sum(axis=0))
    still = lengths <= 1e-12 * np.sqrt((table**2).sum(axis=0))
    unit = np.where(still, 0.0, deviations / np.where(still, 1.0, lengths))
    # The sum of all correlations is the squared length of the sum of unit vectors.
    total = float((unit.sum(axis=1) ** 2).sum()) - float((~still).sum())
    mean = total / (trials * (trials - 1))
    return float(min(max(mean + (1.0 - mean) * trials, 1.0), trials))


def sharpe_variance(returns: Array) -> float:
    """The variance of the Sharpe ratios per period of trials, (periods, trials), with n - 1; 0 of a single trial.

    A trial whose returns do not vary has the ratio 0.
    """
    table = finite(returns, "the returns of trials", dimensions=2)
    ratios = sharpe(table.T, 1.0)
    return float(np.nan_to_num(ratios).var(ddof=1)) if len(ratios) > 1 else 0.0


def _normal(value: float) -> float:
    """The probability of a standard normal variable below a value."""
    # Imported here, as in `samples`: a tenth of a second that only those pay who judge.
    from scipy.special import ndtr  # type: ignore[import-untyped]

    return float(ndtr(value))


def _quantile(probability: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(probability))
