"""Values of discrete actions as torch networks: one that learns, and a slower one that it learns from.

Each network has all its parameters in one vector. Arrays come in with one row per transition and values go out as
(n, actions), in NumPy whatever the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from alphaswarm_rl.agents.native.actor_critic import orthogonal
from alphaswarm_rl.agents.native.parameters import fitting
from alphaswarm_rl.agents.native.torch_layers import (
    EncodedModule,
    join_gradients,
    join_parameters,
    linear,
    linear_layers,
    to_array,
)
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.policies.backbones.layers import draw_from


class QNetwork(EncodedModule):
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
        super().__init__(inputs, activation, encoder, shape)
        self.layers = linear_layers(self.width, layers)
        self.action = linear((self.width, *layers)[-1], actions)
        self.state = linear((self.width, *layers)[-1], 1) if dueling else None

    def forward(self, observations: Tensor) -> Tensor:
        """Values (n, actions)."""
        hidden = self.hidden(self.layers, self.features(observations))
        values: Tensor = self.action(hidden)
        if self.state is not None:
            values = self.state(hidden) + values - values.mean(dim=1, keepdim=True)
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
        self._weights, self._target_weights = join_parameters(self.online), join_parameters(self.target)
        self.target.requires_grad_(False)
        self._gradient = join_gradients(self.online)
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
            for slow, fast in zip(self.target.buffers(), self.online.buffers(), strict=True):
                slow.copy_(fast)

    def _targets(self, rewards: Tensor, discounts: Tensor, seen: Tensor, masks: Array | None) -> Tensor:
        values = self.target(seen)
        choosing = self.online(seen) if self._double else values
        if masks is not None:
            choosing = choosing.masked_fill(~self._moved(masks), -math.inf)
        best = values.gather(1, choosing.argmax(dim=1, keepdim=True))[:, 0]
        assert best.shape == rewards.shape == discounts.shape
        return rewards + torch.where(discounts > 0, discounts * best, torch.zeros_like(best))

    def _moved(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    # State, by name.

    def get_arrays(self) -> dict[str, Array]:
        """Both networks' weights by name, and Adam's two moments as one vector each."""
        named = {f"online/{name}": tensor for name, tensor in self.online.state_dict().items()}
        named |= {f"target/{name}": tensor for name, tensor in self.target.state_dict().items()}
        moments = self._adam.state[self._parameter]
        named |= {"adam/first": moments["exp_avg"], "adam/second": moments["exp_avg_sq"]}
        if self.online.encoder is not None:
            named["dropout"] = self._dropout.get_state()
        return {name: to_array(tensor) for name, tensor in named.items()}

    def set_arrays(self, arrays: dict[str, Array], gradient_steps: int) -> None:
        """Continues from there, after that many gradient steps."""
        with torch.no_grad():
            for part, module in (("online", self.online), ("target", self.target)):
                for name, tensor in module.state_dict().items():
                    array = fitting(arrays, f"{part}/{name}", tuple(tensor.shape))
                    tensor.copy_(torch.from_numpy(np.array(array)))
            first, second = (self._moved(np.array(arrays[f"adam/{name}"])) for name in ("first", "second"))
            self._set_moments(first, second, gradient_steps)
        if self.online.encoder is not None:
            self._dropout.set_state(torch.from_numpy(np.array(arrays["dropout"])))

    def _set_moments(self, first: Tensor, second: Tensor, gradient_steps: int) -> None:
        steps = torch.tensor(float(gradient_steps), device=self._device)
        self._adam.state[self._parameter] = {"step": steps, "exp_avg": first, "exp_avg_sq": second}


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
