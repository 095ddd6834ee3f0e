"""Values of discrete actions as torch networks: one that learns, and a slower one that it learns from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from alphaswarm_rl.agents.native.actor_critic import orthogonal
from alphaswarm_rl.policies.backbones.layers import draw_from

Array = np.ndarray[Any, Any]


class QNetwork(nn.Module):
    """An MLP that gives one value per action, on what an encoder makes of the observation.

    Args:
        inputs: Numbers of one observation.
        layers: Widths of the hidden layers.
        actions: How many actions there are.
        activation: Between the layers.
        dueling: Whether it adds the value of the state to advantages of mean 0.
        encoder: Turns observations into (n, features), with `features_dim`; None: the observation itself.
        shape: Of one observation as the encoder takes it; None: flat.
    """

    def __init__(
        self,
        inputs: int,
        layers: Sequence[int],
        actions: int,
        *,
        activation: str,
        dueling: bool,
        encoder: nn.Module | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self._shape = (inputs,) if shape is None else shape
        width = inputs if encoder is None else int(encoder.features_dim)  # type: ignore[arg-type]
        self.layers = nn.ModuleList(_linear(a, b) for a, b in zip((width, *layers), layers, strict=False))
        self.action = _linear((width, *layers)[-1], actions)
        self.state = _linear((width, *layers)[-1], 1) if dueling else None
        self._activation = torch.tanh if activation == "tanh" else torch.relu

    def forward(self, observations: Tensor) -> Tensor:
        """Values (n, actions)."""
        seen = observations
        if self.encoder is not None:
            seen = self.encoder(observations.reshape(-1, *self._shape))
        for layer in self.layers:
            seen = self._activation(layer(seen))
        values: Tensor = self.action(seen)
        if self.state is not None:
            values = self.state(seen) + values - values.mean(dim=1, keepdim=True)
        return values


class QFunction:
    """The online and the target network, each with all its parameters in one vector, and Adam over the first.

    Args:
        network: The online network; its weights are drawn here.
        generator: Draws the first weights.
        device: Where the networks are.
        learning_rate: Learning rate.
        max_grad_norm: Largest norm of the gradient.
        adam_eps: Adam's epsilon.
        double: Whether the online network chooses the action whose value the target network says.
        dropout_seed: Seed of what dropout draws in the encoder.
    """

    def __init__(
        self,
        network: QNetwork,
        *,
        generator: np.random.Generator,
        device: str,
        learning_rate: float,
        max_grad_norm: float,
        adam_eps: float,
        double: bool,
        dropout_seed: int = 0,
    ) -> None:
        self._device = torch.device(device)
        _draw_weights(network, generator)
        self.online = network.to(self._device).eval()
        self.target = deepcopy(self.online)
        self._dropout = torch.Generator(self._device).manual_seed(dropout_seed)
        # The target network is never in training mode, and draws nothing.
        draw_from(self.online, self._dropout)
        self._weights, self._target_weights = _joined(self.online), _joined(self.target)
        self.target.requires_grad_(False)
        self._gradient = torch.zeros_like(self._weights)
        at = 0
        for its in _trained(self.online):
            its.grad = self._gradient[at : at + its.numel()].view_as(its)
            at += its.numel()
        self._parameter = nn.Parameter(self._weights)
        self._parameter.grad = self._gradient
        self._adam = torch.optim.Adam([self._parameter], lr=learning_rate, eps=adam_eps, fused=True)
        self._max_grad_norm = max_grad_norm
        self._double = double
        self._set_moments(torch.zeros_like(self._weights), torch.zeros_like(self._weights), 0)

    def values(self, observations: Array) -> Array:
        """What the online network says, (n, actions)."""
        with torch.no_grad():
            found: Array = self.online(self._moved(observations)).cpu().numpy()
        return found

    def learn(
        self,
        observations: Array,
        actions: Array,
        rewards: Array,
        discounts: Array,
        next_observations: Array,
        next_masks: Array | None,
        weights: Array,
    ) -> tuple[Array, dict[str, float]]:
        """One gradient step on the weighted Huber loss; every array has one row per transition.

        Args:
            observations: What was seen.
            actions: What was done, counted from 0.
            rewards: What it gave.
            discounts: What the value of the next observation counts; 0 where there is none.
            next_observations: What was seen then.
            next_masks: Which actions were legal then; None: all.
            weights: What each transition counts.

        Returns:
            The errors, and the loss and the mean of the values that were learnt.
        """
        with torch.no_grad():
            targets = self._targets(
                self._moved(rewards), self._moved(discounts), self._moved(next_observations), next_masks
            )
        self._gradient.zero_()
        if self.online.encoder is not None:
            self.online.train()
        values = self.online(self._moved(observations)).gather(1, self._moved(actions)[:, None])[:, 0]
        if self.online.encoder is not None:
            self.online.eval()
        # A (n, 1) here would be broadcast to (n, n) silently.
        assert values.shape == targets.shape
        losses = nn.functional.smooth_l1_loss(values, targets, reduction="none")
        loss = (losses * self._moved(weights)).mean()
        loss.backward()
        norm = torch.linalg.vector_norm(self._gradient)
        self._gradient.mul_((self._max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        self._adam.step()
        errors: Array = (values.detach() - targets).cpu().numpy()
        return errors, {"loss": float(loss.detach()), "q_value": float(values.detach().mean())}

    def update_target(self, tau: float) -> None:
        """Moves the target network by that share of the way to the online one."""
        with torch.no_grad():
            self._target_weights.lerp_(self._weights, tau)
            for its, ours in zip(self.target.buffers(), self.online.buffers(), strict=True):
                its.copy_(ours)

    def _targets(self, rewards: Tensor, discounts: Tensor, seen: Tensor, masks: Array | None) -> Tensor:
        theirs = self.target(seen)
        choosing = self.online(seen) if self._double else theirs
        if masks is not None:
            choosing = choosing.masked_fill(~self._moved(masks), -math.inf)
        best = theirs.gather(1, choosing.argmax(dim=1, keepdim=True))[:, 0]
        assert best.shape == rewards.shape == discounts.shape
        return rewards + torch.where(discounts > 0, discounts * best, torch.zeros_like(best))

    def _moved(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    # Its state, by name.

    def get_arrays(self) -> dict[str, Array]:
        """Both networks' weights by name, and Adam's two moments as one vector each."""
        named = {f"online/{name}": tensor for name, tensor in self.online.state_dict().items()}
        named |= {f"target/{name}": tensor for name, tensor in self.target.state_dict().items()}
        moments = self._adam.state[self._parameter]
        named |= {"adam/first": moments["exp_avg"], "adam/second": moments["exp_avg_sq"]}
        if self.online.encoder is not None:
            named["dropout"] = self._dropout.get_state()
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in named.items()}

    def set_arrays(self, arrays: dict[str, Array], gradient_steps: int) -> None:
        """Continues from there, after that many gradient steps."""
        with torch.no_grad():
            for part, module in (("online", self.online), ("target", self.target)):
                for name, tensor in module.state_dict().items():
                    found = arrays[f"{part}/{name}"]
                    if found.shape != tuple(tensor.shape):
                        raise ValueError(f"{part}/{name} is of shape {found.shape}, not {tuple(tensor.shape)}")
                    tensor.copy_(torch.from_numpy(np.array(found)))
            first, second = (self._moved(np.array(arrays[f"adam/{name}"])) for name in ("first", "second"))
            self._set_moments(first, second, gradient_steps)
        if self.online.encoder is not None:
            self._dropout.set_state(torch.from_numpy(np.array(arrays["dropout"])))

    def _set_moments(self, first: Tensor, second: Tensor, gradient_steps: int) -> None:
        steps = torch.tensor(float(gradient_steps), device=self._device)
        self._adam.state[self._parameter] = {"step": steps, "exp_avg": first, "exp_avg_sq": second}


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """A layer without numbers: drawing them is left to a generator of our own, never to torch's global one."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
    return layer


def _draw_weights(network: QNetwork, generator: np.random.Generator) -> None:
    """Orthogonal weights, of gain sqrt(2) before an activation and 1 elsewhere; biases 0."""
    for name, module in network.named_modules():
        # An encoder comes with weights.
        if isinstance(module, nn.Linear) and not name.startswith("encoder."):
            gain = math.sqrt(2) if name.startswith("layers.") else 1.0
            drawn = orthogonal(module.out_features, module.in_features, gain, generator)
            with torch.no_grad():
                module.weight.copy_(torch.from_numpy(np.ascontiguousarray(drawn)))
                module.bias.zero_()


def _trained(module: nn.Module) -> list[nn.Parameter]:
    return [its for its in module.parameters() if its.requires_grad]


def _joined(module: nn.Module) -> Tensor:
    """One vector that all parameters of a module that learn are parts of from now on."""
    parameters = _trained(module)
    vector = torch.cat([its.detach().reshape(-1) for its in parameters])
    at = 0
    for its in parameters:
        its.data = vector[at : at + its.numel()].view_as(its)
        at += its.numel()
    return vector
