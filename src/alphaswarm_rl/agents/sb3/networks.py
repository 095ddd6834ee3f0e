"""Feature extractors of our own for Stable-Baselines3's policies."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from alphaswarm_rl.core.refs import ComponentRef
from alphaswarm_rl.policies.backbones.encoders import build_encoder


class MlpEncoder(BaseFeaturesExtractor):
    """Flattens the observation, every entry of a Dict beside the others, and embeds it by one layer with ReLU.

    Args:
        observation_space: The space of the observations.
        features_dim: Width of the embedding.
    """

    def __init__(self, observation_space: spaces.Space[Any], features_dim: int) -> None:
        super().__init__(observation_space, features_dim)
        parts = observation_space.spaces.values() if isinstance(observation_space, spaces.Dict) else [observation_space]
        self.embed = nn.Sequential(nn.Linear(sum(map(get_flattened_obs_dim, parts)), features_dim), nn.ReLU())

    def forward(self, observations: torch.Tensor | dict[str, torch.Tensor]) -> torch.Tensor:
        """The embedding of a batch."""
        if isinstance(observations, dict):
            flat = torch.cat([observations[key].flatten(1) for key in self._observation_space.spaces], dim=1)
        else:
            flat = observations.flatten(1)
        return self.embed(flat)


class BackboneExtractor(BaseFeaturesExtractor):
    """A backbone of the catalogue; a loss that it has of its own is added to that of the algorithm.

    Args:
        observation_space: The space of the observations.
        encoder: The backbone.
        features_dim: Width of the features, unless the backbone names its own.
        length: Steps in a flat observation, unless the backbone names them.
        pretrained: Whether weights that it names are read.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        encoder: ComponentRef,
        features_dim: int,
        length: int | None,
        pretrained: bool,
    ) -> None:
        # The seed is the algorithm's next draw, so that the extractors of an actor and a critic begin differently.
        seed = int(torch.randint(2**31, ()))
        built = build_encoder(observation_space, encoder, features_dim, length=length, seed=seed, pretrained=pretrained)
        super().__init__(observation_space, built.features_dim)
        self.encoder = built

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """The features of a batch."""
        return self.encoder(observations)

    def apply(self, fn: Any) -> BackboneExtractor:
        """Nothing: policies would draw all its layers anew, those with weights from a file too."""
        return self
