"""CartPole, natively batched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import EnvComponent

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from alphaswarm_rl.core.contracts import EnvRequest


class CartPole(EnvComponent):
    """A pole to balance on a cart: CartPole-v1 of Gymnasium, step for step, natively batched and exactly resumable."""

    rl_alias = "cartpole"
    rl_category = "classic"
    rl_tags = ("discrete", "native", "exact-resume")

    class Config(ComponentConfig):
        """Parameters of CartPole."""

        max_episode_steps: int = Field(500, ge=1, description="Steps after which an episode is truncated.")

    def flat_observations(self) -> bool:
        """It shows one row of numbers."""
        return True

    def build(self, request: EnvRequest) -> VectorEnv[Any, Any, Any]:
        """The batched environment."""
        from alphaswarm_rl.envs.batched_cartpole import BatchedCartPole

        return BatchedCartPole(request, max_episode_steps=self.config.max_episode_steps)
