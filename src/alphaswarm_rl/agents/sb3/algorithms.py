"""Stable-Baselines3's algorithms, and those of its contrib package, as agents."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from alphaswarm_rl.agents.sb3.configs import ARSConfig
from alphaswarm_rl.agents.sb3.off_policy_configs import (
    DDPGConfig,
    DQNConfig,
    QRDQNConfig,
    SACConfig,
    TD3Config,
    TQCConfig,
)
from alphaswarm_rl.agents.sb3.on_policy_configs import (
    A2CConfig,
    MaskablePPOConfig,
    PPOConfig,
    RecurrentPPOConfig,
    TRPOConfig,
)
from alphaswarm_rl.core.errors import ComponentError, nearest
from alphaswarm_rl.core.kinds import Agent

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AgentRequest, Learner

_ANY_ACTIONS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
_ON_POLICY = ("on-policy", "discrete", "continuous")


class SB3Adapter(Agent):
    """The base of the agents that Stable-Baselines3 trains.

    The class of the algorithm has the component's name. It is built by `sb3_model`, trained and saved by
    `sb3_learner`; both load torch, so only `build` imports them.
    """

    rl_category = "sb3"
    rl_source = "stable-baselines3"
    #: Kinds of action spaces that the algorithm can act in.
    action_spaces: ClassVar[tuple[str, ...]]
    #: Whether it reads the environment's `action_masks()`.
    masked: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def algorithm(self) -> tuple[str, str]:
        """Module and class of the algorithm."""

    def build(self, request: AgentRequest) -> Learner:
        """The algorithm with its networks, for that environment."""
        from alphaswarm_rl.agents.sb3.learner import build_learner

        return build_learner(self, request)


def algorithms(base: type[SB3Adapter] = SB3Adapter) -> dict[str, type[SB3Adapter]]:
    """Every algorithm by its alias."""
    found: dict[str, type[SB3Adapter]] = {}
    for sub in base.__subclasses__():
        found |= {sub.rl_alias: sub} if "rl_alias" in sub.__dict__ else algorithms(sub)
    return found


class StableBaselines(SB3Adapter):
    """The base of the algorithms of Stable-Baselines3 itself."""

    @property
    def algorithm(self) -> tuple[str, str]:
        """Module and class of the algorithm."""
        return "stable_baselines3", type(self).__name__


class Contrib(SB3Adapter):
    """The base of the algorithms of the contrib package."""

    rl_source = "sb3-contrib"

    @property
    def algorithm(self) -> tuple[str, str]:
        """Module and class of the algorithm."""
        return "sb3_contrib", type(self).__name__


class PPO(StableBaselines):
    """Proximal Policy Optimization: clipped policy updates from fresh rollouts.

    `{class: SB3Adapter, kwargs: {algorithm: NAME, ...}}` is another spelling of the agent NAME.
    """

    rl_alias = "ppo"
    rl_tags = _ON_POLICY
    rl_short_names = ("SB3Adapter",)
    action_spaces = _ANY_ACTIONS
    Config = PPOConfig

    @classmethod
    def rl_expand(cls, name: str, kwargs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The agent that the keyword `algorithm` names, with the other keywords."""
        known = algorithms()
        rest = dict(kwargs)
        wanted = rest.pop("algorithm", None)
        if wanted is None:
            raise ComponentError(
                f"agent {name!r}",
                "it does not say which algorithm",
                f"Add algorithm to its kwargs: {', '.join(sorted(known))}.",
            )
        names = {key.lower(): alias for alias, sub in known.items() for key in (alias, sub.__name__)}
        alias = names.get(str(wanted).lower())
        if alias is None:
            raise ComponentError(
                f"algorithm {wanted!r} of agent {name!r}", "there is none", nearest(str(wanted), known)
            )
        return alias, rest


class A2C(StableBaselines):
    """Advantage Actor Critic: one gradient step per short rollout."""

    rl_alias = "a2c"
    rl_tags = _ON_POLICY
    action_spaces = _ANY_ACTIONS
    Config = A2CConfig


class DQN(StableBaselines):
    """Deep Q-Network: a Q-function from a replay buffer, acted on greedily."""

    rl_alias = "dqn"
    rl_tags = ("off-policy", "discrete")
    action_spaces = ("Discrete",)
    Config = DQNConfig


class SAC(StableBaselines):
    """Soft Actor Critic: an actor of large entropy with two Q-functions."""

    rl_alias = "sac"
    rl_tags = ("off-policy", "continuous")
    action_spaces = ("Box",)
    Config = SACConfig


class TD3(StableBaselines):
    """Twin Delayed DDPG: a deterministic actor, two Q-functions, a smoothed target."""

    rl_alias = "td3"
    rl_tags = ("off-policy", "continuous")
    action_spaces = ("Box",)
    Config = TD3Config


class DDPG(StableBaselines):
    """Deep Deterministic Policy Gradient: a deterministic actor with one Q-function."""

    rl_alias = "ddpg"
    rl_tags = ("off-policy", "continuous")
    action_spaces = ("Box",)
    Config = DDPGConfig


class RecurrentPPO(Contrib):
    """PPO with an LSTM, which remembers within an episode."""

    rl_alias = "recurrent_ppo"
    rl_tags = (*_ON_POLICY, "recurrent")
    # Its authors list MultiBinary too, but their buffer keeps such actions as int8, and the update then fails.
    action_spaces = ("Box", "Discrete", "MultiDiscrete")
    Config = RecurrentPPOConfig


class TRPO(Contrib):
    """Trust Region Policy Optimization: policy updates within a limit of KL divergence."""

    rl_alias = "trpo"
    rl_tags = _ON_POLICY
    action_spaces = _ANY_ACTIONS
    Config = TRPOConfig


class QRDQN(Contrib):
    """Quantile Regression DQN: the distribution of the return instead of its mean."""

    rl_alias = "qrdqn"
    rl_tags = ("off-policy", "discrete")
    action_spaces = ("Discrete",)
    Config = QRDQNConfig


class MaskablePPO(Contrib):
    """PPO that never takes an action which the environment masks."""

    rl_alias = "maskable_ppo"
    rl_tags = ("on-policy", "discrete", "masked")
    action_spaces = ("Discrete", "MultiDiscrete", "MultiBinary")
    masked = True
    Config = MaskablePPOConfig


class TQC(Contrib):
    """Truncated Quantile Critics: SAC with quantile Q-functions whose highest are dropped."""

    rl_alias = "tqc"
    rl_tags = ("off-policy", "continuous")
    action_spaces = ("Box",)
    Config = TQCConfig


class ARS(Contrib):
    """Augmented Random Search: the better of random directions, without a gradient."""

    rl_alias = "ars"
    rl_tags = ("on-policy", "search", "discrete", "continuous")
    action_spaces = ("Box", "Discrete")
    Config = ARSConfig

    @property
    def algorithm(self) -> tuple[str, str]:
        """Module and class of the algorithm, which is ours: it halts and resumes."""
        return "alphaswarm_rl.agents.sb3.ars", "ResumableARS"
