"""The replay buffers as components: their parameters. What they build is in the modules beside this one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import ReplayBuffer
from alphaswarm_rl.core.refs import ComponentRef, ref_to

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import BuiltReplayBuffer, ReplayBufferRequest

    BufferRef = ComponentRef
else:
    BufferRef = ref_to("replay_buffer", bare=True)

_GENERAL: Any = {"class": "general"}


class GeneralReplayBuffer(ReplayBuffer):
    """The newest transitions, each as likely to be drawn as any other."""

    rl_alias = "general"
    rl_category = "uniform"

    class Config(ComponentConfig):
        """Parameters of the buffer."""

        capacity: int = Field(100_000, ge=1, description="Transitions it holds, over all environments.")

    def build(self, request: ReplayBufferRequest) -> BuiltReplayBuffer:
        """The empty buffer."""
        from alphaswarm_rl.replay_buffers.uniform import UniformBuffer

        return UniformBuffer(request, self.config.capacity)


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

    def build(self, request: ReplayBufferRequest) -> BuiltReplayBuffer:
        """The empty buffer."""
        from alphaswarm_rl.replay_buffers.priority import PriorityBuffer

        return PriorityBuffer(request, self.config)


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
        storage: BufferRef = Field(_GENERAL, description="The buffer that keeps and draws them, such as prioritized.")

        @field_validator("storage")
        @classmethod
        def _is_plain(cls, storage: ComponentRef) -> ComponentRef:
            if storage.name == NStepInfoReplayBuffer.rl_alias:
                raise ValueError("a buffer of several steps cannot be kept by another one")
            return storage

    def build(self, request: ReplayBufferRequest) -> BuiltReplayBuffer:
        """The empty buffer."""
        from alphaswarm_rl.replay_buffers.nstep import NStepBuffer, NStepWindows

        windows = NStepWindows(request.fields, request.num_envs, self.config.n_steps, self.config.gamma)
        storage = self.config.storage.build().build(replace(request, fields=windows.fields))
        return NStepBuffer(windows, storage)
