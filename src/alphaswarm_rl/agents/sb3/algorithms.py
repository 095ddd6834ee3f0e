"""Stable-Baselines3's algorithms, and those of its contrib package, as agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from alphaswarm_rl.agents.encoders import check_window
from alphaswarm_rl.agents.sb3.configs import ARSConfig, SB3Config
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
from alphaswarm_rl.core.types import JsonMapping, JsonObject

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AgentRequest, Learner

_ANY_ACTIONS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
_CONTINUOUS = ("Box",)
_ON_POLICY = ("on-policy", "discrete", "continuous")
_OFF_POLICY = ("off-policy", "continuous")
_Q_LEARNING = ("off-policy", "discrete")


class SB3Adapter(Agent):
    """The base of the agents that Stable-Baselines3 trains.

    The class of the algorithm has the component's name. It is built by `model`, trained and saved by `learner`; both
    load torch, so only `build` imports them.

    A subclass says by class keywords what it takes: `config`, `tags` and `actions`, the kinds of action spaces.
    """

    rl_category = "sb3"
    rl_source = "stable-baselines3"
    #: The package that the algorithm is of.
    package: ClassVar[str] = "stable_baselines3"
    #: Kinds of action spaces that the algorithm can act in.
    action_spaces: ClassVar[tuple[str, ...]]
    #: Whether it reads the environment's `action_masks()`.
    masked: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        config: type[SB3Config] | None = None,
        tags: tuple[str, ...] = (),
        actions: tuple[str, ...] = (),
        **kwargs: object,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if config is not None:
            cls.Config, cls.rl_tags, cls.action_spaces = config, tags, actions  # type: ignore[assignment,misc]

    def schedules(self) -> tuple[str, ...]:
        """Its parameters that change over the whole of a training; exploration by shares of it is one."""
        shares = ("exploration_fraction",) if "exploration_fraction" in type(self.config).model_fields else ()
        return (*super().schedules(), *shares)

    @property
    def algorithm(self) -> tuple[str, str]:
        """Module and class of the algorithm."""
        return self.package, type(self).__name__

    def check_frames(self, frames: int | None) -> None:
        """Raises where its encoder needs more of them."""
        check_window(getattr(self.config, "encoder", None), frames)

    def build(self, request: AgentRequest) -> Learner:
        """The algorithm with its networks, for that environment."""
        from alphaswarm_rl.agents.sb3.learner import SB3Learner

        return SB3Learner(self, request)


def algorithms(base: type[SB3Adapter] = SB3Adapter) -> dict[str, type[SB3Adapter]]:
    """Every algorithm by its alias."""
    found: dict[str, type[SB3Adapter]] = {}
    for sub in base.__subclasses__():
        found |= {sub.rl_alias: sub} if "rl_alias" in sub.__dict__ else algorithms(sub)
    return found


class PPO(SB3Adapter, config=PPOConfig, tags=_ON_POLICY, actions=_ANY_ACTIONS):
    """Proximal Policy Optimization: clipped policy updates from fresh rollouts.

    `{class: SB3Adapter, kwargs: {algorithm: NAME, ...}}` is another spelling of the agent NAME.
    """

    rl_alias = "ppo"
    rl_short_names = ("SB3Adapter",)

    @classmethod
    def rl_expand(cls, name: str, kwargs: JsonMapping) -> tuple[str, JsonObject]:
        """The agent that the keyword `algorithm` names, with the other keywords."""
        known = algorithms()
        rest = dict(kwargs)
        requested = rest.pop("algorithm", None)
        if requested is None:
            raise ComponentError(
                f"agent {name!r}",
                "it does not say which algorithm",
                f"Add algorithm to its kwargs: {', '.join(sorted(known))}.",
            )
        names = {key.lower(): alias for alias, sub in known.items() for key in (alias, sub.__name__)}
        alias = names.get(str(requested).lower())
        if alias is None:
            raise ComponentError(
                f"algorithm {requested!r} of agent {name!r}", "there is none", nearest(str(requested), known)
            )
        return alias, rest


class A2C(SB3Adapter, config=A2CConfig, tags=_ON_POLICY, actions=_ANY_ACTIONS):
    """Advantage Actor Critic: one gradient step per short rollout."""

    rl_alias = "a2c"


class DQN(SB3Adapter, config=DQNConfig, tags=_Q_LEARNING, actions=("Discrete",)):
    """Deep Q-Network: a Q-function from a replay buffer, acted on greedily."""

    rl_alias = "dqn"


class SAC(SB3Adapter, config=SACConfig, tags=_OFF_POLICY, actions=_CONTINUOUS):
    """Soft Actor Critic: an actor of large entropy with two Q-functions."""

    rl_alias = "sac"


class TD3(SB3Adapter, config=TD3Config, tags=_OFF_POLICY, actions=_CONTINUOUS):
    """Twin Delayed DDPG: a deterministic actor, two Q-functions, a smoothed target."""

    rl_alias = "td3"


class DDPG(SB3Adapter, config=DDPGConfig, tags=_OFF_POLICY, actions=_CONTINUOUS):
    """Deep Deterministic Policy Gradient: a deterministic actor with one Q-function."""

    rl_alias = "ddpg"


class Contrib(SB3Adapter):
    """The base of the algorithms of the contrib package."""

    rl_source = "sb3-contrib"
    package = "sb3_contrib"


class RecurrentPPO(
    Contrib,
    config=RecurrentPPOConfig,
    tags=(*_ON_POLICY, "recurrent"),
    # Its authors list MultiBinary too, but their buffer keeps such actions as int8, and the update then fails.
    actions=("Box", "Discrete", "MultiDiscrete"),
):
    """PPO with an LSTM, which remembers within an episode."""

    rl_alias = "recurrent_ppo"


class TRPO(Contrib, config=TRPOConfig, tags=_ON_POLICY, actions=_ANY_ACTIONS):
    """Trust Region Policy Optimization: policy updates within a limit of KL divergence."""

    rl_alias = "trpo"


class QRDQN(Contrib, config=QRDQNConfig, tags=_Q_LEARNING, actions=("Discrete",)):
    """Quantile Regression DQN: the distribution of the return instead of its mean."""

    rl_alias = "qrdqn"


class MaskablePPO(
    Contrib,
    config=MaskablePPOConfig,
    tags=("on-policy", "discrete", "masked"),
    actions=("Discrete", "MultiDiscrete", "MultiBinary"),
):
    """PPO that never takes an action which the environment masks."""

    rl_alias = "maskable_ppo"
    masked = True


class TQC(Contrib, config=TQCConfig, tags=_OFF_POLICY, actions=_CONTINUOUS):
    """Truncated Quantile Critics: SAC with quantile Q-functions whose highest are dropped."""

    rl_alias = "tqc"


class ARS(
    Contrib, config=ARSConfig, tags=("on-policy", "search", "discrete", "continuous"), actions=("Box", "Discrete")
):
    """Augmented Random Search: the better of random directions, without a gradient."""

    rl_alias = "ars"

    @property
    def algorithm(self) -> tuple[str, str]:
        """Module and class of the algorithm, which is ours: it halts and resumes."""
        return "alphaswarm_rl.agents.sb3.ars", "ResumableARS"
