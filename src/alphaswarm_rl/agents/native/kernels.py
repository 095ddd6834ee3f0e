"""Compiled kernels of a small actor-critic, all but its matrix products: drawing actions, the PPO loss, Adam.

The idea: on a CPU a small network is all overhead, so everything that is not a matrix product is one loop over the
batch. Rows are transitions, n of them. A discrete head has `sizes[c]` logits for component c, all components side by
side in a row of `outputs`; a Gaussian head has one mean per number and one log standard deviation for all rows. Losses
add their statistics (`actor_critic.STATISTICS`) to an array and write the derivative of the loss by logits or means.

Arrays are NumPy's, of float32 in training and of float64 in tests that hold the gradient against autograd's.
"""

from __future__ import annotations

import math

import numpy as np

from alphaswarm_rl.agents.native.actor_critic import APPROX_KL, CLIP_FRACTION, ENTROPY, POLICY_LOSS, VALUE_LOSS
from alphaswarm_rl.arrays.jit import njit
from alphaswarm_rl.core.types import Array

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@njit(cache=True, nogil=True)
def draw_discrete(logits: Array, noise: Array, masks: Array, sizes: Array, actions: Array, log_probs: Array) -> None:
    """Chooses by the largest of logit plus noise; noise of Gumbel's distribution draws from the softmax, 0 the mode.

    Args:
        logits: (n, outputs).
        noise: (n, outputs).
        masks: Which choices are legal, (n, outputs); of width 0: all.
        sizes: Choices of each component.
        actions: Is written: (n, components) int64.
        log_probs: Is written: (n,).
    """
    for row in range(logits.shape[0]):
        total, first = 0.0, 0
        for component in range(len(sizes)):
            size = sizes[component]
            best, choice, top = -np.inf, first, -np.inf
            for index in range(first, first + size):
                if masks.shape[1] and not masks[row, index]:
                    continue
                top = max(top, logits[row, index])
                value = logits[row, index] + noise[row, index]
                if value > best:
                    best, choice = value, index
            mass = 0.0
            for index in range(first, first + size):
                if not (masks.shape[1] and not masks[row, index]):
                    mass += math.exp(logits[row, index] - top)
            total += logits[row, choice] - top - math.log(mass)
            actions[row, component] = choice - first
            first += size
        log_probs[row] = total


@njit(cache=True, nogil=True)
def draw_gaussian(means: Array, log_std: Array, noise: Array, actions: Array, log_probs: Array) -> None:
    """Mean plus standard deviation times noise."""
    for row in range(means.shape[0]):
        total = 0.0
        for index in range(means.shape[1]):
            actions[row, index] = means[row, index] + math.exp(log_std[index]) * noise[row, index]
            total -= 0.5 * noise[row, index] ** 2 + log_std[index] + _HALF_LOG_2PI
        log_probs[row] = total


@njit(cache=True, nogil=True)
def discrete_loss(
    logits: Array,
    masks: Array,
    sizes: Array,
    actions: Array,
    old_log_probs: Array,
    advantages: Array,
    clip: float,
    ent_coef: float,
    gradient: Array,
    statistics: Array,
) -> None:
    """The clipped surrogate and the entropy of a discrete head: adds to `statistics`, writes d loss / d logits."""
    count = logits.shape[0]
    log_p = np.empty(logits.shape[1])
    for row in range(count):
        total, entropy, first = 0.0, 0.0, 0
        for component in range(len(sizes)):
            last = first + sizes[component]
            top, mass = -np.inf, 0.0
            for index in range(first, last):
                if not (masks.shape[1] and not masks[row, index]):
                    top = max(top, logits[row, index])
            for index in range(first, last):
                if not (masks.shape[1] and not masks[row, index]):
                    mass += math.exp(logits[row, index] - top)
            top += math.log(mass)
            for index in range(first, last):
                if masks.shape[1] and not masks[row, index]:
                    log_p[index] = -np.inf
                else:
                    log_p[index] = logits[row, index] - top
                    entropy -= math.exp(log_p[index]) * log_p[index]
            total += log_p[first + actions[row, component]]
            first = last
        slope = _surrogate(total, old_log_probs[row], advantages[row], clip, statistics) / count
        statistics[ENTROPY] += entropy
        first = 0
        for component in range(len(sizes)):
            last = first + sizes[component]
            own = 0.0
            for index in range(first, last):
                if log_p[index] > -np.inf:
                    own -= math.exp(log_p[index]) * log_p[index]
            for index in range(first, last):
                if log_p[index] == -np.inf:
                    gradient[row, index] = 0.0
                    continue
                p = math.exp(log_p[index])
                gradient[row, index] = -slope * p + ent_coef / count * p * (log_p[index] + own)
            gradient[row, first + actions[row, component]] += slope
            first = last
    _average(statistics, count)


