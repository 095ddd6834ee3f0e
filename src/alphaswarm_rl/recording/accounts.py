"""How the accounts of a trading environment did, episode by episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.envs.trading_plan import TradingPlan
from alphaswarm_rl.statistics.performance import performance

#: What is kept of every step, by its name in `infos`.
_KEPT = ("portfolio_value", "turnover", "cost")


def recorder_for(env: AnyVectorEnv) -> AccountRecorder | None:
    """The recorder of an environment with accounts; None for all others."""
    plan = getattr(env.unwrapped, "plan", None)
    return AccountRecorder(plan, env.num_envs) if isinstance(plan, TradingPlan) else None


class AccountRecorder:
    """Keeps the steps of the episodes that are being played.

    Args:
        plan: What the environment is made of: its initial cash and the periods in a year.
        num_envs: How many are stepped together.
    """

    def __init__(self, plan: TradingPlan, num_envs: int) -> None:
        self._initial = plan.initial_cash
        self._periods_per_year = plan.panel.periods_per_year
        self._steps: list[np.ndarray[Any, Any]] = []
        self._begin = np.zeros(num_envs, dtype=np.int64)

    def record(self, infos: Mapping[str, Any]) -> None:
        """Takes in one step of all environments."""
        self._steps.append(np.stack([infos[name] for name in _KEPT]))

    def end_episode(self, index: int) -> dict[str, float]:
        """How the account of one environment did in the episode that ends here; its next step begins another."""
        episode = self._steps[self._begin[index] :]
        self._begin[index] = len(self._steps)
        values, turnover, cost = np.stack([step[:, index] for step in episode], axis=1)
        return {
            **performance(np.concatenate([[self._initial], values]), self._periods_per_year),
            "turnover": float(turnover.mean()),
            "cost": float(cost.sum()) / self._initial,
        }
