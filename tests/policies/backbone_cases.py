"""Small backbones of every kind, and windows to feed them."""

from __future__ import annotations

from typing import Any

import torch

from alphaswarm_rl.core.contracts import EncoderRequest
from alphaswarm_rl.core.refs import build_from_config

LENGTH, FEATURES, WIDTH = 12, 3, 5

#: Parameters that make each backbone small.
SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"d_model": 8, "heads": 2, "layers": 2, "d_ff": 16},
    "recurrent": {"hidden": 6, "layers": 2},
    "autoencoder": {"hidden": [16, 8]},
    "patch_tst": {"patch": 4, "stride": 2, "d_model": 8, "heads": 2, "layers": 2, "d_ff": 16},
}


def build(alias: str, *, features: int = FEATURES, length: int = LENGTH, seed: int = 0, **kwargs: Any) -> Any:
    """A built backbone in evaluation mode."""
    component = build_from_config({"class": alias, "kwargs": SMALL[alias] | kwargs}, kind="policy_backbone")
    return component.build(EncoderRequest(features, length, WIDTH, seed)).eval()


def windows(batch: int = 4, *, features: int = FEATURES, length: int = LENGTH, seed: int = 0) -> torch.Tensor:
    """Random windows."""
    return torch.randn(batch, length, features, generator=torch.Generator().manual_seed(seed))


def double(network: Any) -> Any:
    """The network in float64, for comparisons to many digits."""
    return network.double()
