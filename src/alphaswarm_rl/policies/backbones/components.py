"""The time series backbones of our own, as components: their parameters, and how their networks are made.

A backbone encodes windows (B, length, features), the oldest step first, as features (B, features_dim). The networks
themselves are in `networks`, which loads torch; this module does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.kinds import TimeSeriesEncoder

if TYPE_CHECKING:
    from torch import nn

    from alphaswarm_rl.core.contracts import EncoderRequest

#: Width of the features where nobody asks for another.
DEFAULT_WIDTH = 128


def dropout_field(default: float) -> Any:
    """The field `dropout` with a backbone's own default."""
    return Field(
        default,
        ge=0,
        lt=1,
        description="Share of activations dropped while it learns. On-policy agents compare two passes over the same "
        "observation, which dropout makes differ: 0 suits them.",
    )


def refuse(text: str) -> None:
    """Refuses parameters that contradict each other."""
    raise PydanticCustomError("backbone", "{text}", {"text": text})


class BackboneConfig(ComponentConfig):
    """Parameters that all backbones share."""

    features_dim: PositiveInt | None = Field(
        None, description="Width of the features; null: what the agent asks for as embed_dim, or 128."
    )
    length: PositiveInt | None = Field(
        None,
        description="Steps in a flat observation, which is cut into so many rows of equal width, the oldest first. "
        "Null: the observation is (steps, features) already, or stacked frames, whose number is known.",
    )
    weights: str | None = Field(
        None, description="File of save_backbone to begin with, relative to the working directory; null: begin anew."
    )
    sha256: str | None = Field(
        None, pattern="^[0-9a-f]{64}$", description="Checksum that the file must have; null: any."
    )
    frozen: bool = Field(False, description="Whether the weights stay as the file has them, dropout off.")

    @model_validator(mode="after")
    def _weights_are_named(self) -> Self:
        for name in ("sha256", "frozen"):
            if self.weights is None and getattr(self, name):
                refuse(f"{name} has no effect without weights")
        return self


class Backbone(TimeSeriesEncoder):
    """The base of our encoders: it begins with drawn weights, or with those of a file, frozen or not."""

    rl_category = "backbone"
    #: Parameters that a trunk may change after it was trained: they do not shape it.
    reshapable: ClassVar[frozenset[str]] = frozenset({"dropout"})
    #: Beginnings of the names of weights that serve training alone; a trunk without them can be loaded all the same.
    training_only: ClassVar[tuple[str, ...]] = ()

    class Config(BackboneConfig):
        """Only the shared parameters."""

    #: The class in `networks`, which takes the config's own parameters by name.
    network_class: ClassVar[str]

    def network(self, features: int, length: int, features_dim: int) -> nn.Module:
        """The bare torch module; its weights are drawn, loaded and frozen by `build`."""
        from alphaswarm_rl.policies.backbones import networks

        own = {name: getattr(self.config, name) for name in type(self.config).model_fields}
        shape = {name: value for name, value in own.items() if name not in BackboneConfig.model_fields}
        return getattr(networks, self.network_class)(features, length, features_dim, **shape)

    def build(self, request: EncoderRequest) -> nn.Module:
        """The network, ready to be trained or used."""
        from alphaswarm_rl.policies.backbones.files import assemble

        return assemble(self, request)


class AttentionConfig(BackboneConfig):
    """Parameters that backbones of attention layers share."""

    d_model: PositiveInt = Field(64, description="Width of a step's token.")
    heads: PositiveInt = Field(4, description="Attention heads; divides d_model.")
    layers: PositiveInt = Field(2, description="Layers.")
    d_ff: PositiveInt = Field(256, description="Width inside a layer's feed-forward part.")

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.d_model % self.heads:
            refuse(f"d_model ({self.d_model}) is no multiple of heads ({self.heads})")
        return self


class TransformerBackbone(Backbone):
    """A causal transformer: every step attends to itself and to older ones; for windows of 30 to 100 steps.

    A linear embedding with learned positions, pre-norm layers of masked self-attention and GELU, a last norm, and a
    linear head on the newest step's token (or on the mean of all). (Vaswani 2017.)
    """

    rl_alias = "transformer"
    network_class = "TransformerNetwork"
    rl_tags = ("attention",)

    class Config(AttentionConfig):
        """Parameters of the transformer."""

        dropout: float = dropout_field(0.1)
        pool: Literal["last", "mean"] = Field("last", description="The newest step's token, or the mean of all.")


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
    network_class = "PatchTSTNetwork"
    rl_tags = ("attention",)

    class Config(AttentionConfig):
        """Parameters of the patch transformer."""

        patch: PositiveInt = Field(16, description="Steps per patch; the window may not be shorter.")
        stride: PositiveInt = Field(8, description="Steps from one patch to the next.")
        d_model: PositiveInt = Field(128, description="Width of a patch's token.")
        heads: PositiveInt = Field(16, description="Attention heads; divides d_model.")
        layers: PositiveInt = Field(3, description="Layers.")
        dropout: float = dropout_field(0.2)

        @model_validator(mode="after")
        def _patches_fit(self) -> Self:
            if self.stride > self.patch:
                refuse(f"stride ({self.stride}) above patch ({self.patch}) would leave steps out")
            return self

    def check_length(self, length: int) -> None:
        """Raises where a window is shorter than a patch."""
        patch = self.config.patch
        if length < patch:
            raise ComponentError(
                f"policy_backbone {self.rl_alias!r}",
                f"its windows of {length} step{'s' * (length != 1)} are shorter than a patch of {patch}",
                f"Use windows of {patch} steps or more (obs.stack_frames: {patch}), or a smaller patch and stride.",
            )

    def network(self, features: int, length: int, features_dim: int) -> nn.Module:
        """The bare network; a window shorter than a patch is an error."""
        self.check_length(length)
        return super().network(features, length, features_dim)


class RecurrentBackbone(Backbone):
    """An LSTM, GRU or plain recurrent network from the oldest step to the newest, whose last output is the features.

    It reads windows, or carries its state from step to step (`forward_sequence`) and forgets where episodes start. It
    is never bidirectional. (Hochreiter and Schmidhuber 1997; Cho 2014.)
    """

    rl_alias = "recurrent"
    network_class = "RecurrentNetwork"
    rl_tags = ("recurrent",)

    class Config(BackboneConfig):
        """Parameters of the recurrent network."""

        cell: Literal["lstm", "gru", "rnn"] = Field("lstm", description="Kind of the cells.")
        hidden: PositiveInt = Field(128, description="Width of a layer's state.")
        layers: PositiveInt = Field(2, description="Layers.")
        dropout: float = dropout_field(0.1)


class AutoencoderBackbone(Backbone):
    """Layers that squeeze the flattened window into the features; a mirrored decoder may have to restore it.

    With `reconstruction_weight` the loss of whoever trains it has one more term, that weight times the mean squared
    error of the restored window. For observations of a thousand numbers and more: trained beforehand on windows alone
    and loaded frozen, it is a fixed compression. Fit whatever scales its input on training data only.
    """

    rl_alias = "autoencoder"
    network_class = "AutoencoderNetwork"
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
