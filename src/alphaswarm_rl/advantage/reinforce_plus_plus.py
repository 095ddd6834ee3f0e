"""REINFORCE++ advantages as a component."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.advantage.cohorts import LonelyCohorts
from alphaswarm_rl.advantage.episodes import episode_samples
from alphaswarm_rl.advantage.functions import globally_normalized, reinforce_plus_plus
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Advantages, RolloutRewards
from alphaswarm_rl.core.kinds import BaseAdvantageEstimator


class ReinforcePlusPlusAdvantage(LonelyCohorts, BaseAdvantageEstimator):
    """An episode's reward less the mean of its cohort, scaled over the whole rollout; there is no critic.

    Every step of an episode has the episode's advantage. The mean is taken off cohort by cohort, the scale is one for
    all steps: cohorts of larger spread keep larger advantages. A cohort of one gives 0 before the normalisation.
    """

    rl_alias = "reinforce_plus_plus"
    rl_category = "cohort"
    uses_values = False

    class Config(ComponentConfig):
        """Parameters of the estimator."""

        minus_baseline: bool = Field(True, description="Whether the mean reward of the cohort is taken off.")
        global_normalization: bool = Field(
            True, description="Whether the advantages of a rollout get mean 0 and standard deviation 1."
        )
        leave_one_out: bool = Field(
            True, description="Whether the mean is that of the others in the cohort; without minus_baseline it is none."
        )

    def compute(self, rollout: RolloutRewards) -> Advantages:
        """The advantages; the baselines are the means of the cohorts."""
        samples = episode_samples(rollout)
        advantages, cohort = reinforce_plus_plus(
            samples.rewards,
            samples.groups,
            samples.valid,
            minus_baseline=self.config.minus_baseline,
            leave_one_out=self.config.leave_one_out,
        )
        spread = samples.spread(advantages)
        if self.config.global_normalization:
            spread = globally_normalized(spread, rollout.valid)
        extras = {"episodes": len(samples.rewards)}
        if cohort is None:
            return Advantages(spread, extras=extras)
        self.warn_of(cohort)
        return Advantages(spread, baselines=samples.spread(cohort.baseline), extras=extras)
