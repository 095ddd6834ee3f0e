"""Parameters that every Stable-Baselines3 algorithm has, and those of ARS, which has few others."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.agents.encoders import DEFAULT_EMBED_DIM, Encoder
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.refs import ComponentRef

Layers = tuple[PositiveInt, ...]


def learning_rate_field(default: float) -> Any:
    """The field `learning_rate` with an algorithm's own default."""
    return Field(default, gt=0, description="Learning rate at the start.")


def refuse_without(given: bool, name: str, needed: str) -> None:
    """Refuses a parameter that has no effect because the one it belongs to is off."""
    if given:
        raise PydanticCustomError(
            "no_effect", "{name} has no effect without {needed}", {"name": name, "needed": needed}
        )


class SB3Config(ComponentConfig):
    """Parameters that all of Stable-Baselines3's algorithms share. Defaults are theirs."""

    policy_type: Literal["MlpPolicy", "CnnPolicy", "MultiInputPolicy"] = Field(
        "MlpPolicy",
        description="Networks: MlpPolicy for vectors, CnnPolicy for images, MultiInputPolicy for Dict observations.",
    )
    activation: Literal["tanh", "relu"] | None = Field(
        None, description="Activation between the layers; null is the algorithm's own."
    )
    learning_rate: float = learning_rate_field(3e-4)
    lr_schedule: Literal["constant", "linear"] = Field(
        "constant", description="Whether the learning rate stays, or falls in a line to 0 at the end of training."
    )


class NetworkConfig(SB3Config):
    """Parameters of algorithms whose features extractor can be chosen."""

    encoder: Encoder = Field(
        None,
        description="Network before the layers: null is the policy type's own, `mlp` flattens and embeds, `cnn` is the "
        "Nature CNN for images; any other name, or a reference {class, kwargs}, is a policy_backbone of the catalogue.",
    )
    embed_dim: PositiveInt = Field(
        DEFAULT_EMBED_DIM, description="Output width of the encoder; a backbone's own features_dim goes before it."
    )
    gamma: float = Field(0.99, ge=0, le=1, description="Discount per step.")

    @model_validator(mode="after")
    def _encoder_fits(self) -> NetworkConfig:
        if self.encoder is None:
            refuse_without(self.embed_dim != DEFAULT_EMBED_DIM, "embed_dim", "an encoder")
        backbone = self.encoder if isinstance(self.encoder, ComponentRef) else None
        name = backbone.name if backbone is not None else self.encoder
        if (self.policy_type, name) in {("CnnPolicy", "mlp"), ("MultiInputPolicy", "cnn")} or (
            backbone is not None and self.policy_type != "MlpPolicy"
        ):
            raise PydanticCustomError(
                "no_effect",
                "{policy} with encoder '{encoder}' is a contradiction: leave one of them out",
                {"policy": self.policy_type, "encoder": name},
            )
        width = None if backbone is None else backbone.kwargs.get("features_dim")
        if width is not None:
            refuse_without(self.embed_dim not in (DEFAULT_EMBED_DIM, width), "embed_dim", "features_dim: null")
        return self


class ARSConfig(SB3Config):
    """Parameters of Augmented Random Search, which has no discount, no gradient and no features extractor."""

    policy_type: Literal["MlpPolicy"] = Field("MlpPolicy", description="Network family; ARS knows only this one.")
    net_arch: Layers | None = Field(
        None, description="Widths of the hidden layers; null is Stable-Baselines3's default, [] a linear policy."
    )
    learning_rate: float = learning_rate_field(0.02)
    n_delta: PositiveInt = Field(8, description="Random directions tried per update, each both ways.")
    n_top: PositiveInt | None = Field(None, description="Best directions used per update; null is all of them.")
    delta_std: float = Field(0.05, gt=0, description="Standard deviation of a direction.")
    zero_policy: bool = Field(True, description="Whether all weights start at 0.")
    alive_bonus_offset: float = Field(
        0.0, description="Added to every step's reward, to cancel a bonus for being alive."
    )
    n_eval_episodes: PositiveInt = Field(1, description="Episodes per candidate.")

    @model_validator(mode="after")
    def _directions(self) -> ARSConfig:
        if self.n_top is not None and self.n_top > self.n_delta:
            raise PydanticCustomError("n_top", "n_top is larger than n_delta", {})
        return self
