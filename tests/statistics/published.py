"""Numbers that others published."""

import numpy as np

#: The returns of empyrical's own tests, and what it gives for 252 periods a year.
RETURNS = np.array([0.01, 0.10, -0.04, 0.02, 0.03, 0.02, 0.01, -0.10])
MEASURES = {
    "sharpe": 1.7238613962,
    "sortino": 2.6055312517,
    "volatility": 0.9136465400,
    "max_drawdown": -0.1,
    "annual_return": 2.3302927973,
}
#: What it gives beyond the measures of every evaluation.
MORE_MEASURES = {
    "calmar": 23.302927973,
    "value_at_risk": -0.079,
    "conditional_value_at_risk": -0.1,
    "downside_deviation": 0.6044832504,
}
