"""Actor and critic in torch, in two forms with one layout of parameters and one Adam.

`TorchActorCritic` serves environments in NumPy: any encoder before the layers, any device. Its loss is the kernels',
and torch differentiates the networks alone. `DeviceActorCritic` serves environments of tensors: drawing and the whole
gradient step are functions of tensors, compiled where that pays, and nothing waits for the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from alphaswarm_rl.agents.native import kernels
from alphaswarm_rl.agents.native.actor_critic import ActorCritic, LossSettings, Minibatch, NetworkShape, initial_weights
from alphaswarm_rl.agents.native.host_actor_critic import HostActorCritic
from alphaswarm_rl.agents.native.parameters import ParameterLayout, fitting
from alphaswarm_rl.agents.native.torch_layers import (
    EncodedModule,
    adam,
    join_parameters,
    linear,
    linear_layers,
    to_array,
    trained_parameters,
)
from alphaswarm_rl.arrays.compiled_function import CompiledFunction
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.policies.backbones.layers import draw_from

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_ILLEGAL = -1e30
#: The tensors of a batch in the order in which the gradient step takes them; masks only where there are any.
_TRANSITIONS = ("observations", "actions", "log_probs", "values", "advantages", "returns", "masks")


class ActorCriticModule(EncodedModule):
    """Policy and value function, each a stack of layers, on what an encoder makes of the observation.

    Args:
        shape: Size of the networks.
        encoder: Turns observations into (n, features), with `features_dim`; None: the observation itself.
        encoded_shape: Of one observation as the encoder takes it; None: flat.
    """

    def __init__(
        self, shape: NetworkShape, encoder: nn.Module | None = None, encoded_shape: tuple[int, ...] | None = None
    ) -> None:
        super().__init__(shape.inputs, shape.activation, encoder, encoded_shape)
        self.pi = linear_layers(self.width, shape.pi)
        self.vf = linear_layers(self.width, shape.vf)
        self.action = linear((self.width, *shape.pi)[-1], shape.head.outputs)
        self.value = linear((self.width, *shape.vf)[-1], 1)
        self.log_std = None if shape.head.discrete else nn.Parameter(torch.zeros(shape.head.outputs))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's outputs (n, outputs), and values (n,)."""
        return self._outputs(self.features(observations))

    def sequence(self, observations: Tensor, memory: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same of steps (T, m, inputs) one after another, flat, and the memory after the last."""
        assert self.encoder is not None
        features, after = self.encoder.forward_sequence(observations, memory, starts)
        return *self._outputs(features.flatten(0, 1)), after

    def _outputs(self, features: Tensor) -> tuple[Tensor, Tensor]:
        policy, value = self.hidden(self.pi, features), self.hidden(self.vf, features)
        return self.action(policy), self.value(value)[:, 0]


class TorchActorCritic(HostActorCritic):
    """The modules, and their optimiser over one vector that all parameters lie in.

    On another device than the CPU the networks and the optimiser are there, and what goes to and fro is small.

    Args:
        shape: Size of the networks.
        generator: Draws the first weights.
        device: Where the networks are.
        encoder: A module before the layers.
        encoded_shape: Of one observation as the encoder takes it; None: flat.
        dropout_seed: Seed of what dropout draws.
    """

    def __init__(
        self,
        shape: NetworkShape,
        generator: np.random.Generator,
        *,
        device: str = "cpu",
        encoder: nn.Module | None = None,
        encoded_shape: tuple[int, ...] | None = None,
        dropout_seed: int = 0,
    ) -> None:
        super().__init__(shape.head)
        self._device = torch.device(device)
        # What carries a state reads step by step; what reads windows has nothing to carry.
        if encoder is not None and getattr(encoder, "recurrent", False):
            self.memory_width = int(encoder.initial_state(1, "cpu").shape[1])
        self._dropout = torch.Generator(self._device).manual_seed(dropout_seed)
        if encoder is not None:
            draw_from(encoder, self._dropout)
        self.module = ActorCriticModule(shape, encoder, encoded_shape).to(self._device)
        self.layout = ParameterLayout({name: tuple(p.shape) for name, p in trained_parameters(self.module).items()})
        self.parameters, self.gradient = join_parameters(self.module)
        self.first_moment, self.second_moment = torch.zeros_like(self.gradient), torch.zeros_like(self.gradient)
        first = initial_weights(replace(shape, inputs=self.module.width), generator)
        self.set_weights({**self.weights(), **first})

    def _evaluate(self, observations: Array, memory: Array | None) -> tuple[Array, Array, Array | None]:
        self.module.eval()
        with torch.no_grad():
            if memory is None:
                outputs, values = (tensor.cpu().numpy() for tensor in self.module(self._moved(observations)))
                return outputs, values, None
            starts = torch.zeros((1, len(observations)), dtype=torch.bool, device=self._device)
            found = self.module.sequence(self._moved(observations)[None], self._moved(memory), starts)
            outputs, values, after = (tensor.cpu().numpy() for tensor in found)
            return outputs, values, after

    def differentiate(self, batch: Minibatch, loss: LossSettings, clip_range: float) -> Array:
        """Writes the gradient of the loss; gives its statistics."""
        self.module.train()
        self.gradient.zero_()
        observations = self._moved(batch.observations)
        if batch.memory is None or batch.starts is None:
            outputs, values = self.module(observations)
        else:
            outputs, values, _ = self.module.sequence(
                observations, self._moved(batch.memory), self._moved(batch.starts)
            )
        d_outputs, d_values = np.empty(outputs.shape, np.float32), np.zeros(len(values), np.float32)
        d_log_std = np.empty(self.head.outputs, np.float32)
        host_outputs, host_values = (tensor.detach().cpu().numpy() for tensor in (outputs, values))
        slopes = d_outputs, d_values, d_log_std
        statistics = self._loss(host_outputs, host_values, batch, loss, clip_range, slopes)
        if self.module.log_std is not None:
            self.module.log_std.grad.copy_(torch.from_numpy(d_log_std))
        torch.autograd.backward((outputs, values), (self._moved(d_outputs), self._moved(d_values)))
        return statistics

    def _gradient_norm(self) -> float:
        return float(torch.linalg.vector_norm(self.gradient))

    def _descend(self, rate: float, epsilon: float, scale: float) -> None:
        moments = self.first_moment, self.second_moment
        if self._device.type == "cpu":
            # The same memory as arrays.
            vectors = (np.asarray(vector) for vector in (self.parameters, self.gradient, *moments))
            kernels.adam(*vectors, self.steps, rate, epsilon, scale)
        else:
            adam(self.parameters, self.gradient * scale, moments, *adam_factors(rate, self.steps), epsilon)

    def _log_std(self) -> Array:
        assert self.module.log_std is not None
        log_std: Array = self.module.log_std.detach().cpu().numpy()
        return log_std

    def _moved(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    # State, by name.

    def weights(self) -> dict[str, Array]:
        """Copies of the weights by name, those of a frozen encoder and its buffers too."""
        return {name: to_array(tensor) for name, tensor in self.module.state_dict().items()}

    def set_weights(self, named: Mapping[str, Array]) -> None:
        """Takes weights over; the optimiser begins anew."""
        with torch.no_grad():
            for name, tensor in self.module.state_dict().items():
                tensor.copy_(torch.from_numpy(np.array(fitting(named, name, tuple(tensor.shape)))))
        self._restart_optimiser()

    def streams(self) -> dict[str, Array]:
        """That of dropout, where there is an encoder."""
        return {} if self.module.encoder is None else {"dropout": to_array(self._dropout.get_state())}

    def set_streams(self, named: dict[str, Array]) -> None:
        """Continues with it."""
        if self.module.encoder is not None:
            self._dropout.set_state(torch.from_numpy(np.array(named["dropout"])))


def adam_factors(rate: float, step: int) -> tuple[float, float]:
    """What Adam multiplies by in its `step`-th step: the learning rate and the spread, both corrected for the start."""
    return rate / (1.0 - 0.9**step), 1.0 / math.sqrt(1.0 - 0.999**step)


class DeviceActorCritic(ActorCritic):
    """Plain MLPs whose parameters lie in one vector on the device; nothing here waits for the device.

    Args:
        shape: Size of the networks.
        generator: Draws the first weights.
        device: Where everything is.
        compile: Whether the gradient step is compiled; None: on a GPU where that is possible.
    """

    def __init__(
        self,
        shape: NetworkShape,
        generator: np.random.Generator,
        *,
        device: torch.device,
        compile: bool | None = None,  # noqa: A002  (as torch calls it)
    ) -> None:
        head = self.head = shape.head
        self.device = device
        self._pi, self._vf = len(shape.pi), len(shape.vf)
        self._activation = torch.tanh if shape.activation == "tanh" else torch.relu
        first = initial_weights(shape, generator)
        self.layout = ParameterLayout({name: array.shape for name, array in first.items()})
        self.parameters = torch.zeros(self.layout.size, device=device)
        self.first_moment, self.second_moment = torch.zeros_like(self.parameters), torch.zeros_like(self.parameters)
        self._bounds = [
            torch.as_tensor(array, dtype=kind, device=device)
            for array, kind in (
                (head.first, torch.int64),
                (head.low, torch.float32),
                (head.high, torch.float32),
                *((part, torch.float32) for part in head.scale),
            )
        ]
        self.set_weights(first)
        self._settings: LossSettings | None = None
        self._compile = compile

    # The networks.

    def _forward(self, views: dict[str, Tensor], observations: Tensor) -> tuple[Tensor, Tensor]:
        policy = value = observations
        begin = 0
        if self._pi and self._vf:
            # The first layers of both at once: the observation is what is large, and is read once.
            weight = torch.cat([views["pi.0.weight"], views["vf.0.weight"]])
            hidden = torch.addmm(torch.cat([views["pi.0.bias"], views["vf.0.bias"]]), observations, weight.t())
            policy, value = self._activation(hidden).split([len(views["pi.0.bias"]), len(views["vf.0.bias"])], dim=1)
            begin = 1
        for layer in range(begin, self._pi):
            policy = self._activation(torch.addmm(views[f"pi.{layer}.bias"], policy, views[f"pi.{layer}.weight"].t()))
        for layer in range(begin, self._vf):
            value = self._activation(torch.addmm(views[f"vf.{layer}.bias"], value, views[f"vf.{layer}.weight"].t()))
        outputs = torch.addmm(views["action.bias"], policy, views["action.weight"].t())
        return outputs, torch.addmm(views["value.bias"], value, views["value.weight"].t())[:, 0]

    def _log_probs(
        self, views: dict[str, Tensor], outputs: Tensor, actions: Tensor, masks: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of actions, and entropies."""
        if not self.head.discrete:
            log_std = views["log_std"]
            z = (actions - outputs) * torch.exp(-log_std)
            log_probs = (-0.5 * z * z - log_std - _HALF_LOG_2PI).sum(1)
            return log_probs, (log_std + 0.5 + _HALF_LOG_2PI).sum().expand(len(actions))
        if masks is not None:
            outputs = torch.where(masks, outputs, _ILLEGAL)
        total = entropy = torch.zeros_like(outputs[:, 0])
        for component, logits in enumerate(outputs.split(self.head.sizes, dim=1)):
            log_p = torch.log_softmax(logits, 1)
            # By products with ones and zeros: what picks one of a row adds its gradient in no fixed order.
            chosen = torch.arange(logits.shape[1], device=logits.device) == actions[:, component : component + 1]
            total = total + (log_p * chosen).sum(1)
            entropy = entropy - (log_p.exp() * log_p).sum(1)
        return total, entropy

    def draw(
        self,
        observations: Tensor,
        noise: Tensor | None,
        masks: Tensor | None,
        parameters: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Actions as they are drawn, their log-probabilities, and the values of the observations.

        Args:
            observations: (n, inputs).
            noise: As `noise` gives it, (n, outputs); None: the likeliest actions.
            masks: Which discrete choices are legal, (n, outputs); None: all.
            parameters: What the networks compute with; None: their own.
        """
        with torch.no_grad():
            views = self.layout.views(self.parameters if parameters is None else parameters)
            outputs, values = self._forward(views, observations)
            if self.head.discrete:
                legal = outputs if masks is None else torch.where(masks, outputs, _ILLEGAL)
                noisy = legal if noise is None else legal + noise
                drawn = torch.stack([part.argmax(1) for part in noisy.split(self.head.sizes, dim=1)], dim=1)
            else:
                drawn = outputs if noise is None else outputs + torch.exp(views["log_std"]) * noise
            log_probs, _ = self._log_probs(views, outputs, drawn, masks)
            return drawn, log_probs, values

    def values(self, observations: Tensor, parameters: Tensor | None = None) -> Tensor:
        """The values of observations."""
        with torch.no_grad():
            return self._forward(
                self.layout.views(self.parameters if parameters is None else parameters), observations
            )[1]

    def noise(self, generator: torch.Generator, n: int) -> Tensor:
        """Noise that actions are drawn by, (n, outputs)."""
        noise = torch.empty((n, self.head.outputs), device=self.device)
        if self.head.discrete:
            return noise.exponential_(generator=generator).clamp_(min=torch.finfo(torch.float32).tiny).log_().neg_()
        return noise.normal_(generator=generator)

    def to_env(self, drawn: Tensor) -> Tensor:
        """Actions as the environment takes them."""
        first, low, high, middle, half = self._bounds
        if self.head.discrete:
            return (drawn + first).reshape(len(drawn), *self.head.shape)
        return torch.clamp(middle + drawn * half, low, high).reshape(len(drawn), *self.head.shape)

    # Learning.

    def learn(self, batch: Minibatch, loss: LossSettings, rate: float, clip_range: float) -> Tensor:
        """One gradient step by that learning rate and clip range; gives the `STATISTICS`.

        The loss must be the same in every call: it is compiled in.
        """
        if self._settings is None:
            self._settings = loss
            self._step = CompiledFunction(
                self._gradient_step, self.device, enabled=self._compile, name="The gradient step of the agent"
            )
        self.steps += 1
        # As tensors: other numbers need no new compilation.
        numbers = torch.tensor((clip_range, *adam_factors(rate, self.steps)), dtype=torch.float32)
        transitions = [tensor for name in _TRANSITIONS if (tensor := getattr(batch, name)) is not None]
        vectors = [self.parameters, self.first_moment, self.second_moment]
        (statistics,) = self._step([numbers.to(self.device, non_blocking=True), *vectors, *transitions])
        return statistics

    def _gradient_step(self, numbers: Tensor, *tensors: Tensor) -> tuple[Tensor]:
        parameters, first, second, *transitions = tensors
        batch = Minibatch(**dict(zip(_TRANSITIONS, transitions, strict=False)))
        clip_range, rate, correction = numbers.unbind()
        settings = self._settings
        assert settings is not None
        leaf = parameters.detach().requires_grad_()
        with torch.enable_grad():
            loss, statistics = self._loss(leaf, batch, settings, clip_range)
            (gradient,) = torch.autograd.grad(loss, leaf)
        norm = torch.linalg.vector_norm(gradient)
        gradient = gradient * torch.clamp(settings.max_grad_norm / (norm + 1e-6), max=1.0)
        adam(parameters, gradient, (first, second), rate, correction, settings.adam_eps)
        return (statistics.detach(),)

    def _loss(
        self, leaf: Tensor, batch: Minibatch, settings: LossSettings, clip_range: Tensor
    ) -> tuple[Tensor, Tensor]:
        views = self.layout.views(leaf)
        outputs, values = self._forward(views, batch.observations)
        log_probs, entropies = self._log_probs(views, outputs, batch.actions, batch.masks)
        change = log_probs - batch.log_probs
        ratio = torch.exp(change)
        near = torch.minimum(torch.maximum(ratio, 1.0 - clip_range), 1.0 + clip_range)
        policy_loss = -torch.minimum(ratio * batch.advantages, near * batch.advantages).mean()
        errors = (values - batch.returns) ** 2
        if settings.clip_range_vf is not None:
            limit = settings.clip_range_vf
            close = batch.values + torch.clamp(values - batch.values, -limit, limit)
            clipped_errors = (close - batch.returns) ** 2
            errors = torch.maximum(errors, clipped_errors) if settings.clip_vf_form == "max" else clipped_errors
        value_loss = errors.mean()
        entropy = entropies.mean()
        loss = policy_loss + settings.vf_coef * value_loss - settings.ent_coef * entropy
        clipped = ((ratio - 1.0).abs() > clip_range).to(torch.float32).mean()
        return loss, torch.stack([policy_loss, value_loss, entropy, (ratio - 1.0 - change).mean(), clipped])
