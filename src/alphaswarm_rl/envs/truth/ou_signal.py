"""A signal that reverts to its mean, traded at quadratic costs: its dynamics, and its optimum, a linear rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import ArrayFunctions
from alphaswarm_rl.envs.truth.task import Draws, Result, Solution, TaskState, TruthComponent


@dataclass(frozen=True)
class LinearRule:
    """The position is `keep` times the one before plus `follow` times the signal."""

    keep: float
    follow: float


class OuSignal(TruthComponent):
    """An Ornstein-Uhlenbeck signal that is traded at quadratic costs, whose optimum is linear.

    The signal x of variance 1 is the expected return of a unit until the next step. A position p earns
    `p (x + noise) - risk_aversion p^2 / 2 - cost (p - before)^2 / 2`, times `scale`. The best position is a part of the
    one before plus a part of the signal (Garleanu and Pedersen, 2013).
    """

    rl_alias = "ou_signal"
    rl_tags = ("continuous", "native", "exact-resume", "torch", "truth")
    noise = ("normal", "normal")
    columns = ("signal", "position")

    class Config(ComponentConfig):
        """Parameters of the task."""

        persistence: float = Field(0.9, ge=0, lt=1, description="What is left of the signal after a step.")
        noise: NonNegativeFloat = Field(0.5, description="Standard deviation of returns that the signal does not tell.")
        risk_aversion: PositiveFloat = Field(1.0, description="Twice what the square of a position costs per step.")
        cost: NonNegativeFloat = Field(2.0, description="Twice what the square of a trade costs.")
        bound: PositiveFloat = Field(5.0, description="The position that an action of 1 stands for.")
        scale: PositiveFloat = Field(0.1, description="What all rewards are multiplied by.")
        horizon: PositiveInt = Field(128, description="Steps of an episode, which is truncated then.")

    def action_space(self) -> Box:
        """The position over the bound."""
        return Box(-1.0, 1.0, (1,), np.float32)

    def begin(self, noise: Draws, xp: ArrayFunctions) -> NamedArrays:
        """Flat; the signal as it is distributed always."""
        return {"signal": noise[1], "position": xp.zeros_like(noise[0])}

    def step(self, state: TaskState, action: BackendArray, noise: Draws, xp: ArrayFunctions) -> Result:
        """The position is taken, earns until the next step, and the signal moves on."""
        config = self.config
        position, trade = config.bound * action[:, 0], config.bound * action[:, 0] - state["position"]
        cost = config.scale * 0.5 * config.cost * trade * trade
        earned = position * (state["signal"] + config.noise * noise[0])
        reward = config.scale * (earned - 0.5 * config.risk_aversion * position * position) - cost
        signal = config.persistence * state["signal"] + math.sqrt(1.0 - config.persistence**2) * noise[1]
        return {"signal": signal, "position": position}, reward, cost

    def observe(self, state: TaskState) -> tuple[BackendArray, ...]:
        """The signal, and the position over the bound."""
        return state["signal"], state["position"] / self.config.bound

    def rule(self, discount: float = 1.0) -> LinearRule:
        """The optimal rule.

        The value of (p, x) is -A p^2 / 2 + B p x + C x^2. With d the discount, g the risk aversion, l the cost and f
        the persistence, the first-order condition is p' (g + l + d A) = l p + (1 + d f B) x, and
        A = l - l^2 / (g + l + d A), B = l (1 + d f B) / (g + l + d A).

        Args:
            discount: What a reward one step later counts; 1 maximises the mean reward.
        """
        aversion, cost = self.config.risk_aversion, self.config.cost
        # A solves d A^2 + (g + l - d l) A - l g = 0.
        linear = aversion + cost * (1.0 - discount)
        curve = (math.sqrt(linear**2 + 4.0 * discount * cost * aversion) - linear) / (2.0 * discount)
        weight = aversion + cost + discount * curve
        slope = cost / (weight - discount * self.config.persistence * cost)
        return LinearRule(cost / weight, (1.0 + discount * self.config.persistence * slope) / weight)

    def j_of(self, rule: LinearRule) -> float:
        """J of a linear rule, by the moments of position and signal; the bound is not looked at."""
        config, total = self.config, 0.0
        square, both = 0.0, 0.0  # of the position before, and of it with the signal
        for _ in range(config.horizon):
            with_signal = rule.keep * both + rule.follow
            with_before = rule.keep * square + rule.follow * both
            after = rule.keep * with_before + rule.follow * with_signal
            traded = after - 2.0 * with_before + square
            total += with_signal - 0.5 * config.risk_aversion * after - 0.5 * config.cost * traded
            square, both = after, config.persistence * with_signal
        return float(config.scale * total / config.horizon)

    def solution(self) -> Solution:
        """The linear rule; staying out is the best constant, for the signal's mean is 0."""
        rule = self.rule()

        def act(observations: Array) -> Array:
            signal, position = observations.astype(np.float64).T
            target = rule.keep * position + rule.follow / self.config.bound * signal
            clipped: Array = np.clip(target, -1.0, 1.0)
            return clipped[:, None]

        return Solution(act=act, j_opt=self.j_of(rule), j_base=0.0, base="constant", constant=np.zeros(1))
