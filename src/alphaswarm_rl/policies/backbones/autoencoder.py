"""The autoencoder."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from alphaswarm_rl.policies.backbones.base import Backbone, BackboneConfig, refuse


class AutoencoderBackbone(Backbone):
    """Layers that squeeze the flattened window into the features; a mirrored decoder may have to restore it.

    With `reconstruction_weight` the loss of whoever trains it has one more term, that weight times the mean squared
    error of the restored window. For observations of a thousand numbers and more: trained beforehand on windows alone
    and loaded frozen, it is a fixed compression. Fit whatever scales its input on training data only.
    """

    rl_alias = "autoencoder"
    rl_tags = ("compression",)
    reshapable = frozenset({"reconstruction_weight"})
    training_only = ("decoder.",)

    class Config(BackboneConfig):
        """Parameters of the autoencoder."""

        hidden: tuple[PositiveInt, ...] = Field(
            (512, 256), description="Widths of the encoder's hidden layers, the decoder's in reverse."
        )
        reconstruction_weight: NonNegativeFloat = Field(
            0.0, description="Weight of the reconstruction loss; 0: there is no decoder."
        )

        @model_validator(mode="after")
        def _decoder_learns(self) -> Self:
            if self.frozen and self.reconstruction_weight:
                refuse("reconstruction_weight has no effect on a frozen encoder")
            return self

    def network(self, features: int, length: int, features_dim: int) -> Any:
        """The bare network."""
        from alphaswarm_rl.policies.backbones.autoencoder_network import AutoencoderNetwork

        c = self.config
        return AutoencoderNetwork(
            features, length, features_dim, hidden=c.hidden, reconstruction_weight=c.reconstruction_weight
        )
