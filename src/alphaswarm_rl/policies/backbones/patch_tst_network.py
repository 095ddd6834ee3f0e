"""The patch transformer as a torch module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alphaswarm_rl.policies.backbones.layers import Dropout, EncoderLayer, check_windows

#: Keeps a feature that does not move from being divided by nothing.
_LEAST_VARIANCE = 1e-5


class PatchTSTNetwork(nn.Module):
    """Windows (B, L, F) to features (B, d); see `PatchTSTBackbone`.

    Before the head, reordering features (with their two affine parameters each) reorders `patch_tokens` likewise.
    """

    def __init__(
        self,
        features: int,
        length: int,
        features_dim: int,
        *,
        patch: int,
        stride: int,
        d_model: int,
        heads: int,
        layers: int,
        d_ff: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.features, self.length, self.features_dim = features, length, features_dim
        self.patch, self.stride = patch, stride
        self.patches = (length - patch) // stride + 2
        self.scale = nn.Parameter(torch.empty(features))
        self.shift = nn.Parameter(torch.empty(features))
        self.embed = nn.Linear(patch, d_model)
        self.positions = nn.Parameter(torch.empty(self.patches, d_model))
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, heads, d_ff, dropout, norm_first=False) for _ in range(layers)
        )
        self.head = nn.Linear(features * (self.patches * d_model + 2), features_dim)

    def initialise(self, generator: torch.Generator) -> None:
        """Draws the positions; the affine parameters begin without effect."""
        nn.init.normal_(self.positions, std=0.02, generator=generator)
        nn.init.ones_(self.scale)
        nn.init.zeros_(self.shift)

    def normalise(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Each feature of each window normalised (B, L, F), and the mean and deviation that were taken out, (B, F)."""
        mean = x.mean(1, keepdim=True)
        deviation = (x.var(1, keepdim=True, correction=0) + _LEAST_VARIANCE).sqrt()
        return (x - mean) / deviation * self.scale + self.shift, mean.squeeze(1), deviation.squeeze(1)

    def cut(self, x: Tensor) -> Tensor:
        """Patches (B, F, patches, patch), the oldest first, of windows whose last value is repeated `stride` times."""
        series = x.transpose(1, 2)
        padded = torch.cat([series, series[..., -1:].expand(-1, -1, self.stride)], dim=-1)
        return padded.unfold(-1, self.patch, self.stride)

    def patch_tokens(self, x: Tensor) -> Tensor:
        """Tokens (B, F, patches, d_model) of normalised windows: each feature by itself, all by the same layers."""
        tokens = self.dropout(self.embed(self.cut(x)) + self.positions)
        shape = tokens.shape
        tokens = tokens.flatten(0, 1)
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens.view(shape)

    def forward(self, x: Tensor) -> Tensor:
        """The features of each window."""
        check_windows(x, self.length, self.features)
        normal, mean, deviation = self.normalise(x)
        return self.head(torch.cat([self.patch_tokens(normal).flatten(1), mean, deviation], dim=1))
