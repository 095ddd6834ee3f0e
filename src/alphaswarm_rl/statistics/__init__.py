"""How policies are judged: pure statistics over arrays.

Names are imported when they are first used, so that who needs one module waits for no other.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alphaswarm_rl.statistics.backtest_overfitting import BacktestOverfitting, probability_of_backtest_overfitting
    from alphaswarm_rl.statistics.bootstrap import (
        Interval,
        bootstrap_difference,
        optimal_block_length,
        stationary_bootstrap,
    )
    from alphaswarm_rl.statistics.drawdown import Drawdown, drawdowns
    from alphaswarm_rl.statistics.measures import (
        MEASURES,
        MarketModel,
        certainty_equivalent,
        conditional_value_at_risk,
        hit_rate,
        market_model,
        return_measures,
        rolling,
        tail_ratio,
        value_at_risk,
    )
    from alphaswarm_rl.statistics.multiple_tests import (
        AdjustedTests,
        SuperiorAbility,
        benjamini_hochberg,
        holm_bonferroni,
        stepwise_superior,
        superior_predictive_ability,
    )
    from alphaswarm_rl.statistics.performance import (
        annual_return,
        calmar,
        curve_of,
        downside_deviation,
        max_drawdown,
        returns_of,
        sharpe,
        sortino,
        undefined_reasons,
        volatility,
    )
    from alphaswarm_rl.statistics.positions import cost_share, exposure, turnover
    from alphaswarm_rl.statistics.rademacher import (
        AntiSerum,
        RademacherComplexity,
        rademacher_anti_serum,
        rademacher_complexity,
    )
    from alphaswarm_rl.statistics.sharpe_tests import (
        SharpeEstimate,
        deflated_sharpe_ratio,
        effective_trials,
        expected_maximum_sharpe,
        minimum_backtest_length,
        minimum_track_record,
        probabilistic_sharpe_ratio,
        sharpe_variance,
    )
    from alphaswarm_rl.statistics.splits import (
        CombinatorialPurgedKFold,
        CombinatorialSplit,
        DateSplit,
        Split,
        split_by_date,
        walk_forward_anchored,
        walk_forward_rolling,
    )

_NAMES = {
    "backtest_overfitting": ("BacktestOverfitting", "probability_of_backtest_overfitting"),
    "bootstrap": ("Interval", "bootstrap_difference", "optimal_block_length", "stationary_bootstrap"),
    "drawdown": ("Drawdown", "drawdowns"),
    "measures": (
        "MEASURES",
        "MarketModel",
        "certainty_equivalent",
        "conditional_value_at_risk",
        "hit_rate",
        "market_model",
        "return_measures",
        "rolling",
        "tail_ratio",
        "value_at_risk",
    ),
    "multiple_tests": (
        "AdjustedTests",
        "SuperiorAbility",
        "benjamini_hochberg",
        "holm_bonferroni",
        "stepwise_superior",
        "superior_predictive_ability",
    ),
    "performance": (
        "annual_return",
        "calmar",
        "curve_of",
        "downside_deviation",
        "max_drawdown",
        "returns_of",
        "sharpe",
        "sortino",
        "undefined_reasons",
        "volatility",
    ),
    "positions": ("cost_share", "exposure", "turnover"),
    "rademacher": ("AntiSerum", "RademacherComplexity", "rademacher_anti_serum", "rademacher_complexity"),
    "sharpe_tests": (
        "SharpeEstimate",
        "deflated_sharpe_ratio",
        "effective_trials",
        "expected_maximum_sharpe",
        "minimum_backtest_length",
        "minimum_track_record",
        "probabilistic_sharpe_ratio",
        "sharpe_variance",
    ),
    "splits": (
        "CombinatorialPurgedKFold",
        "CombinatorialSplit",
        "DateSplit",
        "Split",
        "split_by_date",
        "walk_forward_anchored",
        "walk_forward_rolling",
    ),
}

__all__ = [
    "MEASURES",
    "AdjustedTests",
    "AntiSerum",
    "BacktestOverfitting",
    "CombinatorialPurgedKFold",
    "CombinatorialSplit",
    "DateSplit",
    "Drawdown",
    "Interval",
    "MarketModel",
    "RademacherComplexity",
    "SharpeEstimate",
    "Split",
    "SuperiorAbility",
    "annual_return",
    "benjamini_hochberg",
    "bootstrap_difference",
    "calmar",
    "certainty_equivalent",
    "conditional_value_at_risk",
    "cost_share",
    "curve_of",
    "deflated_sharpe_ratio",
    "downside_deviation",
    "drawdowns",
    "effective_trials",
    "expected_maximum_sharpe",
    "exposure",
    "hit_rate",
    "holm_bonferroni",
    "market_model",
    "max_drawdown",
    "minimum_backtest_length",
    "minimum_track_record",
    "optimal_block_length",
    "probabilistic_sharpe_ratio",
    "probability_of_backtest_overfitting",
    "rademacher_anti_serum",
    "rademacher_complexity",
    "return_measures",
    "returns_of",
    "rolling",
    "sharpe",
    "sharpe_variance",
    "sortino",
    "split_by_date",
    "stationary_bootstrap",
    "stepwise_superior",
    "superior_predictive_ability",
    "tail_ratio",
    "turnover",
    "undefined_reasons",
    "value_at_risk",
    "volatility",
    "walk_forward_anchored",
    "walk_forward_rolling",
]

_HOMES = {name: f"alphaswarm_rl.statistics.{module}" for module, names in _NAMES.items() for name in names}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'alphaswarm_rl.statistics' has no attribute {name!r}")
