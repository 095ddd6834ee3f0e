"""Generalised advantage estimation as a component."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.advantage.functions import gae, whitened
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Advantages, RolloutRewards
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.kinds import BaseAdvantageEstimator


class GAEAdvantage(BaseAdvantageEstimator):
    """Generalised advantage estimation: discounted errors of a critic, summed to the end of the episode.

    A truncated episode goes on in the critic's value of its last observation, a terminated one does not; see
    `alphaswarm_rl.advantage.functions.gae`.
    """

    rl_alias = "gae"
    rl_category = "critic"
    uses_values = True

    class Config(ComponentConfig):
        """Parameters of the estimator."""

        gamma: float = Field(0.99, ge=0, le=1, description="Discount of a reward one step later.")
        lam: float = Field(0.95, ge=0, le=1, description="Trade-off of bias and variance; 1 is no bias.")
        normalize: bool = Field(
            True, description="Whether the advantages of a rollout get mean 0 and standard deviation 1."
        )

    def compute(self, rollout: RolloutRewards) -> Advantages:
        """The advantages, and the returns that the critic should learn."""
        if rollout.values is None or rollout.next_values is None:
            raise ComponentError(
                "advantage_estimator 'gae'",
                "the rollout has no values",
                "Use an agent with a critic, or an estimator without one: grpo, reinforce_plus_plus.",
            )
        advantages, returns = gae(
            rollout.rewards,
            rollout.values,
            rollout.next_values,
            rollout.terminated,
            rollout.truncated,
            gamma=self.config.gamma,
            lam=self.config.lam,
            valid=rollout.valid,
        )
        if self.config.normalize:
            advantages = whitened(advantages, rollout.valid)
        return Advantages(advantages, returns=returns, baselines=rollout.values)
