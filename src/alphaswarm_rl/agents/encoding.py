"""The encoder that a native agent's parameters ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.agents.flat_observations import flattening
from alphaswarm_rl.agents.native_configs import EncodedConfig
from alphaswarm_rl.core.contracts import AgentRequest
from alphaswarm_rl.core.refs import ComponentRef
from alphaswarm_rl.core.seeding import derived_seed


def encoder_for(config: EncodedConfig, request: AgentRequest, *, carries_state: bool) -> Any:
    """A torch module from observations to features; None where none is asked for.

    Args:
        config: The agent's parameters.
        request: What the agent is built for.
        carries_state: Whether the agent can carry a recurrent state from step to step.
    """
    if config.encoder is None:
        return None
    from alphaswarm_rl.policies.backbones.encoders import build_encoder

    space = request.observation_space
    # An `mlp` takes any space flat; what remembers reads one step at a time unless frames are stacked.
    flat = spaces.Box(-np.inf, np.inf, (flattening(space)[0],), np.float32)
    backbone = config.encoder if isinstance(config.encoder, ComponentRef) else None
    steps_of_one = backbone is not None and backbone.name == "recurrent" and len(space.shape or ()) == 1
    return build_encoder(
        flat if config.encoder == "mlp" else space,
        config.encoder,
        config.embed_dim,
        length=request.stacked_frames or (1 if carries_state and steps_of_one else None),
        seed=derived_seed(request.seed, "encoder"),
        pretrained=request.training,
    )


def knows_its_scale(encoder: Any) -> bool:
    """Whether an encoder reads numbers as they come: pictures, and what its own weights were fitted to."""
    return encoder == "cnn" or (isinstance(encoder, ComponentRef) and bool(encoder.kwargs.get("weights")))


def encoded_shape(config: EncodedConfig, request: AgentRequest) -> tuple[int, ...] | None:
    """The shape in which the encoder takes one observation; None: flat."""
    return request.observation_space.shape if config.encoder == "cnn" else None
