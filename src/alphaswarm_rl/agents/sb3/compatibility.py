"""Whether an algorithm fits an environment. What does not is an error before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space

from alphaswarm_rl.agents.rollouts import refuse_large_batch
from alphaswarm_rl.agents.sb3.algorithms import SB3Adapter
from alphaswarm_rl.core.catalogue import listing
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import ComponentRef
from alphaswarm_rl.core.types import AnySpace
from alphaswarm_rl.policies.backbones.encoders import window_shape

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AgentRequest

#: The Nature CNN's three convolutions leave nothing of a smaller picture.
_SMALLEST_IMAGE = 36
_PLAIN_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def check_compatibility(agent: SB3Adapter, request: AgentRequest) -> None:
    """Refuses what the algorithm cannot do in that environment, on that device."""
    _check_actions(agent, request.action_space)
    _check_observations(agent, request.observation_space)
    _check_backbone(agent, request)
    _check_parameters(agent, request)
    if agent.masked and not request.masks:
        raise _misfit(agent, "the environment offers no action_masks()", "Use ppo, which needs no masks.")


def _misfit(agent: SB3Adapter, why: str, remedy: str) -> ComponentError:
    return ComponentError(f"agent {agent.rl_alias!r}", why, remedy)


def _check_actions(agent: SB3Adapter, space: AnySpace) -> None:
    kind = type(space).__name__
    if kind not in agent.action_spaces:
        fitting = [other.rl_alias for other in listing("agent") if kind in getattr(other, "action_spaces", ())]
        raise _misfit(
            agent,
            f"it acts in {' and '.join(agent.action_spaces)} spaces, the environment's action space is {space}",
            f"Use one of: {', '.join(fitting)}." if fitting else "No agent learns to act in such a space.",
        )
    if isinstance(space, spaces.Box) and not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise _misfit(agent, f"the action space {space} is unbounded", "Give it finite bounds.")
    if np.any(getattr(space, "start", 0)):
        raise _misfit(agent, f"the action space {space} does not start at 0", "Number the actions from 0 on.")
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary) and len(space.shape) != 1:
        raise _misfit(agent, f"the action space {space} has more than one dimension", "Flatten it.")


def _check_observations(agent: SB3Adapter, space: AnySpace) -> None:
    policy_type = agent.config.policy_type
    parts = list(space.spaces.values()) if isinstance(space, spaces.Dict) else [space]
    for part in parts:
        if not isinstance(part, _PLAIN_SPACES):
            raise _misfit(
                agent,
                f"it cannot observe {type(part).__name__} spaces",
                "Use Box, Discrete, MultiDiscrete, MultiBinary or a Dict.",
            )
    if isinstance(space, spaces.Dict) != (policy_type == "MultiInputPolicy"):
        seen = f"the observation space is a {type(space).__name__}, and policy_type is {policy_type}"
        if not isinstance(space, spaces.Dict):
            raise _misfit(agent, seen, "Set policy_type to MlpPolicy, or to CnnPolicy for images.")
        takes_dict = "MultiInputPolicy" in get_args(type(agent.config).model_fields["policy_type"].annotation)
        raise _misfit(
            agent,
            seen,
            "Set policy_type to MultiInputPolicy." if takes_dict else "Use an algorithm with MultiInputPolicy.",
        )
    if policy_type == "CnnPolicy" or getattr(agent.config, "encoder", None) == "cnn":
        _check_image(agent, space)


def _check_image(agent: SB3Adapter, space: AnySpace) -> None:
    if not is_image_space(space):
        raise _misfit(
            agent,
            f"a CNN needs pictures (uint8 from 0 to 255, three dimensions), not {space}",
            "Use MlpPolicy without `cnn`.",
        )
    # The channels are first or last; either way they are the smallest dimension.
    height, width = sorted(space.shape or ())[1:]
    if min(height, width) < _SMALLEST_IMAGE:
        raise _misfit(
            agent,
            f"its CNN needs pictures of {_SMALLEST_IMAGE} by {_SMALLEST_IMAGE} at least, not {height} by {width}",
            "Use MlpPolicy.",
        )


def _check_backbone(agent: SB3Adapter, request: AgentRequest) -> None:
    encoder = getattr(agent.config, "encoder", None)
    if not isinstance(encoder, ComponentRef):
        return
    length = encoder.kwargs.get("length") or request.stacked_frames
    window_shape(request.observation_space, length, encoder=encoder.name)
    if agent.rl_alias == "trpo" and encoder.kwargs.get("reconstruction_weight"):
        raise _misfit(
            agent,
            "its natural gradient has no room for the encoder's own loss",
            "Set reconstruction_weight to 0, or use ppo.",
        )


def _check_parameters(agent: SB3Adapter, request: AgentRequest) -> None:
    config = agent.config
    on_policy = "on-policy" in agent.rl_tags
    if getattr(config, "use_sde", False) and not isinstance(request.action_space, spaces.Box):
        raise _misfit(agent, "use_sde explores continuous actions only", "Set use_sde to false.")
    if on_policy and getattr(config, "normalize_advantage", False) and config.n_steps * request.num_envs == 1:
        raise _misfit(
            agent,
            "a rollout of one transition (n_steps times the number of environments) cannot be normalised",
            "Raise n_steps, or set normalize_advantage to false.",
        )
    if on_policy and hasattr(config, "n_steps"):
        refuse_large_batch(agent.rl_alias, config, request)
    if not on_policy and config.n_steps > 1 and isinstance(request.observation_space, spaces.Dict):
        raise _misfit(agent, "n-step returns are not there for Dict observations", "Set n_steps to 1.")
