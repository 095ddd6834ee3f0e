"""The autoencoder as a torch module."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from alphaswarm_rl.policies.backbones.layers import check_windows


class AutoencoderNetwork(nn.Module):
    """Windows (B, L, F) to features (B, d), with a decoder where there is a reconstruction loss."""

    def __init__(
        self, features: int, length: int, features_dim: int, *, hidden: Sequence[int], reconstruction_weight: float
    ) -> None:
        super().__init__()
        self.features, self.length, self.features_dim = features, length, features_dim
        self.reconstruction_weight = reconstruction_weight
        widths = [length * features, *hidden, features_dim]
        self.encoder = _layers(widths)
        self.decoder = _layers(widths[::-1]) if reconstruction_weight > 0 else None

    def forward(self, x: Tensor) -> Tensor:
        """The features of each window."""
        check_windows(x, self.length, self.features)
        return self.encoder(x.flatten(1))

    def auxiliary_loss(self, x: Tensor) -> Tensor:
        """The reconstruction loss of a batch, weighted; 0 without a decoder."""
        if self.decoder is None:
            return x.new_zeros(())
        restored = self.decoder(self(x))
        return self.reconstruction_weight * (restored - x.flatten(1)).square().mean()


def _layers(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    parts: list[nn.Module] = []
    for before, after in pairwise(widths):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])
