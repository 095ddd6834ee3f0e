"""The plain replay buffer as a component."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import ReplayBuffer

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import Replay, ReplayRequest


class GeneralReplayBuffer(ReplayBuffer):
    """The newest transitions, each as likely to be drawn as any other."""

    rl_alias = "general"
    rl_category = "uniform"

    class Config(ComponentConfig):
        """Parameters of the buffer."""

        capacity: int = Field(100_000, ge=1, description="Transitions it holds, over all environments.")

    def build(self, request: ReplayRequest) -> Replay:
        """The empty buffer."""
        from alphaswarm_rl.replay_buffers.uniform import UniformReplay

        return UniformReplay(request, self.config.capacity)
