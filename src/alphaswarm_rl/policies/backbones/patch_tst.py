"""The patch transformer."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, PositiveInt, model_validator

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.policies.backbones.base import Backbone, BackboneConfig, dropout_field, refuse


class PatchTSTBackbone(Backbone):
    """A transformer over patches of each feature's series by itself, all features through one and the same network.

    Each feature is normalised by mean and standard deviation of its own window, which are handed to the head beside
    the patches, for level and volatility say something. The window's end is padded by its last value, `stride` times,
    and cut into floor((length - patch) / stride) + 2 patches with learned positions. Patches of one window see each
    other both ways: all of them are past. Layers are post-norm with GELU as in the original, but with LayerNorm where
    that has BatchNorm, so that a window's features do not depend on the batch it is in, and a batch of one is
    possible. (Nie 2023.)
    """

    rl_alias = "patch_tst"
    rl_tags = ("attention",)

    class Config(BackboneConfig):
        """Parameters of the patch transformer."""

        patch: PositiveInt = Field(16, description="Steps per patch; the window may not be shorter.")
        stride: PositiveInt = Field(8, description="Steps from one patch to the next.")
        d_model: PositiveInt = Field(128, description="Width of a patch's token.")
        heads: PositiveInt = Field(16, description="Attention heads; divides d_model.")
        layers: PositiveInt = Field(3, description="Layers.")
        d_ff: PositiveInt = Field(256, description="Width inside a layer's feed-forward part.")
        dropout: float = dropout_field(0.2)

        @model_validator(mode="after")
        def _sizes_fit(self) -> Self:
            if self.d_model % self.heads:
                refuse(f"d_model ({self.d_model}) is no multiple of heads ({self.heads})")
            if self.stride > self.patch:
                refuse(f"stride ({self.stride}) above patch ({self.patch}) would leave steps out")
            return self

    def network(self, features: int, length: int, features_dim: int) -> Any:
        """The bare network; a window shorter than a patch is an error."""
        from alphaswarm_rl.policies.backbones.patch_tst_network import PatchTSTNetwork

        c = self.config
        if length < c.patch:
            raise ComponentError(
                f"policy_backbone {self.rl_alias!r}",
                f"its windows of {length} steps are shorter than a patch of {c.patch}",
                "Use longer windows, or a smaller patch and stride.",
            )
        return PatchTSTNetwork(
            features,
            length,
            features_dim,
            patch=c.patch,
            stride=c.stride,
            d_model=c.d_model,
            heads=c.heads,
            layers=c.layers,
            d_ff=c.d_ff,
            dropout=c.dropout,
        )
