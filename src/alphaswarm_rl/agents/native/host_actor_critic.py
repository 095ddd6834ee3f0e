"""Actor-critic networks that act on NumPy arrays: drawing and the loss are the kernels', the layers a subclass's."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.actor_critic import STATISTICS, ActorCritic, LossSettings, Minibatch
from alphaswarm_rl.agents.native.kernels import discrete_loss, draw_discrete, draw_gaussian, gaussian_loss, value_loss
from alphaswarm_rl.core.types import Array


class HostActorCritic(ActorCritic):
    """The base of networks for environments in NumPy.

    Args:
        head: What the policy's outputs mean.
        dtype: Type of the networks' numbers.
    """

    #: Numbers that are remembered from step to step; 0 for most.
    memory_width: int = 0

    def __init__(self, head: ActionHead, dtype: type[np.floating] = np.float32) -> None:
        self.head = head
        self._dtype = dtype
        self._sizes = np.array(head.sizes, np.int64)
        self._no_masks = np.zeros((0, 0), np.bool_)

    @abstractmethod
    def _evaluate(self, observations: Array, memory: Array | None) -> tuple[Array, Array, Array | None]:
        """The policy's outputs (n, outputs), values (n,) in a new array, and the memory afterwards."""

    @abstractmethod
    def _log_std(self) -> Array:
        """Log standard deviations of a Gaussian head."""

    @abstractmethod
    def differentiate(self, batch: Minibatch, loss: LossSettings, clip_range: float) -> Array:
        """Writes the gradient of the loss; gives its statistics."""

    @abstractmethod
    def _gradient_norm(self) -> float:
        """Euclidean norm of the gradient."""

    @abstractmethod
    def _descend(self, rate: float, epsilon: float, scale: float) -> None:
        """One step of Adam by the gradient times `scale`; `steps` counts it already."""

    def draw(
        self, observations: Array, noise: Array | None, masks: Array | None, memory: Array | None = None
    ) -> tuple[Array, Array, Array, Array | None]:
        """Actions as they are drawn, their log-probabilities, values, and the memory afterwards, in new arrays.

        Args:
            observations: (n, inputs).
            noise: As `noise_of` gives it, (n, outputs); None: the likeliest actions.
            masks: Which discrete choices are legal, (n, outputs); None: all.
            memory: What was remembered before, (n, memory_width), where the networks remember.
        """
        outputs, values, memory = self._evaluate(observations, memory)
        n, k = len(outputs), self.head.numbers
        log_probs = np.empty(n, self._dtype)
        if noise is None:
            noise = np.zeros_like(outputs)
        if self.head.discrete:
            drawn = np.empty((n, k), np.int64)
            draw_discrete(outputs, noise, self._no_masks if masks is None else masks, self._sizes, drawn, log_probs)
        else:
            drawn = np.empty((n, k), self._dtype)
            draw_gaussian(outputs, self._log_std(), noise, drawn, log_probs)
        return drawn, log_probs, values, memory

    def values(self, observations: Array, memory: Array | None = None) -> Array:
        """The values of observations."""
        return self._evaluate(observations, memory)[1]

    def learn(self, batch: Minibatch, loss: LossSettings, rate: float, clip_range: float) -> Array:
        """One gradient step by that learning rate and clip range; gives the `STATISTICS`."""
        statistics = self.differentiate(batch, loss, clip_range)
        scale = min(1.0, loss.max_grad_norm / (self._gradient_norm() + 1e-6))
        self.steps += 1
        self._descend(rate, loss.adam_eps, scale)
        return statistics

    def _loss(
        self,
        outputs: Array,
        values: Array,
        batch: Minibatch,
        loss: LossSettings,
        clip_range: float,
        slopes: tuple[Array, Array, Array],
    ) -> Array:
        """Writes the loss's derivatives by outputs, values and log standard deviations; gives its statistics."""
        d_outputs, d_values, d_log_std = slopes
        statistics = np.zeros(len(STATISTICS))
        shared = (batch.log_probs, batch.advantages, clip_range, loss.ent_coef)
        if self.head.discrete:
            masks = self._no_masks if batch.masks is None else batch.masks
            discrete_loss(outputs, masks, self._sizes, batch.actions, *shared, d_outputs, statistics)
        else:
            gaussian_loss(outputs, self._log_std(), batch.actions, *shared, d_outputs, d_log_std, statistics)
        if loss.vf_coef > 0:
            clip = math.inf if loss.clip_range_vf is None else loss.clip_range_vf
            worse = loss.clip_vf_form == "max"
            value_loss(values, batch.returns, batch.values, clip, worse, loss.vf_coef, d_values, statistics)
        else:
            d_values[:] = 0
        return statistics

    def streams(self) -> dict[str, Array]:
        """States of random generators of its own, such as that of dropout; empty for most."""
        return {}

    def set_streams(self, named: dict[str, Array]) -> None:
        """Continues with them."""
