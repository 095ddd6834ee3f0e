"""Replay of several steps at once as a component."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import ReplayBuffer
from alphaswarm_rl.core.refs import ComponentRef, ref_to

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import Replay, ReplayRequest

    ReplayRef = ComponentRef
else:
    ReplayRef = ref_to("replay_buffer")

_GENERAL: Any = {"class": "general"}


class NStepInfoReplayBuffer(ReplayBuffer):
    """Transitions over several steps: discounted rewards in between, and what came at the last step.

    A window never goes beyond its episode: there it is closed and shorter. More fields than those of a
    plain transition, such as `info` and `next_info`, are kept in their own types. `discount` is gamma to the power of
    the window's length.
    """

    rl_alias = "nstep_info"
    rl_category = "nstep"

    class Config(ComponentConfig):
        """Parameters of the buffer."""

        n_steps: int = Field(10, ge=1, le=1000, description="Steps of one transition, fewer at an episode's end.")
        gamma: float = Field(0.99, ge=0, le=1, description="Discount of a reward one step later.")
        storage: ReplayRef = Field(_GENERAL, description="The buffer that keeps and draws them, such as prioritized.")

        @field_validator("storage")
        @classmethod
        def _is_plain(cls, storage: ComponentRef) -> ComponentRef:
            if storage.name == NStepInfoReplayBuffer.rl_alias:
                raise ValueError("a buffer of several steps cannot be kept by another one")
            return storage

    def build(self, request: ReplayRequest) -> Replay:
        """The empty buffer."""
        from alphaswarm_rl.replay_buffers.nstep import NStepReplay
        from alphaswarm_rl.replay_buffers.windows import NStepWindows

        windows = NStepWindows(request.fields, request.num_envs, self.config.n_steps, self.config.gamma)
        storage = self.config.storage.build().build(replace(request, fields=windows.fields))
        return NStepReplay(windows, storage, request.num_envs)
