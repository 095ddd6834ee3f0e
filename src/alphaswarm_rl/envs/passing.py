"""An environment seen through somebody who watches it."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import VectorEnv

from alphaswarm_rl.core.contracts import AnyVectorEnv


class WatchedEnv(VectorEnv[Any, Any, Any]):
    """Passes everything through; whoever watches overrides `reset` and `step`.

    Args:
        env: The environment to watch.
    """

    def __init__(self, env: AnyVectorEnv) -> None:
        self.env = env
        self.num_envs = env.num_envs
        self.metadata = env.metadata
        self.render_mode = env.render_mode
        self.spec = env.spec
        self.single_observation_space = env.single_observation_space
        self.single_action_space = env.single_action_space
        self.observation_space = env.observation_space
        self.action_space = env.action_space

    @property
    def unwrapped(self) -> AnyVectorEnv:
        """The environment inside all wrappers."""
        return self.env.unwrapped

    def render(self) -> Any:
        """The pictures of the environment inside."""
        return self.env.render()

    def close(self, **kwargs: Any) -> None:
        """Closes the environment."""
        self.env.close(**kwargs)

    def __getattr__(self, name: str) -> Any:
        # Whatever else an environment offers (action_masks, get_state's inner parts) stays reachable.
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)
