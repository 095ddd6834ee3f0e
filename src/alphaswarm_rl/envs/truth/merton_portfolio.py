"""Merton's portfolio: its dynamics, and Merton's weights."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from gymnasium.spaces import Box
from pydantic import Field, PositiveFloat, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions
from alphaswarm_rl.envs.truth.task import Draws, Result, Solution, TaskState, TruthComponent

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AnyVectorEnv, EnvRequest


class MertonPortfolio(TruthComponent):
    """Merton's portfolio: the growth of wealth in two stocks and cash, whose best weights never change.

    Prices are geometric Brownian motions, and within a step of one year the portfolio is rebalanced continuously: log
    wealth grows by `rate + w'm - w'Cw / 2` and a normal shock of variance `w'Cw`, with m the excess drifts and C the
    covariance. Under log utility the optimum is w = C^-1 m, whatever the wealth and the time (Merton, 1969).
    """

    rl_alias = "merton_portfolio"
    rl_tags = ("continuous", "native", "exact-resume", "torch", "truth")
    noise = ("normal", "normal")
    columns = ("return_0", "return_1")

    class Config(ComponentConfig):
        """Parameters of the task."""

        rate: float = Field(0.02, ge=-1, le=1, description="What cash earns per step.")
        excess: tuple[float, float] = Field((0.08, 0.05), description="Drifts of the stocks beyond the rate.")
        volatility: tuple[PositiveFloat, PositiveFloat] = Field((0.25, 0.2), description="Volatilities of the stocks.")
        correlation: float = Field(0.3, gt=-1, lt=1, description="Correlation of the stocks.")
        bound: PositiveFloat = Field(3.0, description="The weight that an action of 1 stands for.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    @cached_property
    def _covariance(self) -> Array:
        first, second = self.config.volatility
        shared = self.config.correlation * first * second
        return np.array([[first**2, shared], [shared, second**2]])

    @cached_property
    def weights(self) -> Array:
        """Merton's weights, (2,); an error where the bound does not reach them."""
        weights = np.linalg.solve(self._covariance, np.array(self.config.excess))
        if np.abs(weights).max() > self.config.bound:
            raise EnvError(
                f"the bound {self.config.bound} of {self.rl_alias}",
                f"the best weights {weights.round(3).tolist()} are beyond it",
                "Raise the bound, or the volatilities.",
            )
        return weights

    def build(self, request: EnvRequest) -> AnyVectorEnv:
        """The batched environment; refused where the bound does not reach the optimum."""
        _ = self.weights
        return super().build(request)

    def action_space(self) -> Box:
        """The two weights, each over the bound."""
        return Box(-1.0, 1.0, (2,), np.float32)

    def begin(self, noise: Draws, xp: ArrayFunctions) -> NamedArrays:
        """No return is seen yet."""
        return {name: xp.zeros_like(noise[0]) for name in self.columns}

    def step(self, state: TaskState, action: BackendArray, noise: Draws, xp: ArrayFunctions) -> Result:
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

    def observe(self, state: TaskState) -> tuple[BackendArray, ...]:
        """The last log returns of the stocks beyond the rate, which say nothing about the next."""
        return state["return_0"], state["return_1"]

    def growth(self, weights: Array) -> float:
        """The expected growth of log wealth per step of constant weights."""
        excess = float(weights @ np.array(self.config.excess))
        return float(self.config.rate + excess - 0.5 * weights @ self._covariance @ weights)

    def solution(self) -> Solution:
        """Merton's weights; the random policy draws each weight uniformly within the bound."""
        config = self.config
        action = self.weights / config.bound
        return Solution(
            act=lambda observations: np.tile(action, (len(observations), 1)),
            j_opt=self.growth(self.weights),
            j_base=float(config.rate - 0.5 * config.bound**2 / 3.0 * np.trace(self._covariance)),
            base="random",
            constant=action,
        )
