"""The optional encoder of an agent: a network between the observation and the hidden layers.

Importing this module loads neither torch nor Gymnasium: specs are validated by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, PositiveInt, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.refs import ComponentRef, reference
from alphaswarm_rl.core.seeding import derived_seed

if TYPE_CHECKING:
    from torch import nn

    from alphaswarm_rl.core.contracts import AgentRequest

DEFAULT_EMBED_DIM = 64

Layers = tuple[PositiveInt, ...]


def _as_encoder(value: object, info: ValidationInfo) -> object:
    """An encoder by its name, or a backbone as a reference to it: one meaning, one hash."""
    if value is None or (isinstance(value, str) and value.lower() in ("mlp", "cnn")):
        return value if value is None else value.lower()
    named = {"class": value} if isinstance(value, str) else value
    try:
        return reference(named, "policy_backbone", stored=bool((info.context or {}).get("stored")))
    except AlphaSwarmError as error:
        raise PydanticCustomError(
            "component", "{text}", {"text": f"{error} Other encoders are 'mlp' and 'cnn'"}
        ) from error


_Backbone = Annotated[ComponentRef, Field(json_schema_extra={"rl_kind": "policy_backbone"})]
#: The type of the field `encoder`: a name, a reference to a backbone, or None.
Encoder = Annotated[str | _Backbone | None, BeforeValidator(_as_encoder)]


class EncodedConfig(ComponentConfig):
    """Parameters of native agents that may have an encoder before their layers."""

    encoder: Encoder = Field(
        None,
        description="Network before the layers: null is none, `mlp` flattens and embeds, `cnn` is the Nature CNN for "
        "images; any other name or reference is a policy_backbone of the catalogue.",
    )
    embed_dim: PositiveInt = Field(DEFAULT_EMBED_DIM, description="Output width of the encoder.")

    @model_validator(mode="after")
    def _width_has_an_encoder(self) -> EncodedConfig:
        if self.encoder is None and self.embed_dim != DEFAULT_EMBED_DIM:
            raise PydanticCustomError("no_effect", "embed_dim has no effect without an encoder", {})
        return self

    @property
    def encoder_is_scaled(self) -> bool:
        """Whether the encoder reads numbers as they come: pictures, or what its own weights were fitted to."""
        encoder = self.encoder
        return encoder == "cnn" or (isinstance(encoder, ComponentRef) and bool(encoder.kwargs.get("weights")))


def check_window(encoder: str | ComponentRef | None, frames: int | None) -> None:
    """Raises where a backbone cannot encode windows as long as its own `length`, or else the stacked frames, says.

    Args:
        encoder: The encoder of an agent.
        frames: How many frames a flat observation shows; None: one.
    """
    if isinstance(encoder, ComponentRef):
        encoder.build().check_length(encoder.kwargs.get("length") or frames or 1)


def encoder_for(config: EncodedConfig, request: AgentRequest, *, carries_state: bool) -> nn.Module | None:
    """A torch module from observations (n, ...) to features (n, features_dim); None where the parameters name none.

    One that is `recurrent` carries a state, by `initial_state` and `forward_sequence`.

    Args:
        config: The agent's parameters.
        request: What the agent is built for.
        carries_state: Whether the agent can carry a recurrent state from step to step.
    """
    if config.encoder is None:
        return None
    import numpy as np
    from gymnasium import spaces

    from alphaswarm_rl.agents.observations import flattening
    from alphaswarm_rl.policies.backbones.encoders import build_encoder

    space = request.observation_space
    # An `mlp` takes any space flat; what remembers reads one step at a time unless frames are stacked.
    flat = spaces.Box(-np.inf, np.inf, (flattening(space)[0],), np.float32)
    backbone = config.encoder if isinstance(config.encoder, ComponentRef) else None
    single_steps = backbone is not None and backbone.name == "recurrent" and len(space.shape or ()) == 1
    return build_encoder(
        flat if config.encoder == "mlp" else space,
        config.encoder,
        config.embed_dim,
        length=request.stacked_frames or (1 if carries_state and single_steps else None),
        seed=derived_seed(request.seed, "encoder"),
        pretrained=request.training,
    )


def encoded_shape(config: EncodedConfig, request: AgentRequest) -> tuple[int, ...] | None:
    """The shape in which the encoder takes one observation; None: flat."""
    return request.observation_space.shape if config.encoder == "cnn" else None
