"""The causal transformer as a torch module."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from alphaswarm_rl.policies.backbones.layers import Dropout, EncoderLayer, check_windows


class TransformerNetwork(nn.Module):
    """Windows (B, L, F) to features (B, d); see `TransformerBackbone`.

    The token of a step depends on that step and older ones alone (`tokens`).
    """

    def __init__(
        self,
        features: int,
        length: int,
        features_dim: int,
        *,
        d_model: int,
        heads: int,
        layers: int,
        d_ff: int,
        dropout: float,
        pool: Literal["last", "mean"],
    ) -> None:
        super().__init__()
        self.features, self.length, self.features_dim, self.pool = features, length, features_dim, pool
        self.embed = nn.Linear(features, d_model)
        self.positions = nn.Parameter(torch.empty(length, d_model))
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(EncoderLayer(d_model, heads, d_ff, dropout, norm_first=True) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, features_dim)

    def initialise(self, generator: torch.Generator) -> None:
        """Draws the positions."""
        nn.init.normal_(self.positions, std=0.02, generator=generator)

    def tokens(self, x: Tensor) -> Tensor:
        """One token per step, (B, L, d_model)."""
        check_windows(x, self.length, self.features)
        future = torch.ones(self.length, self.length, dtype=torch.bool, device=x.device).triu(1)
        tokens = self.dropout(self.embed(x) + self.positions)
        for layer in self.layers:
            tokens = layer(tokens, future)
        return self.norm(tokens)

    def forward(self, x: Tensor) -> Tensor:
        """The features of each window."""
        tokens = self.tokens(x)
        return self.head(tokens[:, -1] if self.pool == "last" else tokens.mean(1))
