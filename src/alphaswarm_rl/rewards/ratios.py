"""Return over risk: the ratio of the whole episode so far, and what each step adds to a moving one."""

from __future__ import annotations

import abc
from math import sqrt
from typing import ClassVar

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import RewardTerm
from alphaswarm_rl.core.types import BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions, View
from alphaswarm_rl.rewards.step_return import step_return

#: A deviation, or a variance, below this is none.
_EPSILON = 1e-12


class EpisodeRatio(RewardTerm):
    """Mean over deviation of the account's returns in the episode so far, times the root of the bars in a year.

    0 before `min_steps` returns, and where the deviation is 0.
    """

    rl_category = "risk-adjusted"
    #: Names of the sums that are kept, (n,) each.
    sums: ClassVar[tuple[str, str]]

    class Config(ComponentConfig):
        """Parameters of a ratio."""

        min_steps: int = Field(20, ge=2, description="Returns below which there is no ratio.")

    @abc.abstractmethod
    def update(self, view: View, state: NamedArrays, count: BackendArray) -> tuple[BackendArray, BackendArray]:
        """Adds the step's return to the sums; gives mean and deviation of the `count` returns."""

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """The number of returns, and the sums."""
        return {name: xp.zeros(n, dtype=xp.float64) for name in ("count", *self.sums)}

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the ratio."""
        xp, count = view.xp, state["count"] + 1.0
        state["count"][...] = count
        mean, deviation = self.update(view, state, count)
        defined = (count >= self.config.min_steps) & (deviation > _EPSILON)
        ratio = xp.where(defined, mean, 0.0) / xp.where(defined, deviation, 1.0)
        out[...] = ratio * sqrt(view.market.panel.periods_per_year)


class Sharpe(EpisodeRatio):
    """The annualised Sharpe ratio of the account's returns in the episode so far.

    Mean over standard deviation (ddof 1), times the square root of the bars in a year. 0 before `min_steps` returns,
    and where the returns do not vary.
    """

    rl_alias = "sharpe"
    sums = ("mean", "spread")

    class Config(EpisodeRatio.Config):
        """Parameters of the Sharpe ratio."""

    def update(self, view: View, state: NamedArrays, count: BackendArray) -> tuple[BackendArray, BackendArray]:
        """Mean and summed squared distance from it, by Welford's method."""
        xp, gained = view.xp, step_return(view)
        apart = gained - state["mean"]
        mean = state["mean"] + apart / count
        spread = state["spread"] + apart * (gained - mean)
        state["mean"][...], state["spread"][...] = mean, spread
        return mean, xp.sqrt(spread / xp.clip(count - 1.0, 1.0, xp.inf))


class Sortino(EpisodeRatio):
    """The annualised Sortino ratio of the account's returns in the episode so far.

    Mean over downside deviation, the root of the mean squared loss, times the square root of the bars in a year. 0
    before `min_steps` returns, and as long as nothing was lost.
    """

    rl_alias = "sortino"
    sums = ("gained", "squared_loss")

    class Config(EpisodeRatio.Config):
        """Parameters of the Sortino ratio."""

    def update(self, view: View, state: NamedArrays, count: BackendArray) -> tuple[BackendArray, BackendArray]:
        """Sum of the returns, and of the squared losses."""
        gained = step_return(view)
        loss = view.xp.clip(gained, -view.xp.inf, 0.0)
        state["gained"][...] = total = state["gained"] + gained
        state["squared_loss"][...] = squared = state["squared_loss"] + loss * loss
        return total / count, view.xp.sqrt(squared / count)


