"""Actor and critic on a device: drawing and the gradient step as functions of tensors, compiled where that pays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.actor_critic import LossSettings, fitting, initial_weights
from alphaswarm_rl.agents.native.flat_parameters import FlatParameters
from alphaswarm_rl.arrays.compiled_function import CompiledFunction

Array = np.ndarray[Any, Any]

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_ILLEGAL = -1e30


class DevicePolicy(FlatParameters):
    """Plain MLPs whose parameters lie in one vector on the device; the form of checkpoints is `MlpActorCritic`'s.

    Nothing here waits for the device.

    Args:
        inputs: Numbers of one observation.
        pi: Widths of the policy's hidden layers.
        vf: Widths of the value function's.
        head: What the policy's outputs mean.
        activation: Between the layers.
        generator: Draws the first weights.
        device: Where everything is.
        compile: Whether the gradient step is compiled; None: on a GPU where that is possible.
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
        device: torch.device,
        compile: bool | None = None,  # noqa: A002  (as torch calls it)
    ) -> None:
        self.head = head
        self.device = device
        self.steps = 0
        self._pi, self._vf = len(pi), len(vf)
        self._activation = torch.tanh if activation == "tanh" else torch.relu
        first = initial_weights(inputs, pi, vf, head, generator)
        self._shapes = {name: array.shape for name, array in first.items()}
        size = sum(math.prod(shape) for shape in self._shapes.values())
        self.parameters = torch.zeros(size, device=device)
        self._first, self._second = torch.zeros_like(self.parameters), torch.zeros_like(self.parameters)
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

    def _views(self, vector: Tensor) -> dict[str, Tensor]:
        views, at = {}, 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            views[name] = vector[at : at + size].view(shape)
            at += size
        return views

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

    def _judged(self, views: dict[str, Tensor], outputs: Tensor, actions: Tensor, masks: Tensor | None) -> Any:
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

    def draw(self, observations: Tensor, noise: Tensor | None, masks: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Actions as they are drawn, their log-probabilities, and the values of the observations."""
        return self.drawn(self.parameters, observations, noise, masks)

    def drawn(
        self, parameters: Tensor, observations: Tensor, noise: Tensor | None, masks: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same by these parameters."""
        with torch.no_grad():
            views = self._views(parameters)
            outputs, values = self._forward(views, observations)
            if self.head.discrete:
                legal = outputs if masks is None else torch.where(masks, outputs, _ILLEGAL)
                lively = legal if noise is None else legal + noise
                drawn = torch.stack([part.argmax(1) for part in lively.split(self.head.sizes, dim=1)], dim=1)
            else:
                drawn = outputs if noise is None else outputs + torch.exp(views["log_std"]) * noise
            log_probs, _ = self._judged(views, outputs, drawn, masks)
            return drawn, log_probs, values

    def values(self, observations: Tensor) -> Tensor:
        """The values of observations."""
        return self.valued(self.parameters, observations)

    def valued(self, parameters: Tensor, observations: Tensor) -> Tensor:
        """The same by these parameters."""
        with torch.no_grad():
            return self._forward(self._views(parameters), observations)[1]

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

    def learn(self, batch: Sequence[Tensor], settings: LossSettings, rate: float, clip_range: float) -> Tensor:
        """One gradient step; gives policy loss, value loss, entropy, approximate KL and the clipped fraction.

        Args:
            batch: Observations, actions, log-probabilities, advantages, returns, values, and masks where there are any.
            settings: The loss, the same in every call but for its clip range.
            rate: Learning rate.
            clip_range: Largest change of the probability ratio.
        """
        if self._settings is None:
            self._settings = settings
            self._step = CompiledFunction(
                self._gradient_step, self.device, enabled=self._compile, name="The gradient step of the agent"
            )
        self.steps += 1
        numbers = (
            clip_range,
            rate / (1.0 - 0.9**self.steps),
            1.0 / math.sqrt(1.0 - 0.999**self.steps),
        )
        # As tensors: other numbers need no new compilation.
        scalars = torch.tensor(numbers, dtype=torch.float32).to(self.device, non_blocking=True)
        (statistics,) = self._step([scalars, self.parameters, self._first, self._second, *batch])
        return statistics

    def _gradient_step(self, scalars: Tensor, *tensors: Tensor) -> tuple[Tensor]:
        parameters, first, second, *batch = tensors
        clip_range, rate, correction = scalars.unbind()
        leaf = parameters.detach().requires_grad_()
        with torch.enable_grad():
            loss, statistics = self._loss(leaf, batch, clip_range)
            (gradient,) = torch.autograd.grad(loss, leaf)
        settings = self._settings
        assert settings is not None
        norm = torch.linalg.vector_norm(gradient)
        gradient = gradient * torch.clamp(settings.max_grad_norm / (norm + 1e-6), max=1.0)
        first.copy_(0.9 * first + 0.1 * gradient)
        second.copy_(0.999 * second + 0.001 * gradient * gradient)
        parameters.copy_(parameters - rate * first / (second.sqrt() * correction + settings.adam_eps))
        return (statistics.detach(),)

    def _loss(self, leaf: Tensor, batch: Sequence[Tensor], clip_range: Tensor) -> tuple[Tensor, Tensor]:
        settings = self._settings
        assert settings is not None
        observations, actions, old_log_probs, advantages, returns, old_values, *masks = batch
        views = self._views(leaf)
        outputs, values = self._forward(views, observations)
        log_probs, entropies = self._judged(views, outputs, actions, masks[0] if masks else None)
        change = log_probs - old_log_probs
        ratio = torch.exp(change)
        near = torch.minimum(torch.maximum(ratio, 1.0 - clip_range), 1.0 + clip_range)
        policy_loss = -torch.minimum(ratio * advantages, near * advantages).mean()
        errors = (values - returns) ** 2
        if settings.clip_range_vf is not None:
            limit = settings.clip_range_vf
            close = old_values + torch.clamp(values - old_values, -limit, limit)
            errors = torch.maximum(errors, (close - returns) ** 2)
        value_loss = errors.mean()
        entropy = entropies.mean()
        loss = policy_loss + settings.vf_coef * value_loss - settings.ent_coef * entropy
        clipped = ((ratio - 1.0).abs() > clip_range).to(torch.float32).mean()
        return loss, torch.stack([policy_loss, value_loss, entropy, (ratio - 1.0 - change).mean(), clipped])

    # Its state, by name.

    def _named(self, vector: Tensor) -> dict[str, Array]:
        return {name: view.cpu().numpy().copy() for name, view in self._views(vector).items()}

    def _take(self, vector: Tensor, named: dict[str, Array]) -> None:
        for name, view in self._views(vector).items():
            view.copy_(torch.as_tensor(fitting(named, name, tuple(view.shape)).astype(np.float32)))
