"""Our own A2C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from alphaswarm_rl.agents.native_configs import NativeOnPolicyConfig
from alphaswarm_rl.core.kinds import Agent, BaseAdvantageEstimator

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AgentRequest, Learner


class A2cInhouse(Agent):
    """Advantage actor-critic of our own: one plain gradient step per short rollout, resumed bit for bit.

    It is PPO with one pass over one batch and nothing clipped, and shares all of its parts.
    """

    rl_alias = "a2c_inhouse"
    rl_category = "native"
    rl_tags = ("on-policy", "discrete", "continuous", "masked", "exact-resume")
    #: Kinds of action spaces that it can act in.
    action_spaces = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
    takes_advantage = True
    on_device = True

    class Config(NativeOnPolicyConfig):
        """Parameters of the agent."""

        n_steps: PositiveInt = Field(16, description="Steps per environment in one rollout.")
        learning_rate: PositiveFloat = Field(7e-4, description="Learning rate at the start.")
        ent_coef: NonNegativeFloat = Field(0.0, description="Weight of the entropy in the loss.")

    def check_advantage(self, estimator: BaseAdvantageEstimator) -> None:
        """Raises where a parameter would have no effect beside that estimator."""
        self.config.check_advantage(estimator)

    def build(self, request: AgentRequest) -> Learner:
        """The learner itself."""
        from alphaswarm_rl.agents.ppo_learner import build_a2c

        return build_a2c(self.rl_alias, self.config, request)