class DifferentialRatio(RewardTerm):
    """The derivative of a moving ratio by its rate of adaptation (Moody and Saffell 2001).

    Two moving averages are kept: of the return, and of what the ratio measures risk by.
    """

    rl_category = "risk-adjusted"
    #: The second average: its name among the parameters and in the state.
    risk: ClassVar[str]

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """Both averages, and the number of returns."""
        averages = {name: xp.full(n, getattr(self.config, name), dtype=xp.float64) for name in ("mean", self.risk)}
        return {**averages, "count": xp.zeros(n, dtype=xp.float64)}

    @abc.abstractmethod
    def derive(self, view: View, mean: BackendArray, risk: BackendArray) -> tuple[BackendArray, ...]:
        """By the averages before the step: D times v^(3/2), v, and how far the step is from either average."""

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the derivative, then moves the averages."""
        xp, config, mean, risk = view.xp, self.config, state["mean"], state[self.risk]
        scaled, variance, to_mean, to_risk = self.derive(view, mean, risk)
        defined = (variance > _EPSILON) & (state["count"] >= config.warmup_steps)
        safe = xp.where(defined, variance, 1.0)
        slope = scaled / (safe * xp.sqrt(safe))
        out[...] = xp.where(defined, xp.clip(slope, -config.limit, config.limit), 0.0)

        count = state["count"] + 1.0
        rate = xp.where(count <= config.warmup_steps, 1.0 / count, config.eta)
        mean[...] = mean + rate * to_mean
        risk[...] = risk + rate * to_risk
        state["count"][...] = count


class DifferentialSharpe(DifferentialRatio):
    """The derivative of a moving Sharpe ratio by its rate of adaptation (Moody and Saffell 2001).

    A and B are moving averages of the return R and of its square. With their values before the step,

        D = (B (R - A) - A (R^2 - B) / 2) / (B - A^2)^(3/2),

    and then A and B move by `eta` towards R and R^2. 0 where B - A^2 is 0.

    In the first `warmup_steps` of an episode the reward is 0 while A and B are plain means: averages of few returns
    give huge numbers. Afterwards it is cut to `limit`.
    """

    rl_alias = "differential_sharpe"
    risk = "second_moment"

    class Config(ComponentConfig):
        """Parameters of the differential Sharpe ratio."""

        eta: float = Field(0.01, gt=0, le=1, description="Rate at which the averages adapt.")
        mean: float = Field(0.0, description="A as an episode begins: an expected return per bar.")
        second_moment: float = Field(0.0, ge=0, description="B as an episode begins: an expected squared return.")
        warmup_steps: int = Field(20, ge=0, description="First steps of an episode, without reward.")
        limit: float = Field(10.0, gt=0, description="Largest size of the reward.")

    def derive(self, view: View, mean: BackendArray, risk: BackendArray) -> tuple[BackendArray, ...]:
        """By A and B."""
        gained = step_return(view)
        to_mean, to_risk = gained - mean, gained * gained - risk
        return risk * to_mean - 0.5 * mean * to_risk, risk - mean * mean, to_mean, to_risk


class DifferentialDownside(DifferentialRatio):
    """The derivative of a moving Sortino ratio by its rate of adaptation (Moody and Saffell 2001).

    R is the return above `target`. A and V are moving averages of R and of min(R, 0)^2, the squared loss. With their
    values before the step,

        D = (V (R - A / 2) - A min(R, 0)^2 / 2) / V^(3/2),

    and then A and V move by `eta`. 0 as long as V is 0, that is until the first loss.

    In the first `warmup_steps` of an episode the reward is 0 while A and V are plain means: averages of few returns
    give huge numbers. Afterwards it is cut to `limit`.
    """

    rl_alias = "differential_downside"
    risk = "squared_loss"

    class Config(ComponentConfig):
        """Parameters of the differential downside ratio."""

        eta: float = Field(0.01, gt=0, le=1, description="Rate at which the averages adapt.")
        target: float = Field(0.0, description="Return per bar below which it is a loss.")
        mean: float = Field(0.0, description="A as an episode begins: an expected return per bar, above the target.")
        squared_loss: float = Field(0.0, ge=0, description="V as an episode begins: an expected squared loss.")
        warmup_steps: int = Field(20, ge=0, description="First steps of an episode, without reward.")
        limit: float = Field(10.0, gt=0, description="Largest size of the reward.")

    def derive(self, view: View, mean: BackendArray, risk: BackendArray) -> tuple[BackendArray, ...]:
        """By A and V."""
        gained = step_return(view) - self.config.target
        loss = view.xp.clip(gained, -view.xp.inf, 0.0)
        scaled = risk * (gained - 0.5 * mean) - 0.5 * mean * loss * loss
        return scaled, risk, gained - mean, loss * loss - risk
