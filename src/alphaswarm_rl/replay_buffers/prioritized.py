"""Prioritised replay as a component."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import ReplayBuffer

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import Replay, ReplayRequest


class PrioritizedReplayBuffer(ReplayBuffer):
    """The newest transitions, drawn the more often, the more wrong the learner was about them.

    Transition i is drawn with chance P(i) = p(i) / sum of p, where p = (|error| + epsilon)^alpha, and counts with
    weight (N P(i))^-beta over the largest such weight in the sample. New transitions have the largest priority so far.
    Schaul et al., "Prioritized experience replay" (2015).
    """

    rl_alias = "prioritized"
    rl_category = "prioritized"

    class Config(ComponentConfig):
        """Parameters of the buffer."""

        capacity: int = Field(100_000, ge=1, description="Transitions it holds, over all environments.")
        alpha: float = Field(0.6, ge=0, le=1, description="How much priorities matter; 0: all are equally likely.")
        beta: float = Field(0.4, ge=0, le=1, description="How much of the bias the weights take back at first.")
        beta_increment: float = Field(
            0.001, ge=0, le=1, description="By how much that grows with every sample, up to all of it."
        )
        epsilon: float = Field(1e-6, ge=0, description="Added to every error, so that none is never drawn again.")
        smallest_error: float = Field(1e-6, gt=0, description="Smaller errors count as this.")
        largest_error: float = Field(10.0, gt=0, description="Larger errors count as this.")

        @model_validator(mode="after")
        def _errors_have_room(self) -> PrioritizedReplayBuffer.Config:
            if not self.smallest_error < self.largest_error:
                raise ValueError("smallest_error must lie below largest_error")
            return self

    def build(self, request: ReplayRequest) -> Replay:
        """The empty buffer."""
        from alphaswarm_rl.replay_buffers.by_priority import PriorityReplay

        return PriorityReplay(request, self.config)
