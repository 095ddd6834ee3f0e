"""The advantage estimators as components: one with a critic (GAE), two that compare episodes of a cohort."""

from __future__ import annotations

import logging

from pydantic import Field

from alphaswarm_rl.advantage.functions import (
    GroupStatistics,
    episode_samples,
    gae,
    globally_normalized,
    group_statistics,
    grpo,
    whitened,
)
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import Advantages, RolloutRewards
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.kinds import BaseAdvantageEstimator

_log = logging.getLogger(__name__)


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


class _CohortEstimator(BaseAdvantageEstimator):
    """The base of estimators that compare episodes instead of asking a critic."""

    rl_category = "cohort"
    uses_values = False
    _warned = False

    def warn_of(self, cohort: GroupStatistics) -> None:
        """Warns once where no cohort has two members, so that every advantage is 0 and nothing is learnt."""
        if not self._warned and not bool((cohort.count > 1).any()):
            self._warned = True
            _log.warning(
                "advantage_estimator %r: no cohort has two episodes, so that every advantage is 0. "
                "Raise training.n_envs or the steps of a rollout.",
                self.rl_alias,
            )


class GRPOAdvantage(_CohortEstimator):
    """An episode's reward less the mean of its cohort, over the cohort's standard deviation; there is no critic.

    Every step of an episode has the episode's advantage, steps that do not count as well: the loss leaves them out.
    An episode that a rollout cuts is judged by its steps inside. A cohort of one gives 0, and of two (left one out)
    the plain difference.
    """

    rl_alias = "grpo"

    class Config(ComponentConfig):
        """Parameters of the estimator."""

        leave_one_out: bool = Field(True, description="Whether an episode is compared with the others of its cohort.")
        normalize: bool = Field(True, description="Whether the difference is divided by the standard deviation.")

    def compute(self, rollout: RolloutRewards) -> Advantages:
        """The advantages; baselines and standard deviations are those of the cohorts."""
        c, samples = self.config, episode_samples(rollout)
        advantages, cohort = grpo(*samples.judged, leave_one_out=c.leave_one_out, normalize=c.normalize)
        self.warn_of(cohort)
        return Advantages(
            samples.spread(advantages),
            baselines=samples.spread(cohort.baseline),
            std=samples.spread(cohort.std) if self.config.normalize else None,
            extras={"episodes": len(samples.rewards)},
        )


class ReinforcePlusPlusAdvantage(_CohortEstimator):
    """An episode's reward less the mean of its cohort, scaled over the whole rollout; there is no critic.

    Every step of an episode has the episode's advantage. The mean is taken off cohort by cohort, the scale is one for
    all steps: cohorts of larger spread keep larger advantages. A cohort of one gives 0 before the normalisation.
    """

    rl_alias = "reinforce_plus_plus"

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
        c, samples = self.config, episode_samples(rollout)
        advantages, baselines = samples.rewards, None
        if c.minus_baseline:
            cohort = group_statistics(*samples.judged, leave_one_out=c.leave_one_out)
            advantages, baselines = samples.rewards - cohort.baseline, samples.spread(cohort.baseline)
            self.warn_of(cohort)
        spread = samples.spread(advantages)
        if c.global_normalization:
            spread = globally_normalized(spread, rollout.valid)
        return Advantages(spread, baselines=baselines, extras={"episodes": len(samples.rewards)})
