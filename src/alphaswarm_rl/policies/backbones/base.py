"""What every backbone of ours has: a width, windows, and weights that may come from elsewhere."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import TimeSeriesEncoder

if TYPE_CHECKING:
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

    @abc.abstractmethod
    def network(self, features: int, length: int, features_dim: int) -> Any:
        """The bare torch module; its weights are drawn, loaded and frozen by `build`."""

    def build(self, request: EncoderRequest) -> Any:
        """The network, ready to be trained or used."""
        from alphaswarm_rl.policies.backbones.assembling import assemble

        return assemble(self, request)