@njit(cache=True, nogil=True)
def gaussian_loss(
    means: Array,
    log_std: Array,
    actions: Array,
    old_log_probs: Array,
    advantages: Array,
    clip: float,
    ent_coef: float,
    gradient: Array,
    log_std_gradient: Array,
    statistics: Array,
) -> None:
    """The same of a Gaussian head: writes d loss / d means and d loss / d log_std."""
    count, width = means.shape
    entropy = 0.0
    inverse = np.empty(width)
    totals = np.zeros(width)
    for index in range(width):
        inverse[index] = math.exp(-log_std[index])
        entropy += log_std[index] + 0.5 + _HALF_LOG_2PI
    for row in range(count):
        total = 0.0
        for index in range(width):
            z = (actions[row, index] - means[row, index]) * inverse[index]
            total -= 0.5 * z * z + log_std[index] + _HALF_LOG_2PI
        slope = _surrogate(total, old_log_probs[row], advantages[row], clip, statistics) / count
        statistics[ENTROPY] += entropy
        for index in range(width):
            z = (actions[row, index] - means[row, index]) * inverse[index]
            gradient[row, index] = slope * z * inverse[index]
            totals[index] += slope * (z * z - 1.0)
    for index in range(width):
        log_std_gradient[index] = totals[index] - ent_coef
    _average(statistics, count)


@njit(cache=True, nogil=True)
def value_loss(
    values: Array,
    returns: Array,
    old_values: Array,
    clip: float,
    worse: bool,
    coef: float,
    gradient: Array,
    statistics: Array,
) -> None:
    """Mean squared error of the critic; with `clip` of a value near the old one, or of the worse of it and the new."""
    count = len(values)
    total = 0.0
    for row in range(count):
        error, slope = values[row] - returns[row], 1.0
        if clip < np.inf:
            change = values[row] - old_values[row]
            near = old_values[row] + min(max(change, -clip), clip) - returns[row]
            if not worse or near * near > error * error:
                error, slope = near, 1.0 if abs(change) < clip else 0.0
        total += error * error
        gradient[row] = coef * 2.0 * error * slope / count
    statistics[VALUE_LOSS] = total / count


@njit(cache=True, nogil=True)
def _surrogate(log_prob: float, old: float, advantage: float, clip: float, statistics: Array) -> float:
    """Adds one transition's part to the statistics; gives d loss / d log_prob."""
    change = log_prob - old
    ratio = math.exp(change)
    near = min(max(ratio, 1.0 - clip), 1.0 + clip)
    plain, clipped = ratio * advantage, near * advantage
    statistics[POLICY_LOSS] -= min(plain, clipped)
    statistics[APPROX_KL] += ratio - 1.0 - change
    statistics[CLIP_FRACTION] += 1.0 if abs(ratio - 1.0) > clip else 0.0
    return -plain if plain <= clipped else 0.0


@njit(cache=True, nogil=True)
def _average(statistics: Array, count: int) -> None:
    for index in (POLICY_LOSS, ENTROPY, APPROX_KL, CLIP_FRACTION):
        statistics[index] /= count


@njit(cache=True, nogil=True)
def adam(
    parameters: Array,
    gradient: Array,
    first: Array,
    second: Array,
    step: int,
    rate: float,
    epsilon: float,
    scale: float,
) -> None:
    """One step of Adam (Kingma and Ba, 2015) with betas .9 and .999, by the gradient times `scale`, in place.

    With g the scaled gradient: m = .9 m + .1 g, v = .999 v + .001 g^2, and the parameters move by
    -rate m' / (sqrt(v') + epsilon), where m' = m / (1 - .9^step) and v' = v / (1 - .999^step).
    """
    kind = parameters.dtype.type
    b1, b2 = kind(0.9), kind(0.999)
    one, factor = kind(1.0), kind(scale)
    correction = kind(1.0 / math.sqrt(1.0 - 0.999**step))
    size, tiny = kind(rate / (1.0 - 0.9**step)), kind(epsilon)
    for index in range(len(parameters)):
        slope = gradient[index] * factor
        first[index] = b1 * first[index] + (one - b1) * slope
        second[index] = b2 * second[index] + (one - b2) * slope * slope
        parameters[index] -= size * first[index] / (np.sqrt(second[index]) * correction + tiny)


@njit(cache=True, nogil=True)
def through_tanh(gradient: Array, activations: Array) -> None:
    """Takes a gradient back through tanh, in place; both are flat."""
    for index in range(len(gradient)):
        gradient[index] *= gradient.dtype.type(1.0) - activations[index] * activations[index]


@njit(cache=True, nogil=True)
def through_relu(gradient: Array, activations: Array) -> None:
    """Takes a gradient back through ReLU, in place; both are flat."""
    for index in range(len(gradient)):
        if activations[index] <= 0:
            gradient[index] = 0.0
