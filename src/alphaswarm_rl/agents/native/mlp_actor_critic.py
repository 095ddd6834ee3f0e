"""Actor and critic of plain MLPs, by hand in NumPy: on a CPU small networks are all overhead.

All parameters lie in one vector, all of the gradient in another. Where actor and critic have the same widths their
layers are computed together, one batched product each. Names and forms in checkpoints are those of the torch networks,
`agents/native/torch_actor_critic.py`, which a test holds this gradient against.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.actor_critic import LossSettings, Minibatch, fitting, initial_weights
from alphaswarm_rl.agents.native.flat_parameters import FlatParameters
from alphaswarm_rl.agents.native.kernels import (
    adam,
    discrete_loss,
    draw_discrete,
    draw_gaussian,
    gaussian_loss,
    through_relu,
    through_tanh,
    value_loss,
)

Array = np.ndarray[Any, Any]

_STATISTICS = 5
#: Sizes of batches whose memory is kept: those of rollouts and updates are few, but anybody may ask for others.
_MOST_SIZES = 16


@dataclass(frozen=True)
class _Stack:
    """Hidden layers of one network, or of two of the same widths, on the same input.

    Attributes:
        names: What the networks are called.
        weights: (networks, inputs, outputs) by layer.
        biases: (networks, 1, outputs) by layer.
        weight_gradients: Like the weights.
        bias_gradients: Like the biases.
    """

    names: tuple[str, ...]
    weights: list[Array]
    biases: list[Array]
    weight_gradients: list[Array]
    bias_gradients: list[Array]


class MlpActorCritic(FlatParameters):
    """The networks, their gradient and their optimiser.

    They remember nothing and draw nothing of their own.

    Args:
        inputs: Numbers of one observation.
        pi: Widths of the policy's hidden layers.
        vf: Widths of the value function's.
        head: What the policy's outputs mean.
        activation: Between the layers.
        generator: Draws the first weights.
        kind: Type of all numbers.
    """

    memory_width = 0

    def __init__(
        self,
        inputs: int,
        pi: Sequence[int],
        vf: Sequence[int],
        head: ActionHead,
        *,
        activation: str,
        generator: np.random.Generator,
        kind: Any = np.float32,
    ) -> None:
        self.head = head
        self.steps = 0
        self._kind = np.dtype(kind)
        self._tanh = activation == "tanh"
        self._sizes = np.array(head.sizes, np.int64)
        self._lay_out(inputs, tuple(pi), tuple(vf))
        self._buffers: dict[int, dict[str, Array]] = {}
        self._no_masks = np.zeros((0, 0), np.bool_)
        self._statistics = np.zeros(_STATISTICS)
        self.set_weights(initial_weights(inputs, pi, vf, head, generator))

    # Where everything is.

    def _lay_out(self, inputs: int, pi: tuple[int, ...], vf: tuple[int, ...]) -> None:
        stacks = [(("pi", "vf"), pi)] if pi == vf else [(("pi",), pi), (("vf",), vf)]
        shapes: list[tuple[int, ...]] = []
        for names, widths in stacks:
            for before, after in zip((inputs, *widths), widths, strict=False):
                shapes += [(len(names), before, after), (len(names), 1, after)]
        pi_width, vf_width = (pi or (inputs,))[-1], (vf or (inputs,))[-1]
        shapes += [(pi_width, self.head.outputs), (self.head.outputs,), (vf_width, 1), (1,)]
        if not self.head.discrete:
            shapes.append((self.head.outputs,))
        size = sum(math.prod(shape) for shape in shapes)
        self.parameters, self.gradient = np.zeros(size, self._kind), np.zeros(size, self._kind)
        self._first, self._second = np.zeros(size, self._kind), np.zeros(size, self._kind)
        self._stacks = []
        self._places: dict[str, tuple[slice, tuple[int, ...], bool]] = {}
        views = [iter(self._views(vector, shapes)) for vector in (self.parameters, self.gradient)]
        at = 0
        for names, widths in stacks:
            parts: list[list[Array]] = [[], [], [], []]
            for layer, (before, after) in enumerate(zip((inputs, *widths), widths, strict=False)):
                for name in names:
                    self._places[f"{name}.{layer}.weight"] = slice(at, at + before * after), (before, after), True
                    at += before * after
                for name in names:
                    self._places[f"{name}.{layer}.bias"] = slice(at, at + after), (after,), False
                    at += after
                for which, vector in enumerate(views):
                    parts[2 * which].append(next(vector))
                    parts[2 * which + 1].append(next(vector))
            weights, biases, weight_gradients, bias_gradients = parts
            self._stacks.append(_Stack(names, weights, biases, weight_gradients, bias_gradients))
        for name, width, outputs in (("action", pi_width, self.head.outputs), ("value", vf_width, 1)):
            self._places[f"{name}.weight"] = slice(at, at + width * outputs), (width, outputs), True
            self._places[f"{name}.bias"] = slice(at + width * outputs, at + (width + 1) * outputs), (outputs,), False
            at += (width + 1) * outputs
        rest = [list(vector) for vector in views]
        self._action_weight, self._action_bias, self._value_weight, self._value_bias = rest[0][:4]
        self._action_weight_gradient, self._action_bias_gradient = rest[1][:2]
        self._value_weight_gradient, self._value_bias_gradient = rest[1][2:4]
        self.log_std = rest[0][4] if not self.head.discrete else np.zeros(0, self._kind)
        self._log_std_gradient = rest[1][4] if not self.head.discrete else np.zeros(0, self._kind)
        if not self.head.discrete:
            self._places["log_std"] = slice(at, at + self.head.outputs), (self.head.outputs,), False

    @staticmethod
    def _views(vector: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes, strict=True)]

    def _named(self, vector: Array) -> dict[str, Array]:
        """Parts of a vector by the names and in the forms that torch's layers have."""
        named = {}
        for name, (where, shape, transposed) in self._places.items():
            part = vector[where].reshape(shape)
            named[name] = np.ascontiguousarray(part.T if transposed else part).copy()
        return named

    def _take(self, vector: Array, named: dict[str, Array]) -> None:
        for name, (where, shape, transposed) in self._places.items():
            part = fitting(named, name, shape[::-1] if transposed else shape)
            vector[where] = np.ravel(part.T if transposed else part)

    def streams(self) -> dict[str, Array]:
        """None."""
        return {}

    def set_streams(self, named: dict[str, Array]) -> None:
        """There are none."""

    def gradients(self) -> dict[str, Array]:
        """Copies of the last gradient by name."""
        return self._named(self.gradient)

    # What it does.

    def draw(
        self, observations: Array, noise: Array | None, masks: Array | None, memory: None = None
    ) -> tuple[Array, Array, Array, None]:
        """Actions as they are drawn, their log-probabilities, and the values of the observations, in new arrays.

        Args:
            observations: (n, inputs).
            noise: As `noise_of` gives it, (n, outputs); None: the likeliest actions.
            masks: Which discrete choices are legal, (n, outputs); None: all.
            memory: None.
        """
        outputs, values = self._forward(observations)
        n, k = len(outputs), self.head.numbers
        log_probs = np.empty(n, self._kind)
        if noise is None:
            noise = np.zeros_like(outputs)
        if self.head.discrete:
            drawn = np.empty((n, k), np.int64)
            draw_discrete(outputs, noise, self._no_masks if masks is None else masks, self._sizes, drawn, log_probs)
        else:
            drawn = np.empty((n, k), self._kind)
            draw_gaussian(outputs, self.log_std, noise, drawn, log_probs)
        return drawn, log_probs, values.copy(), None

    def values(self, observations: Array, memory: None = None) -> Array:
        """The values of observations."""
        return self._forward(observations)[1].copy()

    def learn(self, batch: Minibatch, settings: LossSettings, rate: float) -> Array:
        """One gradient step; gives policy loss, value loss, entropy, approximate KL and the clipped fraction."""
        statistics = self.differentiate(batch, settings)
        norm = math.sqrt(float(np.dot(self.gradient, self.gradient)))
        scale = min(1.0, settings.max_grad_norm / (norm + 1e-6))
        self.steps += 1
        adam(self.parameters, self.gradient, self._first, self._second, self.steps, rate, settings.adam_eps, scale)
        return statistics

    def differentiate(self, batch: Minibatch, settings: LossSettings) -> Array:
        """Writes the gradient of the loss; gives its statistics."""
        outputs, values = self._forward(batch.observations)
        n = len(outputs)
        d_outputs, d_values = self._buffer("d_outputs", n, self.head.outputs), self._buffer("d_values", n)
        statistics = self._statistics
        statistics[:] = 0
        shared = (batch.log_probs, batch.advantages, settings.clip_range, settings.ent_coef)
        if self.head.discrete:
            masks = self._no_masks if batch.masks is None else batch.masks
            discrete_loss(outputs, masks, self._sizes, batch.actions, *shared, d_outputs, statistics)
        else:
            gaussian_loss(outputs, self.log_std, batch.actions, *shared, d_outputs, self._log_std_gradient, statistics)
        if settings.vf_coef > 0:
            clip = math.inf if settings.clip_range_vf is None else settings.clip_range_vf
            value_loss(values, batch.returns, batch.values, clip, settings.vf_coef, d_values, statistics)
        else:
            d_values[:] = 0
        self._backward(batch.observations, d_outputs, d_values)
        return statistics.copy()

    def _forward(self, observations: Array) -> tuple[Array, Array]:
        n = len(observations)
        last: dict[str, Array] = {}
        for number, stack in enumerate(self._stacks):
            hidden: Array = observations
            for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
                out = self._buffer(f"hidden{number}.{layer}", n, weight.shape[0], weight.shape[2])
                np.matmul(hidden, weight, out=out)
                out += bias
                np.tanh(out, out=out) if self._tanh else np.maximum(out, 0, out=out)
                hidden = out
            for index, name in enumerate(stack.names):
                last[name] = hidden[index] if stack.weights else observations
        outputs = np.matmul(last["pi"], self._action_weight, out=self._buffer("outputs", n, self.head.outputs))
        outputs += self._action_bias
        values = np.matmul(last["vf"], self._value_weight, out=self._buffer("values", n, 1))
        values += self._value_bias
        return outputs, values[:, 0]

    def _backward(self, observations: Array, d_outputs: Array, d_values: Array) -> None:
        n, column = len(observations), d_values.reshape(-1, 1)
        last: dict[str, Array] = {}
        for number, stack in enumerate(self._stacks):
            hidden = self._hidden(number, len(stack.weights) - 1, observations)
            for index, name in enumerate(stack.names):
                last[name] = hidden[index] if stack.weights else observations
        np.matmul(last["pi"].T, d_outputs, out=self._action_weight_gradient)
        np.sum(d_outputs, axis=0, out=self._action_bias_gradient)
        np.matmul(last["vf"].T, column, out=self._value_weight_gradient)
        np.sum(column, axis=0, out=self._value_bias_gradient)
        heads = {"pi": (d_outputs, self._action_weight), "vf": (column, self._value_weight)}
        through = through_tanh if self._tanh else through_relu
        for number, stack in enumerate(self._stacks):
            if not stack.weights:
                continue
            networks, _, width = stack.weights[-1].shape
            slope = self._buffer(f"slope{number}.{len(stack.weights)}", n, networks, width)
            for index, name in enumerate(stack.names):
                gradient, weight = heads[name]
                np.matmul(gradient, weight.T, out=slope[index])
            for layer in range(len(stack.weights) - 1, -1, -1):
                through(slope.reshape(-1), self._hidden(number, layer, observations).reshape(-1))
                before = self._hidden(number, layer - 1, observations)
                np.matmul(before.swapaxes(-1, -2), slope, out=stack.weight_gradients[layer])
                np.sum(slope, axis=1, keepdims=True, out=stack.bias_gradients[layer])
                if layer:
                    weight = stack.weights[layer]
                    earlier = self._buffer(f"slope{number}.{layer}", n, networks, weight.shape[1])
                    slope = np.matmul(slope, weight.swapaxes(-1, -2), out=earlier)

    def _hidden(self, number: int, layer: int, observations: Array) -> Array:
        """What went out of a layer in the last forward pass; of the one before the first, the observations."""
        return observations if layer < 0 else self._buffers[len(observations)][f"hidden{number}.{layer}"]

    def _buffer(self, name: str, n: int, *shape: int) -> Array:
        """Memory that is used again for batches of the same size; (networks, n, width) where two widths are given."""
        if n not in self._buffers and len(self._buffers) >= _MOST_SIZES:
            self._buffers.clear()
        known = self._buffers.setdefault(n, {})
        if name not in known:
            known[name] = np.empty((shape[0], n, shape[1]) if len(shape) == 2 else (n, *shape), self._kind)
        return known[name]
