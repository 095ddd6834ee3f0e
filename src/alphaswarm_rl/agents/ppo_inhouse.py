"""Our own PPO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from alphaswarm_rl.agents.native_configs import NativeOnPolicyConfig
from alphaswarm_rl.core.kinds import Agent, BaseAdvantageEstimator

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AgentRequest, Learner


class PpoInhouse(Agent):
    """Proximal policy optimisation of our own: batched, resumed bit for bit, several times as fast as the usual one.

    Observations and rewards are standardised by running statistics, truncated episodes are bootstrapped from what they
    showed last, and any advantage estimator of the catalogue can be named in `training.advantage`.
    """

    rl_alias = "ppo_inhouse"
    rl_category = "native"
    rl_tags = ("on-policy", "discrete", "continuous", "masked", "exact-resume")
    #: Kinds of action spaces that it can act in.
    action_spaces = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
    takes_advantage = True
    on_device = True

    class Config(NativeOnPolicyConfig):
        """Parameters of the agent."""

        n_steps: PositiveInt = Field(256, description="Steps per environment in one rollout.")
        batch_size: PositiveInt = Field(64, description="Transitions per gradient step.")
        n_epochs: PositiveInt = Field(10, description="Passes over each rollout.")
        clip_range: PositiveFloat = Field(0.2, description="Largest change of the probability ratio.")
        clip_schedule: Literal["constant", "linear"] = Field(
            "constant", description="Whether the clip range stays, or falls in a line to 0 at the end of training."
        )
        clip_range_vf: PositiveFloat | None = Field(None, description="Largest change of the value; null is no limit.")
        target_kl: PositiveFloat | None = Field(
            None, description="An update stops early beyond 1.5 times this; null is never."
        )
        ent_coef: NonNegativeFloat = Field(0.0, description="Weight of the entropy in the loss.")

    def check_advantage(self, estimator: BaseAdvantageEstimator) -> None:
        """Raises where a parameter would have no effect beside that estimator."""
        self.config.check_advantage(estimator)

    def build(self, request: AgentRequest) -> Learner:
        """The learner itself."""
        from alphaswarm_rl.agents.ppo_learner import build_ppo

        return build_ppo(self.rl_alias, self.config, request)
