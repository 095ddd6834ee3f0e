"""The warning of estimators that compare episodes, where there is nobody to compare with."""

from __future__ import annotations

import logging
from typing import ClassVar

from alphaswarm_rl.advantage.groups import GroupStatistics

_log = logging.getLogger(__name__)


class LonelyCohorts:
    """Warns once where no cohort has two members, so that every advantage is 0 and nothing is learnt."""

    rl_alias: ClassVar[str]
    _warned = False

    def warn_of(self, cohort: GroupStatistics) -> None:
        """Looks at the cohorts of a rollout, until it has warned."""
        if not self._warned and not bool((cohort.count > 1).any()):
            self._warned = True
            _log.warning(
                "advantage_estimator %r: no cohort has two episodes, so that every advantage is 0. "
                "Raise training.n_envs or the steps of a rollout.",
                self.rl_alias,
            )
