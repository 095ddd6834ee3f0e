"""The dynamics of `ou_signal`, and the linear rule that is its optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from alphaswarm_rl.envs.truth.solution import Solution
from alphaswarm_rl.envs.truth.task import Arrays, TruthTask

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LinearRule:
    """The position is `keep` times the one before plus `follow` times the signal."""

    keep: float
    follow: float


class OuSignalTask(TruthTask):
    """See `OuSignal`."""

    noise = ("normal", "normal")
    columns = ("signal", "position")

    def action_space(self) -> Box:
        """The position over the bound."""
        return Box(-1.0, 1.0, (1,), np.float32)

    def begin(self, noise: Sequence[Any], xp: Any) -> Arrays:
        """Flat; the signal as it is distributed always."""
        return {"signal": noise[1], "position": xp.zeros_like(noise[0])}

    def step(self, state: Mapping[str, Any], action: Any, noise: Sequence[Any], xp: Any) -> tuple[Arrays, Any, Any]:
        """The position is taken, earns until the next step, and the signal moves on."""
        config = self.config
        position, trade = config.bound * action[:, 0], config.bound * action[:, 0] - state["position"]
        cost = config.scale * 0.5 * config.cost * trade * trade
        earned = position * (state["signal"] + config.noise * noise[0])
        reward = config.scale * (earned - 0.5 * config.risk_aversion * position * position) - cost
        signal = config.persistence * state["signal"] + math.sqrt(1.0 - config.persistence**2) * noise[1]
        return {"signal": signal, "position": position}, reward, cost

    def observe(self, state: Mapping[str, Any]) -> tuple[Any, ...]:
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
            wanted = rule.keep * position + rule.follow / self.config.bound * signal
            clipped: Array = np.clip(wanted, -1.0, 1.0)
            return clipped[:, None]

        return Solution(act=act, j_opt=self.j_of(rule), j_base=0.0, base="constant", constant=np.zeros(1))
