"""Actor and critic as torch modules: any encoder before them, any device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.actor_critic import LossSettings, Minibatch, fitting, initial_weights
from alphaswarm_rl.agents.native.flat_parameters import FlatParameters
from alphaswarm_rl.agents.native.kernels import (
    adam,
    discrete_loss,
    draw_discrete,
    draw_gaussian,
    gaussian_loss,
    value_loss,
)
from alphaswarm_rl.policies.backbones.layers import draw_from

Array = np.ndarray[Any, Any]


class ActorCriticModule(nn.Module):
    """Policy and value function, each a stack of layers, on what an encoder makes of the observation.

    Args:
        inputs: Numbers of one observation.
        pi: Widths of the policy's hidden layers.
        vf: Widths of the value function's.
        head: What the policy's outputs mean.
        activation: Between the layers.
        encoder: Turns observations into (n, features), with `features_dim`; None: the observation itself.
        shape: Of one observation as the encoder takes it; None: flat.
    """

    def __init__(
        self,
        inputs: int,
        pi: Sequence[int],
        vf: Sequence[int],
        head: ActionHead,
        *,
        activation: str,
        encoder: nn.Module | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self._shape = (inputs,) if shape is None else shape
        width = inputs if encoder is None else int(encoder.features_dim)  # type: ignore[arg-type]
        self.pi = nn.ModuleList(_linear(a, b) for a, b in zip((width, *pi), pi, strict=False))
        self.vf = nn.ModuleList(_linear(a, b) for a, b in zip((width, *vf), vf, strict=False))
        self.action = _linear((width, *pi)[-1], head.outputs)
        self.value = _linear((width, *vf)[-1], 1)
        self.log_std = None if head.discrete else nn.Parameter(torch.zeros(head.outputs))
        self._activation = torch.tanh if activation == "tanh" else torch.relu

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's outputs (n, outputs), and values (n,)."""
        features = observations
        if self.encoder is not None:
            features = self.encoder(observations.reshape(-1, *self._shape))
        return self._judged(features)

    def sequence(self, observations: Tensor, memory: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same of steps (T, m, inputs) one after another, flat, and the memory after the last."""
        features, after = self.encoder.forward_sequence(observations, memory, starts)  # type: ignore[union-attr,operator]
        return *self._judged(features.flatten(0, 1)), after

    def _judged(self, features: Tensor) -> tuple[Tensor, Tensor]:
        policy = value = features
        for layer in self.pi:
            policy = self._activation(layer(policy))
        for layer in self.vf:
            value = self._activation(layer(value))
        return self.action(policy), self.value(value)[:, 0]


def _linear(inputs: int, outputs: int) -> nn.Linear:
    # Its own first weights would be drawn from torch's global generator, and are not wanted.
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
    return layer


class TorchActorCritic(FlatParameters):
    """The modules, and their optimiser over one vector that all parameters lie in.

    The loss is the kernels' of `mlp_kernels`, and torch differentiates the networks alone. On another device than the
    CPU the networks and the optimiser are there, and what goes to and fro is small.

    Args:
        inputs: Numbers of one observation.
        pi: Widths of the policy's hidden layers.
        vf: Widths of the value function's.
        head: What the policy's outputs mean.
        activation: Between the layers.
        generator: Draws the first weights.
        device: Where the networks are.
        encoder: A module before the layers.
        shape: Of one observation as the encoder takes it; None: flat.
        dropout_seed: Seed of what dropout draws.
    """

    def __init__(
        self,
        inputs: int,
        pi: Sequence[int],
        vf: Sequence[int],
        head: ActionHead,
        *,
        activation: str,
        generator: np.random.Generator,
        device: str = "cpu",
        encoder: nn.Module | None = None,
        shape: tuple[int, ...] | None = None,
        dropout_seed: int = 0,
    ) -> None:
        self.head = head
        self._device = torch.device(device)
        # What carries a state reads step by step; what reads windows has nothing to carry.
        carries = bool(getattr(encoder, "recurrent", False))
        self.memory_width = int(encoder.initial_state(1, "cpu").shape[1]) if carries else 0  # type: ignore[union-attr,operator]
        self._dropout = torch.Generator(self._device).manual_seed(dropout_seed)
        if encoder is not None:
            draw_from(encoder, self._dropout)
        self.steps = 0
        self._sizes = np.array(head.sizes, np.int64)
        self._no_masks = np.zeros((0, 0), np.bool_)
        self.module = ActorCriticModule(inputs, pi, vf, head, activation=activation, encoder=encoder, shape=shape)
        self.module.to(self._device)
        self._join()
        width = inputs if encoder is None else int(encoder.features_dim)  # type: ignore[arg-type]
        first = initial_weights(width, pi, vf, head, generator)
        self.set_weights({**{name: array for name, array in self.weights().items() if name not in first}, **first})

    def _join(self) -> None:
        """Makes all parameters and their gradients parts of one vector each."""
        parameters = [its for its in self.module.parameters() if its.requires_grad]
        size = sum(its.numel() for its in parameters)
        self._values, self._gradient, self._first, self._second = torch.zeros((4, size), device=self._device)
        at = 0
        for its in parameters:
            where = slice(at, at + its.numel())
            self._values[where] = its.detach().reshape(-1)
            its.data = self._values[where].view_as(its)
            its.grad = self._gradient[where].view_as(its)
            at += its.numel()

    # What it does.

    def draw(
        self, observations: Array, noise: Array | None, masks: Array | None, memory: Array | None = None
    ) -> tuple[Array, Array, Array, Array | None]:
        """Actions as they are drawn, their log-probabilities, the values of the observations, and the memory after."""
        outputs, values, memory = self._seen(observations, memory)
        n, k = len(outputs), self.head.numbers
        log_probs = np.empty(n, np.float32)
        if noise is None:
            noise = np.zeros_like(outputs)
        if self.head.discrete:
            drawn = np.empty((n, k), np.int64)
            draw_discrete(outputs, noise, self._no_masks if masks is None else masks, self._sizes, drawn, log_probs)
        else:
            drawn = np.empty((n, k), np.float32)
            draw_gaussian(outputs, self._log_std(), noise, drawn, log_probs)
        return drawn, log_probs, values, memory

    def values(self, observations: Array, memory: Array | None = None) -> Array:
        """The values of observations."""
        return self._seen(observations, memory)[1]

    def _seen(self, observations: Array, memory: Array | None) -> tuple[Array, Array, Array | None]:
        self.module.eval()
        with torch.no_grad():
            if memory is None:
                outputs, values = (its.cpu().numpy() for its in self.module(self._moved(observations)))
                return outputs, values, None
            starts = torch.zeros((1, len(observations)), dtype=torch.bool, device=self._device)
            found = self.module.sequence(self._moved(observations)[None], self._moved(memory), starts)
            outputs, values, after = (its.cpu().numpy() for its in found)
            return outputs, values, after

    def learn(self, batch: Minibatch, settings: LossSettings, rate: float) -> Array:
        """One gradient step; gives policy loss, value loss, entropy, approximate KL and the clipped fraction."""
        statistics = self.differentiate(batch, settings)
        norm = float(torch.linalg.vector_norm(self._gradient))
        scale = min(1.0, settings.max_grad_norm / (norm + 1e-6))
        self.steps += 1
        vectors = self._values, self._gradient, self._first, self._second
        if self._device.type == "cpu":
            adam(*(vector.numpy() for vector in vectors), self.steps, rate, settings.adam_eps, scale)
        else:
            _adam(*vectors, self.steps, rate, settings.adam_eps, scale)
        return statistics

    def differentiate(self, batch: Minibatch, settings: LossSettings) -> Array:
        """Writes the gradient of the loss; gives its statistics."""
        self.module.train()
        self._gradient.zero_()
        observations = self._moved(batch.observations)
        if batch.memory is None:
            outputs, values = self.module(observations)
        else:
            outputs, values, _ = self.module.sequence(
                observations, self._moved(batch.memory), self._moved(batch.starts)
            )
        statistics = np.zeros(5)
        d_outputs, d_values = np.empty(outputs.shape, np.float32), np.zeros(len(values), np.float32)
        seen = outputs.detach().cpu().numpy()
        shared = (batch.log_probs, batch.advantages, settings.clip_range, settings.ent_coef)
        if self.head.discrete:
            masks = self._no_masks if batch.masks is None else batch.masks
            discrete_loss(seen, masks, self._sizes, batch.actions, *shared, d_outputs, statistics)
        else:
            assert self.module.log_std is not None
            d_log_std = np.empty(self.head.outputs, np.float32)
            gaussian_loss(seen, self._log_std(), batch.actions, *shared, d_outputs, d_log_std, statistics)
            self.module.log_std.grad.copy_(torch.from_numpy(d_log_std))  # type: ignore[union-attr]
        if settings.vf_coef > 0:
            clip = math.inf if settings.clip_range_vf is None else settings.clip_range_vf
            worth = values.detach().cpu().numpy()
            value_loss(worth, batch.returns, batch.values, clip, settings.vf_coef, d_values, statistics)
        torch.autograd.backward((outputs, values), (self._moved(d_outputs), self._moved(d_values)))
        return statistics

    def _log_std(self) -> Array:
        assert self.module.log_std is not None
        found: Array = self.module.log_std.detach().cpu().numpy()
        return found

    def _moved(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    # Its state, by name.

    def _named(self, vector: Tensor) -> dict[str, Array]:
        named, at = {}, 0
        for name, its in self.module.named_parameters():
            if its.requires_grad:
                named[name] = vector[at : at + its.numel()].view(its.shape).cpu().numpy().copy()
                at += its.numel()
        return named

    def _take(self, vector: Tensor, named: dict[str, Array]) -> None:
        at = 0
        for name, its in self.module.named_parameters():
            if its.requires_grad:
                found = torch.from_numpy(fitting(named, name, tuple(its.shape)))
                vector[at : at + its.numel()].view(its.shape).copy_(found)
                at += its.numel()

    def weights(self) -> dict[str, Array]:
        """Copies of the weights by name, those of a frozen encoder and its buffers too."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.module.state_dict().items()}

    def set_weights(self, named: dict[str, Array]) -> None:
        """Takes weights over; the optimiser begins anew."""
        with torch.no_grad():
            for name, tensor in self.module.state_dict().items():
                tensor.copy_(torch.from_numpy(fitting(named, name, tuple(tensor.shape))))
        self._first[:] = 0
        self._second[:] = 0
        self.steps = 0

    def streams(self) -> dict[str, Array]:
        """That of dropout, where there is an encoder."""
        return {} if self.module.encoder is None else {"dropout": self._dropout.get_state().numpy().copy()}

    def set_streams(self, named: dict[str, Array]) -> None:
        """Continues with it."""
        if self.module.encoder is not None:
            self._dropout.set_state(torch.from_numpy(np.array(named["dropout"])))

    def gradients(self) -> dict[str, Array]:
        """Copies of the last gradient by name."""
        return self._named(self._gradient)


def _adam(
    parameters: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    step: int,
    rate: float,
    epsilon: float,
    scale: float,
) -> None:
    """`mlp_kernels.adam` on a device."""
    gradient.mul_(scale)
    first.lerp_(gradient, 0.1)
    second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    spread = second.sqrt().mul_(1.0 / math.sqrt(1.0 - 0.999**step)).add_(epsilon)
    parameters.addcdiv_(first, spread, value=-rate / (1.0 - 0.9**step))
