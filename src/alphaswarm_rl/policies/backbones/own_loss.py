"""A loss that comes along with features: whoever learns from them learns from it too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def with_own_loss(features: Tensor, backbone: Any, windows: Tensor) -> Tensor:
    """The features as they are; a gradient through them also carries that of the backbone's `auxiliary_loss`, once.

    Args:
        features: What the backbone made of the windows.
        backbone: The network.
        windows: The windows.
    """
    own = getattr(backbone, "auxiliary_loss", None)
    if own is None or not features.requires_grad:
        return features
    loss = own(windows)
    return _WithLoss.apply(features, loss) if loss.requires_grad else features


class _WithLoss(torch.autograd.Function):
    """Passes features through; a loss beside them gets the gradient 1 in the backward pass."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, loss: Tensor) -> Tensor:
        """The features."""
        return features.view_as(features)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Their gradient, and 1 for the loss."""
        return gradient, gradient.new_ones(())
