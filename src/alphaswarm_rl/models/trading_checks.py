"""The gates of models that trade: bars instead of episodes, and bootstrap bounds over the account's curve.

The bootstrap's seed is fixed: the same evidence gets the same verdict, whenever it is judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

import numpy as np

from alphaswarm_rl.core.account_evidence import AccountEvidence
from alphaswarm_rl.models.gates import Evidence, Gate, Verdict, needs_evaluation
from alphaswarm_rl.models.rows import EvaluationRow
from alphaswarm_rl.statistics.bootstrap import Interval, bootstrap_difference, stationary_bootstrap
from alphaswarm_rl.statistics.performance import RETURN_MEASURES

#: Fewest assets of which no one must make most of the profit: of two, one always makes half of it or more.
_SEVERAL = 3

_Check = Callable[[Evidence, AccountEvidence], Verdict]


def _needs_account(name: str) -> Callable[[_Check], Gate]:
    """A gate that fails where the newest evaluation left no curve, and judges the curve otherwise."""

    def decorate(function: _Check) -> Gate:
        @wraps(function)
        def judge(evidence: Evidence, _: EvaluationRow) -> Verdict:
            if evidence.account is None:
                model = evidence.model.id
                why = f"its newest evaluation left no curve: evaluate it again, rl evaluate --model-id {model}"
                return Verdict(name, False, why)
            return function(evidence, evidence.account)

        return needs_evaluation(name)(judge)

    return decorate


@_needs_account("min_bars")
def min_bars(evidence: Evidence, account: AccountEvidence) -> Verdict:
    """Enough bars were played; those that several episodes played count once."""
    least = evidence.limits.min_bars
    reason = f"bars that were played: {account.bars}, asked for: {least}"
    return Verdict("min_bars", account.bars >= least, reason, account.bars, least)


@_needs_account("measure_lower_bound")
def measure_lower_bound(evidence: Evidence, account: AccountEvidence) -> Verdict:
    """The lower bound of the measure reaches the minimum."""
    name, limits = "measure_lower_bound", evidence.limits
    measure, periods = RETURN_MEASURES[limits.measure], account.periods_per_year
    found = stationary_bootstrap(
        np.array(account.returns), lambda rows: measure(rows, periods), confidence=_two_sided(limits.confidence)
    )
    if math.isnan(found.low):
        why = f"its {limits.measure} is undefined, of the curve itself or of too many like it"
        return Verdict(name, False, why, None, limits.min_measure)
    relation = "reaches" if found.low >= limits.min_measure else "is below"
    reason = (
        f"its {limits.measure} is {found.estimate:.4g}, and above {found.low:.4g} with {limits.confidence:.0%} "
        f"confidence (blocks of {found.block_length:.1f}), which {relation} {limits.min_measure:g}"
    )
    return Verdict(name, found.low >= limits.min_measure, reason, found.low, limits.min_measure)


@_needs_account("drawdown")
def drawdown(evidence: Evidence, account: AccountEvidence) -> Verdict:
    """The account never fell deeper below an earlier value than the limit."""
    least = -evidence.limits.max_drawdown
    reason = f"its deepest fall is {account.max_drawdown:.1%}, the limit is {least:.1%}"
    return Verdict("drawdown", account.max_drawdown >= least, reason, account.max_drawdown, least)


@_needs_account("not_worse_than_cash")
def not_worse_than_cash(evidence: Evidence, account: AccountEvidence) -> Verdict:
    """Its mean return is not below that of cash, which is 0, by more than is allowed."""
    return _beside("not_worse_than_cash", "cash", evidence, account, np.zeros(len(account.returns)))


@_needs_account("not_worse_than_equal_weight")
def not_worse_than_equal_weight(evidence: Evidence, account: AccountEvidence) -> Verdict:
    """Its mean return is not below that of equal weights after costs by more than is allowed."""
    name, other = "not_worse_than_equal_weight", np.array(account.equal_weight)
    return _beside(name, "equal weights after costs", evidence, account, other)


@_needs_account("profit_share")
def profit_share(evidence: Evidence, account: AccountEvidence) -> Verdict:
    """Of several assets no one made more of the profit than the limit."""
    name, most = "profit_share", evidence.limits.max_profit_share
    if len(account.profits) < _SEVERAL:
        return Verdict(name, True, f"it trades {len(account.profits)} of the {_SEVERAL} assets that this is about")
    total = math.fsum(account.profits.values())
    asset, profit = max(account.profits.items(), key=lambda item: item[1])
    if total <= 0:
        return Verdict(name, False, f"its assets made {total:.6g} together: there is no profit", None, most)
    share = profit / total
    reason = f"{asset} made {share:.0%} of the profit before costs, the limit is {most:.0%}"
    return Verdict(name, share <= most, reason, share, most)


def _beside(name: str, yardstick: str, evidence: Evidence, account: AccountEvidence, other: np.ndarray) -> Verdict:
    """Judges the lower bound of the difference in yearly mean returns, bar by bar."""
    limits, periods = evidence.limits, account.periods_per_year
    found: Interval = bootstrap_difference(
        np.array(account.returns),
        other,
        lambda rows: RETURN_MEASURES["mean_return"](rows, periods),
        confidence=_two_sided(limits.confidence),
    )
    least = 0.0 - limits.max_shortfall
    relation = "reaches" if found.low >= least else "is below"
    reason = (
        f"a year it makes {found.estimate:+.2%} beside {yardstick}, and more than {found.low:+.2%} with "
        f"{limits.confidence:.0%} confidence, which {relation} {least:.2%}"
    )
    return Verdict(name, found.low >= least, reason, found.low, least)


def _two_sided(confidence: float) -> float:
    """The share of the two-sided interval whose lower end is a bound with that confidence."""
    return 2.0 * confidence - 1.0
