"""What all actor-critic networks have in common: their shape, what they learn from, how they begin.

The policy maps an observation (inputs,) to `head.outputs` numbers, logits or means; the value function maps it to one.
Actions are drawn by adding noise to the policy's outputs, so that every random number comes from outside.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.parameters import FlatParameters
from alphaswarm_rl.core.blas_threads import blas_threads
from alphaswarm_rl.core.types import Array, BackendArray

#: What a gradient step measures, in the order in which `learn` gives it.
STATISTICS = ("policy_gradient_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")
POLICY_LOSS, VALUE_LOSS, ENTROPY, APPROX_KL, CLIP_FRACTION = range(len(STATISTICS))


@dataclass(frozen=True)
class NetworkShape:
    """The size of both networks.

    Attributes:
        inputs: Numbers of one observation.
        pi: Widths of the policy's hidden layers.
        vf: Widths of the value function's.
        head: What the policy's outputs mean.
        activation: Between the layers.
    """

    inputs: int
    pi: tuple[int, ...]
    vf: tuple[int, ...]
    head: ActionHead
    activation: Literal["tanh", "relu"] = "tanh"


@dataclass(frozen=True)
class LossSettings:
    """The loss of one gradient step.

    Attributes:
        clip_range: Largest change of the probability ratio at the start; infinite: the plain policy gradient.
        clip_range_vf: Largest change of the value; None: any.
        clip_vf_form: Whether the worse of the clipped and the new value's error counts, or the clipped one's alone.
        ent_coef: Weight of the entropy.
        vf_coef: Weight of the value loss; 0: there is no critic.
        max_grad_norm: Largest norm of the gradient.
        adam_eps: Adam's epsilon.
    """

    clip_range: float
    clip_range_vf: float | None
    clip_vf_form: Literal["max", "sb3"]
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    adam_eps: float


@dataclass(kw_only=True)
class Decisions:
    """What was seen and done, and the values and log-probabilities of it, of n transitions or the steps of a rollout.

    Attributes:
        observations: As the networks see them, (n, inputs).
        actions: As they were drawn, (n, k).
        log_probs: Of the actions when they were drawn.
        values: Of the observations then.
        masks: Which discrete choices were legal, (n, outputs); None: all.
        memory: What was remembered before the first step, where the networks remember: (m, memory_width). The
            transitions are whole sequences of m environments then, step after step.
        starts: Which steps are the first of an episode, (steps, m).
    """

    observations: BackendArray
    actions: BackendArray
    log_probs: BackendArray
    values: BackendArray
    masks: BackendArray | None = None
    memory: BackendArray | None = None
    starts: BackendArray | None = None


@dataclass(kw_only=True)
class Minibatch(Decisions):
    """Transitions to learn from, of one length.

    Attributes:
        advantages: How much better than expected they were.
        returns: What the critic shall say.
    """

    advantages: BackendArray
    returns: BackendArray

    def map(self, function: Callable[[BackendArray], BackendArray]) -> Minibatch:
        """The batch with a function applied to each array that has one row per transition."""
        rows = {name: array for name, array in vars(self).items() if name not in ("memory", "starts")}
        return replace(self, **{name: function(array) for name, array in rows.items() if array is not None})


class ActorCritic(FlatParameters):
    """Policy and value function of an on-policy agent, with their optimiser."""

    head: ActionHead

    @abstractmethod
    def learn(self, batch: Minibatch, loss: LossSettings, rate: float, clip_range: float) -> BackendArray:
        """One gradient step by that learning rate and clip range; gives the `STATISTICS`."""


def noise_of(head: ActionHead, generator: np.random.Generator, *shape: int) -> Array:
    """Noise that actions are drawn by: Gumbel's for choices, standard normal for numbers; (*shape, outputs)."""
    if head.discrete:
        waits = generator.standard_exponential((*shape, head.outputs), np.float32)
        return np.asarray(-np.log(np.maximum(waits, np.finfo(np.float32).tiny)))
    return generator.standard_normal((*shape, head.outputs), np.float32)


def initial_weights(shape: NetworkShape, generator: np.random.Generator) -> dict[str, Array]:
    """Orthogonal weights with gain sqrt(2), .01 before the actions and 1 before the value; biases and log_std 0."""
    named: dict[str, Array] = {}
    for name, widths, last, outputs, gain in (
        ("pi", shape.pi, "action", shape.head.outputs, 0.01),
        ("vf", shape.vf, "value", 1, 1.0),
    ):
        before = shape.inputs
        for layer, width in enumerate(widths):
            named[f"{name}.{layer}.weight"] = orthogonal(width, before, math.sqrt(2), generator)
            named[f"{name}.{layer}.bias"] = np.zeros(width)
            before = width
        named[f"{last}.weight"] = orthogonal(outputs, before, gain, generator)
        named[f"{last}.bias"] = np.zeros(outputs)
    if not shape.head.discrete:
        named["log_std"] = np.zeros(shape.head.outputs)
    return named


def orthogonal(outputs: int, inputs: int, gain: float, generator: np.random.Generator) -> Array:
    """A matrix (outputs, inputs) whose shorter side is orthonormal, times the gain."""
    tall, wide = max(outputs, inputs), min(outputs, inputs)
    # On one thread: more would round differently.
    with blas_threads(1):
        q, r = np.linalg.qr(generator.standard_normal((tall, wide)))
    q *= np.sign(np.diag(r))
    return np.asarray(gain * (q if outputs >= inputs else q.T))
