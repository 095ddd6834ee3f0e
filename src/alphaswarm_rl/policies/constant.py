"""The policy that always does the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import Policy

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import PolicyRequest, PolicyRunner


class ConstantPolicy(Policy):
    """One action, always."""

    rl_alias = "constant"
    rl_category = "baseline"
    rl_tags = ("baseline", "discrete", "continuous")

    class Config(ComponentConfig):
        """Parameters of the constant policy."""

        action: int | float | tuple[int | float, ...] | None = Field(
            None,
            description="The action: a number (for every entry of the action) or a list with one number per entry. "
            "Null is the middle of a Box, and the first action of a discrete space.",
        )

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy for that action space; an action outside it is an error."""
        from alphaswarm_rl.policies.constant_runner import ConstantRunner, constant_action

        return ConstantRunner(constant_action(self.config.action, request.action_space))
