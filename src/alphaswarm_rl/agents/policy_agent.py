"""The agent that runs a policy as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import Agent
from alphaswarm_rl.core.refs import ref_to

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AgentRequest, Learner


class PolicyAgent(Agent):
    """A fixed policy as an agent: it acts, counts steps, and learns nothing.

    A policy's own name stands for it: `{class: equal_weight}` as an agent is this one with that policy.
    """

    rl_alias = "policy"
    rl_category = "baseline"
    rl_tags = ("baseline", "discrete", "continuous")
    trains = False

    class Config(ComponentConfig):
        """Parameters of the agent."""

        policy: ref_to("policy") = Field(description="The policy to run.")  # type: ignore[valid-type]

    def warmup_bars(self) -> int:
        """The warm-up bars of its policy."""
        return int(self.config.policy.build().warmup_bars())

    def looks_at_market(self) -> bool:
        """Whether its policy looks at the market."""
        return bool(self.config.policy.build().looks_at_market)

    def build(self, request: AgentRequest) -> Learner:
        """The policy with its counters."""
        from alphaswarm_rl.agents.policy_learner import PolicyLearner

        return PolicyLearner(self.config.policy.build(), request)
