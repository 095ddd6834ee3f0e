"""The policy that draws its actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alphaswarm_rl.core.kinds import Policy

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import PolicyRequest, PolicyRunner


class RandomPolicy(Policy):
    """Actions drawn uniformly from the action space, whatever is observed."""

    rl_alias = "random"
    rl_category = "baseline"
    rl_tags = ("baseline", "discrete", "continuous")

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy with a random stream of its own; an unbounded space is an error."""
        from alphaswarm_rl.policies.random_runner import RandomRunner

        return RandomRunner(request.action_space, request.seed)
