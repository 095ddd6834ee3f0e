"""The dynamics of `merton_portfolio`, and Merton's weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.envs.truth.solution import Solution
from alphaswarm_rl.envs.truth.task import Arrays, TruthTask

Array = np.ndarray[Any, Any]


class MertonPortfolioTask(TruthTask):
    """See `MertonPortfolio`."""

    noise = ("normal", "normal")
    columns = ("return_0", "return_1")

    def __init__(self, name: str, config: ComponentConfig, horizon: int) -> None:
        super().__init__(name, config, horizon)
        first, second = self.config.volatility
        shared = self.config.correlation * first * second
        self._covariance = np.array([[first**2, shared], [shared, second**2]])
        self._weights = np.linalg.solve(self._covariance, np.array(self.config.excess))
        if np.abs(self._weights).max() > self.config.bound:
            raise EnvError(
                f"the bound {self.config.bound} of {name}",
                f"the best weights {self._weights.round(3).tolist()} are beyond it",
                "Raise the bound, or the volatilities.",
            )

    def action_space(self) -> Box:
        """The two weights, each over the bound."""
        return Box(-1.0, 1.0, (2,), np.float32)

    def begin(self, noise: Sequence[Any], xp: Any) -> Arrays:
        """No return is seen yet."""
        return {name: xp.zeros_like(noise[0]) for name in self.columns}

    def step(self, state: Mapping[str, Any], action: Any, noise: Sequence[Any], xp: Any) -> tuple[Arrays, Any, Any]:
        """One year; the reward is the growth of log wealth."""
        config = self.config
        correlated = config.correlation * noise[0] + math.sqrt(1.0 - config.correlation**2) * noise[1]
        shocks = (config.volatility[0] * noise[0], config.volatility[1] * correlated)
        weights = (config.bound * action[:, 0], config.bound * action[:, 1])
        (first, shared), (_, second) = self._covariance.tolist()
        variance = (
            first * weights[0] * weights[0] + 2.0 * shared * weights[0] * weights[1] + second * weights[1] * weights[1]
        )
        moved = tuple(drift + shock for drift, shock in zip(config.excess, shocks, strict=True))
        reward = config.rate + weights[0] * moved[0] + weights[1] * moved[1] - 0.5 * variance
        returns = (
            moved[0] - 0.5 * config.volatility[0] ** 2,
            moved[1] - 0.5 * config.volatility[1] ** 2,
        )
        return dict(zip(self.columns, returns, strict=True)), reward, xp.zeros_like(reward)

    def observe(self, state: Mapping[str, Any]) -> tuple[Any, ...]:
        """The last log returns of the stocks beyond the rate, which say nothing about the next."""
        return state["return_0"], state["return_1"]

    def growth(self, weights: Array) -> float:
        """The expected growth of log wealth per step of constant weights."""
        excess = float(weights @ np.array(self.config.excess))
        return float(self.config.rate + excess - 0.5 * weights @ self._covariance @ weights)

    def solution(self) -> Solution:
        """Merton's weights; the random policy draws each weight uniformly within the bound."""
        config = self.config
        action = self._weights / config.bound
        return Solution(
            act=lambda observations: np.tile(action, (len(observations), 1)),
            j_opt=self.growth(self._weights),
            j_base=float(config.rate - 0.5 * config.bound**2 / 3.0 * np.trace(self._covariance)),
            base="random",
            constant=action,
        )
