"""A stock in two regimes: its dynamics, and its optimum by dynamic programming."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from gymnasium.spaces import Discrete
from pydantic import Field, PositiveFloat, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.types import AnySpace, Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions
from alphaswarm_rl.envs.truth.task import Draws, Result, Solution, TaskState, TruthComponent, mean_reward

#: The weights that the actions 0, 1 and 2 stand for.
WEIGHTS = np.array([0.0, 0.5, 1.0])
_STEP = 0.5
_PRECISION = 1e-13
_Probability = Annotated[float, Field(gt=0, lt=1)]


class RegimeAllocation(TruthComponent):
    """A stock in two regimes that are seen and switch by chance: none, half or all of the wealth, at a cost.

    The reward is the growth of log wealth as in `merton_portfolio`, less the cost of changing the weight. The optimum
    is known by dynamic programming over regime and weight.
    """

    rl_alias = "regime_allocation"
    rl_tags = ("discrete", "native", "exact-resume", "torch", "truth")
    noise = ("normal", "uniform")
    columns = ("regime", "weight", "return")

    class Config(ComponentConfig):
        """Parameters of the task; of two numbers the first is the good regime's."""

        drift: tuple[float, float] = Field((0.15, -0.15), description="Drifts of the stock beyond cash.")
        volatility: PositiveFloat = Field(0.3, description="Volatility of the stock.")
        stay: tuple[_Probability, _Probability] = Field(
            (0.95, 0.92), description="Probabilities that the next step is in the same regime."
        )
        cost: float = Field(0.05, ge=0, lt=1, description="What a change of the weight by 1 costs.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    def action_space(self) -> AnySpace:
        """None, half or all of the wealth."""
        return Discrete(len(WEIGHTS))

    def begin(self, noise: Draws, xp: ArrayFunctions) -> NamedArrays:
        """Nothing invested; the regime as often as it is in the long run."""
        regime = xp.where(noise[1] < self.share_of_good, 1.0, -1.0)
        return {"regime": regime, "weight": xp.zeros_like(regime), "return": xp.zeros_like(regime)}

    def step(self, state: TaskState, action: BackendArray, noise: Draws, xp: ArrayFunctions) -> Result:
        """The weight is taken in the regime that was seen; then the regime stays or switches."""
        config, good = self.config, state["regime"] > 0.0
        weight = xp.zeros_like(state["weight"]) + _STEP * action
        cost = config.cost * xp.abs(weight - state["weight"])
        moved = xp.where(good, *config.drift) + config.volatility * noise[0]
        variance = config.volatility**2
        reward = weight * moved - 0.5 * variance * weight * weight - cost
        stays = noise[1] < xp.where(good, *config.stay)
        regime = xp.where(stays, state["regime"], -state["regime"])
        return {"regime": regime, "weight": weight, "return": moved - 0.5 * variance}, reward, cost

    def observe(self, state: TaskState) -> tuple[BackendArray, ...]:
        """The regime (1 is the good one, -1 the other), the weight, and the stock's last log return beyond cash."""
        return state["regime"], state["weight"], state["return"]

    @property
    def share_of_good(self) -> float:
        """How often the regime is the good one in the long run."""
        to_bad, to_good = (1.0 - stay for stay in self.config.stay)
        return float(to_good / (to_good + to_bad))

    def growth(self) -> Array:
        """Expected growth of log wealth by regime (good, bad) and weight, without costs, (2, 3)."""
        variance = self.config.volatility**2
        growth: Array = np.array(self.config.drift)[:, None] * WEIGHTS - 0.5 * variance * WEIGHTS**2
        return growth

    def best(self, discount: float = 1.0) -> Array:
        """The best action by regime and weight before, (2, 3), by relative value iteration.

        Args:
            discount: What a reward one step later counts; 1 maximises the mean reward.
        """
        pays, moves = self._pays(), self._switches()
        worth = np.zeros((2, len(WEIGHTS)))
        while True:
            later = moves @ worth  # by regime now and weight after
            worths: Array = pays + discount * later[:, None, :]
            value = worths.max(axis=-1)
            # Only differences of worth matter: so it converges without a discount too.
            new = value - value[0, 0]
            if np.abs(new - worth).max() < _PRECISION:
                best: Array = worths.argmax(axis=-1)
                return best
            worth = new

    def j_of(self, actions: Array) -> float:
        """J of a policy by regime and weight before, (2, 3)."""
        states, weights = (2, len(WEIGHTS)), np.arange(len(WEIGHTS))
        paid = np.take_along_axis(self._pays(), actions[..., None], axis=-1)[..., 0]
        moves = np.zeros((*states, *states))
        for regime in range(2):
            moves[regime, weights, :, actions[regime]] = self._switches()[regime]
        start = np.zeros(states)
        start[:, 0] = self.share_of_good, 1.0 - self.share_of_good
        count = paid.size
        return mean_reward(paid.ravel(), moves.reshape(count, count), start.ravel(), self.config.horizon)

    def solution(self) -> Solution:
        """The best policy by regime and weight, and the best weight that is always held."""
        table = self.best()

        def act(observations: Array) -> Array:
            regime = (observations[:, 0] < 0).astype(np.int64)
            return table[regime, np.rint(observations[:, 1] / _STEP).astype(np.int64)]

        held = [self.j_of(np.full(table.shape, action)) for action in range(len(WEIGHTS))]
        return Solution(
            act=act,
            j_opt=self.j_of(table),
            j_base=max(held),
            base="constant",
            constant=np.array(int(np.argmax(held))),
        )

    def _pays(self) -> Array:
        """Expected rewards by regime, weight before and weight after, (2, 3, 3)."""
        pays: Array = self.growth()[:, None, :] - self.config.cost * np.abs(WEIGHTS - WEIGHTS[:, None])
        return pays

    def _switches(self) -> Array:
        good, bad = self.config.stay
        return np.array([[good, 1.0 - good], [1.0 - bad, bad]])
