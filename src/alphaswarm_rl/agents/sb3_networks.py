"""Feature extractors of our own for Stable-Baselines3's policies."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


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
