"""Values of discrete actions as torch networks: one that learns, and a slower one that it learns from.

Each network has all its parameters in one vector. Arrays come in with one row per transition and values go out as
(n, actions), in NumPy whatever the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from alphaswarm_rl.agents.native.actor_critic import orthogonal
from alphaswarm_rl.agents.native.parameters import fitting
from alphaswarm_rl.agents.native.torch_layers import EncodedModule, join_parameters, linear, linear_layers, to_array
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.policies.backbones.layers import draw_from

if TYPE_CHECKING:
    from alphaswarm_rl.agents.native.ddqn import DdqnInhouse


class QNetwork(EncodedModule):
    """An MLP that gives one value per action, on what an encoder makes of the observation.

    Args:
        inputs: Numbers of one observation.
        actions: How many actions there are.
        config: Parameters of the agent: the hidden layers, and whether the network is dueling, which adds the value of
            the state to advantages of mean 0.
        encoder: Turns observations into (n, features), with `features_dim`; None: the observation itself.
        shape: Of one observation as the encoder takes it; None: flat.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: DdqnInhouse.Config,
        encoder: nn.Module | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(inputs, config.activation, encoder, shape)
        self.layers = linear_layers(self.width, config.net_arch)
        last = (self.width, *config.net_arch)[-1]
        self.action = linear(last, actions)
        self.state = linear(last, 1) if config.dueling else None

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
        config: Parameters of the agent: how it learns, and whether the online network chooses the action whose value
            the target network says.
        dropout_seed: Seed of what dropout draws in the encoder.
    """

    def __init__(
        self,
        network: QNetwork,
        config: DdqnInhouse.Config,
        *,
        generator: np.random.Generator,
        device: str,
        dropout_seed: int = 0,
    ) -> None:
        self._device = torch.device(device)
        _draw_weights(network, generator)
        self.online = network.to(self._device).eval()
        self.target = deepcopy(self.online)
        self._dropout = torch.Generator(self._device).manual_seed(dropout_seed)
        # The target network is never in training mode, and draws nothing.
        draw_from(self.online, self._dropout)
        self._weights, self._gradient = join_parameters(self.online)
        self._target_weights, _ = join_parameters(self.target)
        self.target.requires_grad_(False).zero_grad()
        self._parameter = nn.Parameter(self._weights)
        self._parameter.grad = self._gradient
        self._adam = torch.optim.Adam([self._parameter], lr=config.learning_rate, eps=config.adam_eps, fused=True)
        self._config = config
        self._set_moments(torch.zeros_like(self._weights), torch.zeros_like(self._weights), 0)

    def values(self, observations: Array) -> Array:
        """What the online network says, (n, actions)."""
        with torch.no_grad():
            found: Array = self.online(self._moved(observations)).cpu().numpy()
        return found

    def learn(self, drawn: Mapping[str, Array], weights: Array) -> tuple[Array, dict[str, float]]:
        """One gradient step on the weighted Huber loss; every array has one row per transition.

        Args:
            drawn: The transitions: `observation`, `action` counted from 0, `reward`, whether it was `terminated`,
                `next_observation`, `discount`, which is what the value of that counts unless it was, and where actions
                are masked `next_mask`, the legal ones then.
            weights: What each transition counts.

        Returns:
            The errors, and the loss and the mean of the values that were learnt.
        """
        with torch.no_grad():
            targets = self._targets(drawn)
        self._gradient.zero_()
        if self.online.encoder is not None:
            self.online.train()
        seen, actions = self._moved(drawn["observation"]), self._moved(drawn["action"])
        values = self.online(seen).gather(1, actions[:, None])[:, 0]
        if self.online.encoder is not None:
            self.online.eval()
        # A (n, 1) here would be broadcast to (n, n) silently.
        assert values.shape == targets.shape
        losses = nn.functional.smooth_l1_loss(values, targets, reduction="none")
        loss = (losses * self._moved(weights)).mean()
        loss.backward()
        norm = torch.linalg.vector_norm(self._gradient)
        self._gradient.mul_((self._config.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        self._adam.step()
        errors: Array = (values.detach() - targets).cpu().numpy()
        return errors, {"loss": float(loss.detach()), "q_value": float(values.detach().mean())}

    def update_target(self, tau: float) -> None:
        """Moves the target network by that share of the way to the online one."""
        with torch.no_grad():
            self._target_weights.lerp_(self._weights, tau)
            for slow, fast in zip(self.target.buffers(), self.online.buffers(), strict=True):
                slow.copy_(fast)

    def _targets(self, drawn: Mapping[str, Array]) -> Tensor:
        kept = np.where(drawn["terminated"], 0.0, drawn["discount"]).astype(np.float32)
        rewards, discounts, seen = map(self._moved, (drawn["reward"], kept, drawn["next_observation"]))
        values = self.target(seen)
        choosing = self.online(seen) if self._config.double else values
        if "next_mask" in drawn:
            choosing = choosing.masked_fill(~self._moved(drawn["next_mask"]), -math.inf)
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

    def begin_with(self, arrays: Mapping[str, Array]) -> None:
        """Takes over the weights of both networks; the optimiser begins anew."""
        self._set_weights(arrays)
        zeros = torch.zeros_like(self._weights)
        self._set_moments(zeros, zeros.clone(), 0)

    def _set_weights(self, arrays: Mapping[str, Array]) -> None:
        with torch.no_grad():
            for part, module in (("online", self.online), ("target", self.target)):
                for name, tensor in module.state_dict().items():
                    array = fitting(arrays, f"{part}/{name}", tuple(tensor.shape))
                    tensor.copy_(torch.from_numpy(np.array(array)))

    def set_arrays(self, arrays: dict[str, Array], gradient_steps: int) -> None:
        """Continues from there, after that many gradient steps."""
        self._set_weights(arrays)
        with torch.no_grad():
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
