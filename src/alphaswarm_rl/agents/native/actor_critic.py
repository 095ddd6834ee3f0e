"""What the actor-critic networks have in common: what they learn from, how they begin, how they are drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.core.blas_threads import blas_threads

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LossSettings:
    """The loss of one gradient step.

    Attributes:
        clip_range: Largest change of the probability ratio; infinite: the plain policy gradient.
        clip_range_vf: Largest change of the value; None: any.
        ent_coef: Weight of the entropy.
        vf_coef: Weight of the value loss; 0: there is no critic.
        max_grad_norm: Largest norm of the gradient.
        adam_eps: Adam's epsilon.
    """

    clip_range: float
    clip_range_vf: float | None
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    adam_eps: float


@dataclass(frozen=True)
class Minibatch:
    """Transitions to learn from: NumPy or torch arrays of one length.

    Attributes:
        observations: As the networks see them, (n, inputs).
        actions: As they were drawn, (n, k).
        log_probs: Of the actions when they were drawn.
        advantages: How much better than expected they were.
        returns: What the critic shall say.
        values: What it said.
        masks: Which discrete choices were legal; None: all.
        memory: What was remembered before the first step, where the networks remember: (m, memory_width). The
            transitions are whole sequences of m environments then, step after step.
        starts: Which steps are the first of an episode, (steps, m).
    """

    observations: Any
    actions: Any
    log_probs: Any
    advantages: Any
    returns: Any
    values: Any
    masks: Any = None
    memory: Any = None
    starts: Any = None


class ActorCritic(Protocol):
    """Networks of an on-policy agent with their optimiser."""

    head: ActionHead
    #: Gradient steps so far.
    steps: int
    #: Numbers that are remembered from step to step; 0 for most.
    memory_width: int

    def draw(self, observations: Any, noise: Any, masks: Any, memory: Any = None) -> tuple[Any, Any, Any, Any]:
        """Actions as they are drawn, log-probabilities, values, and the memory after; without noise the likeliest."""
        ...

    def values(self, observations: Any, memory: Any = None) -> Any:
        """The values of observations."""
        ...

    def learn(self, batch: Minibatch, settings: LossSettings, rate: float) -> Any:
        """One gradient step; gives policy loss, value loss, entropy, approximate KL and the clipped fraction."""
        ...

    def weights(self) -> dict[str, Array]:
        """Copies of the weights by name."""
        ...

    def set_weights(self, named: dict[str, Array]) -> None:
        """Takes weights over; the optimiser begins anew."""
        ...

    def optimiser(self) -> tuple[dict[str, Array], dict[str, Array], int]:
        """First and second moments by name, and the count of steps."""
        ...

    def set_optimiser(self, first: dict[str, Array], second: dict[str, Array], steps: int) -> None:
        """Continues with them."""
        ...

    def streams(self) -> dict[str, Array]:
        """States of random generators of its own, such as that of dropout; empty for most."""
        ...

    def set_streams(self, named: dict[str, Array]) -> None:
        """Continues with them."""
        ...


def noise_of(head: ActionHead, generator: np.random.Generator, *shape: int) -> Array:
    """Noise that actions are drawn by: Gumbel's for choices, standard normal for numbers; (*shape, outputs)."""
    if head.discrete:
        waits = generator.standard_exponential((*shape, head.outputs), np.float32)
        return -np.log(np.maximum(waits, np.finfo(np.float32).tiny))
    return generator.standard_normal((*shape, head.outputs), np.float32)


def initial_weights(
    inputs: int, pi: Sequence[int], vf: Sequence[int], head: ActionHead, generator: np.random.Generator
) -> dict[str, Array]:
    """Orthogonal weights with gain sqrt(2), .01 before the actions and 1 before the value; biases and log_std 0."""
    named: dict[str, Array] = {}
    for name, widths, last, outputs, gain in (
        ("pi", pi, "action", head.outputs, 0.01),
        ("vf", vf, "value", 1, 1.0),
    ):
        before = inputs
        for layer, width in enumerate(widths):
            named[f"{name}.{layer}.weight"] = orthogonal(width, before, math.sqrt(2), generator)
            named[f"{name}.{layer}.bias"] = np.zeros(width)
            before = width
        named[f"{last}.weight"] = orthogonal(outputs, before, gain, generator)
        named[f"{last}.bias"] = np.zeros(outputs)
    if not head.discrete:
        named["log_std"] = np.zeros(head.outputs)
    return named


def orthogonal(outputs: int, inputs: int, gain: float, generator: np.random.Generator) -> Array:
    """A matrix (outputs, inputs) whose shorter side is orthonormal, times the gain."""
    tall, wide = max(outputs, inputs), min(outputs, inputs)
    # On one thread: more would round differently.
    with blas_threads(1):
        q, r = np.linalg.qr(generator.standard_normal((tall, wide)))
    q *= np.sign(np.diag(r))
    return gain * (q if outputs >= inputs else q.T)


def fitting(named: dict[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """The array of that name; another shape is a ValueError, and never spread over the right one."""
    found = np.asarray(named[name])
    if found.shape != shape:
        raise ValueError(f"{name} is of shape {found.shape}, not {shape}")
    return found
