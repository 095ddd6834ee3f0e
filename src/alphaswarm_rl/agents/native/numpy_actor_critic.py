"""Actor and critic of plain MLPs, by hand in NumPy: on a CPU small networks are all overhead.

All parameters lie in one vector, all of the gradient in another, both by one layout. Where actor and critic have the
same widths their layers are computed together: weights of both lie side by side as (2, inputs, outputs), and one
batched product does both. Names and shapes in checkpoints are those of `torch_actor_critic`, which a test holds this
gradient against.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.agents.native.actor_critic import LossSettings, Minibatch, NetworkShape, initial_weights
from alphaswarm_rl.agents.native.host_actor_critic import HostActorCritic
from alphaswarm_rl.agents.native.kernels import adam, through_relu, through_tanh
from alphaswarm_rl.agents.native.parameters import ParameterLayout
from alphaswarm_rl.core.types import Array

#: Sizes of batches whose memory is kept: those of rollouts and updates are few, but a caller may send any other.
_MOST_SIZES = 16


@dataclass(frozen=True)
class _Stack:
    """Hidden layers of one network, or of two of the same widths, on the same input.

    Attributes:
        names: What the networks are called.
        weights: (networks, inputs, outputs) by layer.
        biases: (networks, 1, outputs) by layer.
    """

    names: tuple[str, ...]
    weights: list[Array]
    biases: list[Array]


@dataclass(frozen=True)
class _Views:
    """A vector of parameters, or of their gradient, as the arrays to compute with; `log_std` may be empty."""

    stacks: list[_Stack]
    named: dict[str, Array]


class NumpyActorCritic(HostActorCritic):
    """The networks, their gradient and their optimiser. They remember nothing and draw nothing of their own.

    Args:
        shape: Size of the networks.
        generator: Draws the first weights.
        dtype: Type of all numbers.
    """

    def __init__(
        self, shape: NetworkShape, generator: np.random.Generator, dtype: type[np.floating] = np.float32
    ) -> None:
        super().__init__(shape.head, dtype)
        self._tanh = shape.activation == "tanh"
        weights = initial_weights(shape, generator)
        self._networks = (
            [(("pi", "vf"), len(shape.pi))]
            if shape.pi == shape.vf
            else [(("pi",), len(shape.pi)), (("vf",), len(shape.vf))]
        )
        order = [
            f"{name}.{layer}.{part}"
            for names, layers in self._networks
            for layer in range(layers)
            for part in ("weight", "bias")
            for name in names
        ]
        order += ["action.weight", "action.bias", "value.weight", "value.bias", "log_std"]
        self.layout = ParameterLayout(
            {name: weights[name].shape for name in order if name in weights}, inputs_first=True
        )
        self.parameters, self.gradient = np.zeros(self.layout.size, dtype), np.zeros(self.layout.size, dtype)
        self.first_moment, self.second_moment = np.zeros_like(self.parameters), np.zeros_like(self.parameters)
        self._values, self._slopes = self._views(self.parameters), self._views(self.gradient)
        self._buffers: dict[int, dict[str, Array]] = {}
        self.set_weights(weights)

    def _views(self, vector: Array) -> _Views:
        stacks = []
        for names, layers in self._networks:
            weights = [self._stacked(vector, names, f"{layer}.weight") for layer in range(layers)]
            biases = [self._stacked(vector, names, f"{layer}.bias")[:, None] for layer in range(layers)]
            stacks.append(_Stack(names, weights, biases))
        return _Views(stacks, {"log_std": np.zeros(0, self._dtype), **self.layout.views(vector)})

    def _stacked(self, vector: Array, names: tuple[str, ...], part: str) -> Array:
        return np.asarray(self.layout.stacked(vector, [f"{name}.{part}" for name in names]))

    # What the base asks for.

    def _evaluate(self, observations: Array, memory: Array | None) -> tuple[Array, Array, None]:
        outputs, values = self._forward(observations)
        return outputs, values.copy(), None

    def _log_std(self) -> Array:
        return self._values.named["log_std"]

    def _gradient_norm(self) -> float:
        return math.sqrt(float(np.dot(self.gradient, self.gradient)))

    def _descend(self, rate: float, epsilon: float, scale: float) -> None:
        adam(self.parameters, self.gradient, self.first_moment, self.second_moment, self.steps, rate, epsilon, scale)

    def differentiate(self, batch: Minibatch, loss: LossSettings, clip_range: float) -> Array:
        """Writes the gradient of the loss; gives its statistics."""
        outputs, values = self._forward(batch.observations)
        n = len(outputs)
        d_outputs, d_values = self._buffer("d_outputs", n, self.head.outputs), self._buffer("d_values", n)
        slopes = d_outputs, d_values, self._slopes.named["log_std"]
        statistics = self._loss(outputs, values, batch, loss, clip_range, slopes)
        self._backward(batch.observations, d_outputs, d_values)
        return statistics

    # The layers, forwards and backwards.

    def _forward(self, observations: Array) -> tuple[Array, Array]:
        n, named = len(observations), self._values.named
        last: dict[str, Array] = {}
        for number, stack in enumerate(self._values.stacks):
            hidden: Array = observations
            for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
                out = self._buffer(f"hidden{number}.{layer}", n, weight.shape[0], weight.shape[2])
                np.matmul(hidden, weight, out=out)
                out += bias
                np.tanh(out, out=out) if self._tanh else np.maximum(out, 0, out=out)
                hidden = out
            for index, name in enumerate(stack.names):
                last[name] = hidden[index] if stack.weights else observations
        outputs = np.matmul(last["pi"], named["action.weight"], out=self._buffer("outputs", n, self.head.outputs))
        outputs += named["action.bias"]
        values = np.matmul(last["vf"], named["value.weight"], out=self._buffer("values", n, 1))
        values += named["value.bias"]
        return outputs, values[:, 0]

    def _backward(self, observations: Array, d_outputs: Array, d_values: Array) -> None:
        parameters, gradient = self._values, self._slopes
        n, column = len(observations), d_values.reshape(-1, 1)
        last: dict[str, Array] = {}
        for number, stack in enumerate(parameters.stacks):
            hidden = self._hidden(number, len(stack.weights) - 1, observations)
            for index, name in enumerate(stack.names):
                last[name] = hidden[index] if stack.weights else observations
        np.matmul(last["pi"].T, d_outputs, out=gradient.named["action.weight"])
        np.sum(d_outputs, axis=0, out=gradient.named["action.bias"])
        np.matmul(last["vf"].T, column, out=gradient.named["value.weight"])
        np.sum(column, axis=0, out=gradient.named["value.bias"])
        named = parameters.named
        heads = {"pi": (d_outputs, named["action.weight"]), "vf": (column, named["value.weight"])}
        through = through_tanh if self._tanh else through_relu
        for number, (stack, slopes) in enumerate(zip(parameters.stacks, gradient.stacks, strict=True)):
            if not stack.weights:
                continue
            networks, _, width = stack.weights[-1].shape
            slope = self._buffer(f"slope{number}.{len(stack.weights)}", n, networks, width)
            for index, name in enumerate(stack.names):
                d_head, weight = heads[name]
                np.matmul(d_head, weight.T, out=slope[index])
            for layer in range(len(stack.weights) - 1, -1, -1):
                through(slope.reshape(-1), self._hidden(number, layer, observations).reshape(-1))
                before = self._hidden(number, layer - 1, observations)
                np.matmul(before.swapaxes(-1, -2), slope, out=slopes.weights[layer])
                np.sum(slope, axis=1, keepdims=True, out=slopes.biases[layer])
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
        buffers = self._buffers.setdefault(n, {})
        if name not in buffers:
            buffers[name] = np.empty((shape[0], n, shape[1]) if len(shape) == 2 else (n, *shape), self._dtype)
        return buffers[name]
