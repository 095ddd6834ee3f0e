"""Episode statistics where the environment is on a device: sums there, looked at once per rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.base import WatchedEnv


@dataclass(frozen=True)
class EpisodeSums:
    """Episodes that finished.

    Attributes:
        count: How many.
        total_reward: The sum of their returns.
        total_length: The sum of their lengths.
    """

    count: int
    total_reward: float
    total_length: float


class DeviceEpisodes(WatchedEnv):
    """Passes everything through and sums up returns and lengths of episodes, without waiting for the device.

    Args:
        env: The environment to watch.
    """

    def __init__(self, env: AnyVectorEnv) -> None:
        super().__init__(env)
        self.device: torch.device = env.device  # type: ignore[attr-defined]
        #: Returns and lengths of the episodes in progress.
        self._running = torch.zeros((2, self.num_envs), dtype=torch.float64, device=self.device)
        self._sums = torch.zeros(3, dtype=torch.float64, device=self.device)

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts every environment; unfinished episodes are forgotten."""
        self._running.zero_()
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Tensor, **storage: Tensor) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of all environments; `storage` is the caller's, as the environment takes it."""
        result = self.env.step(actions, **storage)
        _, rewards, terminated, truncated, _ = result
        ended = terminated | truncated
        self._running[0] += rewards
        self._running[1] += 1
        # By choice and not by product: what is not finite must not spread to other episodes.
        done = torch.where(ended, self._running, 0.0)
        self._sums[0] += ended.sum()
        self._sums[1:] += done.sum(1)
        self._running = torch.where(ended, 0.0, self._running)
        return result

    def sums(self) -> EpisodeSums:
        """What finished since the last call; the host waits for the device here."""
        count, returns, lengths = self._sums.tolist()
        self._sums.zero_()
        return EpisodeSums(int(count), returns, lengths)

    def running_returns(self) -> Tensor:
        """Returns so far of the episodes in progress."""
        return self._running[0]

    def running_lengths(self) -> Tensor:
        """Lengths so far of the episodes in progress."""
        return self._running[1]
