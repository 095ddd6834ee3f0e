"""Group relative advantages as a component."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.advantage.cohorts import LonelyCohorts
from alphaswarm_rl.advantage.episodes import episode_samples
from alphaswarm_rl.advantage.functions import grpo
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Advantages, RolloutRewards
from alphaswarm_rl.core.kinds import BaseAdvantageEstimator


class GRPOAdvantage(LonelyCohorts, BaseAdvantageEstimator):
    """An episode's reward less the mean of its cohort, over the cohort's standard deviation; there is no critic.

    Every step of an episode has the episode's advantage, steps that do not count as well: the loss leaves them out.
    An episode that a rollout cuts is judged by its steps inside. A cohort of one gives 0, and of two (left one out)
    the plain difference.
    """

    rl_alias = "grpo"
    rl_category = "cohort"
    uses_values = False

    class Config(ComponentConfig):
        """Parameters of the estimator."""

        leave_one_out: bool = Field(True, description="Whether an episode is compared with the others of its cohort.")
        normalize: bool = Field(True, description="Whether the difference is divided by the standard deviation.")

    def compute(self, rollout: RolloutRewards) -> Advantages:
        """The advantages; baselines and standard deviations are those of the cohorts."""
        samples = episode_samples(rollout)
        advantages, cohort = grpo(
            samples.rewards,
            samples.groups,
            samples.valid,
            leave_one_out=self.config.leave_one_out,
            normalize=self.config.normalize,
        )
        self.warn_of(cohort)
        return Advantages(
            samples.spread(advantages),
            baselines=samples.spread(cohort.baseline),
            std=samples.spread(cohort.std) if self.config.normalize else None,
            extras={"episodes": len(samples.rewards)},
        )
