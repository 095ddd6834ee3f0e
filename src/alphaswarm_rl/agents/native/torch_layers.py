"""Parts of the torch networks: modules with an optional encoder, parameters joined to one vector, Adam on tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from alphaswarm_rl.core.types import Array


class EncodedModule(nn.Module):
    """The base of networks on what an encoder makes of the observation.

    Args:
        inputs: Numbers of one observation.
        activation: Between the layers.
        encoder: Turns observations into (n, features), with `features_dim`; None: the observation itself.
        shape: Of one observation as the encoder takes it; None: flat.
    """

    def __init__(
        self, inputs: int, activation: str, encoder: nn.Module | None = None, shape: tuple[int, ...] | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.width = inputs if encoder is None else int(encoder.features_dim)
        self._shape = (inputs,) if shape is None else shape
        self._activation = torch.tanh if activation == "tanh" else torch.relu

    def features(self, observations: Tensor) -> Tensor:
        """What the layers see, (n, width)."""
        return observations if self.encoder is None else self.encoder(observations.reshape(-1, *self._shape))

    def hidden(self, layers: nn.ModuleList, features: Tensor) -> Tensor:
        """What goes out of the last of these layers."""
        for layer in layers:
            features = self._activation(layer(features))
        return features


def linear_layers(inputs: int, widths: Sequence[int]) -> nn.ModuleList:
    """Linear layers of these widths, one on another."""
    return nn.ModuleList(linear(a, b) for a, b in zip((inputs, *widths), widths, strict=False))


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A layer without numbers: drawing them is left to a generator of our own, never to torch's global one."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
    return layer


def trained_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a module that learn, by name."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def join_parameters(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Two vectors: all parameters of a module that learn are parts of one from now on, their gradients of the other.

    The gradient is 0 at first.
    """
    parameters = list(trained_parameters(module).values())
    vector = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    gradient, sizes = torch.zeros_like(vector), [parameter.numel() for parameter in parameters]
    for parameter, part, slope in zip(parameters, vector.split(sizes), gradient.split(sizes), strict=True):
        parameter.data, parameter.grad = part.view_as(parameter), slope.view_as(parameter)
    return vector, gradient


def adam(
    parameters: Tensor,
    gradient: Tensor,
    moments: tuple[Tensor, Tensor],
    rate: Tensor | float,
    correction: Tensor | float,
    epsilon: float,
) -> None:
    """`kernels.adam` on tensors of any device, in place.

    Args:
        parameters: What is learnt.
        gradient: The gradient, scaled.
        moments: First and second moment.
        rate: Learning rate over 1 - .9^step.
        correction: 1 / sqrt(1 - .999^step).
        epsilon: Adam's epsilon.
    """
    first, second = moments
    first.copy_(0.9 * first + 0.1 * gradient)
    second.copy_(0.999 * second + 0.001 * gradient * gradient)
    parameters.copy_(parameters - rate * first / (second.sqrt() * correction + epsilon))


def to_array(tensor: Tensor) -> Array:
    """A copy of a tensor in NumPy."""
    array: Array = tensor.detach().cpu().numpy().copy()
    return array
