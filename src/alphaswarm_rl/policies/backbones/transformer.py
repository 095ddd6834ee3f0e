"""The transformer."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from alphaswarm_rl.policies.backbones.base import Backbone, BackboneConfig, dropout_field, refuse


class TransformerBackbone(Backbone):
    """A causal transformer: every step attends to itself and to older ones; for windows of 30 to 100 steps.

    A linear embedding with learned positions, pre-norm layers of masked self-attention and GELU, a last norm, and a
    linear head on the newest step's token (or on the mean of all). (Vaswani 2017.)
    """

    rl_alias = "transformer"
    rl_tags = ("attention",)

    class Config(BackboneConfig):
        """Parameters of the transformer."""

        d_model: PositiveInt = Field(64, description="Width of a step's token.")
        heads: PositiveInt = Field(4, description="Attention heads; divides d_model.")
        layers: PositiveInt = Field(2, description="Layers.")
        d_ff: PositiveInt = Field(256, description="Width inside a layer's feed-forward part.")
        dropout: float = dropout_field(0.1)
        pool: Literal["last", "mean"] = Field("last", description="The newest step's token, or the mean of all.")

        @model_validator(mode="after")
        def _heads_fit(self) -> Self:
            if self.d_model % self.heads:
                refuse(f"d_model ({self.d_model}) is no multiple of heads ({self.heads})")
            return self

    def network(self, features: int, length: int, features_dim: int) -> Any:
        """The bare network."""
        from alphaswarm_rl.policies.backbones.transformer_network import TransformerNetwork

        c = self.config
        return TransformerNetwork(
            features,
            length,
            features_dim,
            d_model=c.d_model,
            heads=c.heads,
            layers=c.layers,
            d_ff=c.d_ff,
            dropout=c.dropout,
            pool=c.pool,
        )
