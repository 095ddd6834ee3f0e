"""What a step costs beyond its money: trading much, idling, falling, swinging, being called."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, View
from alphaswarm_rl.rewards.step_return import step_return


class TurnoverPenalty(RewardTerm):
    """Minus `weight` times the value traded in the step over the equity before."""

    rl_alias = "turnover_penalty"
    rl_category = "cost"

    class Config(ComponentConfig):
        """Parameters of the turnover penalty."""

        weight: float = Field(0.001, ge=0, description="Reward lost when the whole account is traded once.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        out[...] = -self.config.weight * view.turnover


class SlippagePenalty(RewardTerm):
    """Minus what the step would have cost, had every fill been `bps` basis points worse, times `scale`.

    The money traded is units times the step's fill prices, summed over the assets. The account itself pays nothing.
    """

    rl_alias = "slippage_penalty"
    rl_category = "cost"

    class Config(ComponentConfig):
        """Parameters of the slippage penalty."""

        bps: float = Field(5.0, ge=0, description="Slippage, in basis points of the money traded.")
        scale: float = Field(1e-4, gt=0, description="Reward per unit of money, as of the profit term.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        # Not of `traded`: what was bought and sold inside one bar is nothing there.
        notional = view.turnover * view.value_before
        out[...] = -self.config.scale * self.config.bps * 1e-4 * notional


class CashIdle(RewardTerm):
    """Minus `penalty` on a step that ends without any position."""

    rl_alias = "cash_idle"
    rl_category = "behaviour"

    class Config(ComponentConfig):
        """Parameters of the idle cash penalty."""

        penalty: float = Field(0.0005, ge=0, description="Reward lost per step in cash alone.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        out[...] = view.xp.where(view.xp.all(view.positions == 0, axis=-1), -self.config.penalty, 0.0)


class DrawdownPenalty(RewardTerm):
    """Minus `weight` times the relative distance below the episode's highest value so far, beyond `threshold`."""

    rl_alias = "drawdown_penalty"
    rl_category = "risk"

    class Config(ComponentConfig):
        """Parameters of the drawdown penalty."""

        weight: float = Field(1.0, ge=0, description="Reward lost per unit of drawdown.")
        threshold: float = Field(0.0, ge=0, lt=1, description="Drawdown that costs nothing.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        out[...] = -self.config.weight * view.xp.clip(view.drawdown - self.config.threshold, 0.0, 1.0)


class VolatilityPenalty(RewardTerm):
    """Minus `weight` times the standard deviation of the account's last `window` returns, per bar.

    The deviation is the sample's (ddof 1) over the returns of the episode so far, `window` at most; 0 before there are
    two.
    """

    rl_alias = "volatility_penalty"
    rl_category = "risk"

    class Config(ComponentConfig):
        """Parameters of the volatility penalty."""

        weight: float = Field(1.0, ge=0, description="Reward lost per unit of volatility.")
        window: int = Field(20, ge=2, description="Returns that are looked at.")

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """The last returns in a ring, and how many there have been."""
        return {
            "returns": xp.zeros((n, self.config.window), dtype=xp.float64),
            "count": xp.zeros(n, dtype=xp.int64),
        }

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        xp, window, returns, count = view.xp, self.config.window, state["returns"], state["count"]
        returns[xp.arange(view.n), count % window] = step_return(view)
        count[...] = count + 1
        known = xp.clip(count, 1, window)
        # Places of the ring that are still empty hold 0 and must not count as returns.
        filled = xp.arange(window)[None, :] < known[:, None]
        mean = xp.sum(returns, axis=-1) / known
        apart = xp.where(filled, returns - mean[:, None], 0.0)
        variance = xp.sum(apart * apart, axis=-1) / xp.clip(known - 1, 1, window)
        out[...] = -self.config.weight * xp.sqrt(variance)


class MarginCallPenalty(RewardTerm):
    """Minus `penalty` on the step in which the account falls below its maintenance margin."""

    rl_alias = "margin_call"
    rl_category = "risk"

    class Config(ComponentConfig):
        """Parameters of the margin call penalty."""

        penalty: float = Field(100.0, ge=0, description="Reward lost by a margin call.")

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the penalty."""
        out[...] = view.xp.where(view.called, -self.config.penalty, 0.0)
