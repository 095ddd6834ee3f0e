"""What one decision step does to n accounts, asset by asset, for whoever records it.

A decision step that is asked to fills a `TradeLog`; one that is not does nothing more than without it. The log holds
copies of arrays that the step makes anyway, NumPy's or torch's. What they mean in money is worked out of them later, by
`market.trades`, on the host and for many steps at once.
"""

from __future__ import annotations

from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.market import Market

#: Exits of a bracket in one step: before the order, where orders fill at closes, and after it.
EXITS = 2


def log_names(market: Market, trade: Trade, margin: Margin, *, stops: bool, limited: bool = False) -> tuple[str, ...]:
    """The arrays that a log of such steps has, in order.

    Args:
        market: What is traded.
        trade: How targets are traded.
        margin: What may be owed.
        stops: Whether orders have a stop of their own.
        limited: Whether portfolio stages limit anything.
    """
    names = ["bar", "cash_before", "value_before", "quantity_before", "quantity", "targets", "ordered"]
    names += ["exit_quantity", "exit_price", "exit_stop"] if trade.bracket else []
    names += ["stopped"] if stops else []
    names += ["ended"] if market.ends is not None else []
    names += ["called"] if margin.lends else []
    names += ["measured"] if limited else []
    return tuple(names)


class TradeLog:
    """One step of all accounts, filled while it happens.

    Args:
        view: The accounts before the step.

    Attributes:
        targets: What is to be traded after the action, after each stage and after the gate, in that order.
        ordered: Units that the targets' order bought, negative when sold, (n, A).
        stopped: Which assets the action sold by its stop, (n, A); None where it has none.
        ended: Units closed because their asset ended, (n, A); None where none did.
        called: Units closed by a margin call, (n, A); None where none was.
        measured: What was compared with the limits of portfolio stages, (n, limits) for each stage that has some.
    """

    def __init__(self, view: View) -> None:
        self._cash, self._value, self._quantity = copied(view.cash), copied(view.value), copied(view.positions)
        self.targets: list[BackendArray] = []
        self.measured: list[BackendArray] = []
        self.ordered: BackendArray = None
        self.stopped: BackendArray = None
        self.ended: BackendArray = None
        self.called: BackendArray = None
        nothing = view.xp.zeros(view.n, dtype=view.xp.float64)
        self._exits = [(nothing, nothing, nothing)] * EXITS

    def exit(self, place: int, quantity: BackendArray, price: BackendArray, stop: BackendArray) -> None:
        """Takes in the exits of a bracket: units (n,), prices (n,), 0 where there is none, and which are stops."""
        self._exits[place] = (quantity, price, stop)

    def arrays(self, view: View, names: tuple[str, ...]) -> NamedArrays:
        """The arrays by name, once the step is over; `view` are the accounts then."""
        xp = view.xp
        exits = zip(*self._exits, strict=True)
        quantity, price, stop = (xp.stack(list(parts), axis=-1) for parts in exits)
        nothing = xp.zeros_like(view.positions)
        found = {
            "bar": copied(view.bar),
            "cash_before": self._cash,
            "value_before": self._value,
            "quantity_before": self._quantity,
            "quantity": copied(view.positions),
            "targets": xp.stack(self.targets, axis=1),
            "ordered": self.ordered,
            "exit_quantity": quantity,
            "exit_price": price,
            "exit_stop": stop,
            "stopped": self.stopped,
            "ended": nothing if self.ended is None else self.ended,
            "called": nothing if self.called is None else self.called,
        }
        if "measured" in names:
            found["measured"] = xp.concatenate(self.measured, axis=-1)
        return {name: found[name] for name in names}


def copied(array: BackendArray) -> BackendArray:
    """A copy of an array or a tensor."""
    return array.clone() if hasattr(array, "clone") else array.copy()
