"""What trading cost."""

from __future__ import annotations

from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View
from alphaswarm_rl.rewards.step_return import over_equity


class TransactionCost(RewardTerm):
    """Minus the commission, spread and impact of the step over the equity before; 0 where there was none.

    The account's value already has these costs in it: beside a profit term they count twice, which makes the agent
    trade less than pays.
    """

    rl_alias = "transaction_cost"
    rl_category = "cost"

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes minus the relative cost."""
        out[...] = over_equity(view, -view.cost)
