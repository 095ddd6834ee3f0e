"""The training environment, seen step by step by telemetry."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.envs.passing import WatchedEnv
from alphaswarm_rl.telemetry.metrics import STEP_REWARD
from alphaswarm_rl.telemetry.session import Telemetry


class TracedEnv(WatchedEnv):
    """Passes everything through; a step becomes a value on the board, spans, or both.

    Each environment of the batch has its own episode, so that one step of the batch is one span for each of them.

    Args:
        env: The environment to watch.
        telemetry: Who is told.
        reward: Whether the reward of each step is measured.
        spans: Whether steps are spans.
        kept: Runs what may fail without failing the run.
    """

    def __init__(
        self,
        env: AnyVectorEnv,
        telemetry: Telemetry,
        *,
        reward: bool,
        spans: bool,
        kept: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(env)
        self._board = telemetry.board if reward else None
        self._traces = telemetry.traces if spans else None
        self._kept = kept
        self._episodes: list[Any] = []
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts every environment; the episodes in progress end here."""
        result = self.env.reset(seed=seed, options=options)
        self._kept(self.end)
        return result

    def step(self, actions: Any, **storage: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of all environments; `storage` is that of a caller whose environment is on a device."""
        began = time.time_ns()
        result = self.env.step(actions, **storage)
        ended = time.time_ns()
        self._kept(lambda: self._tell(began, ended, *result[1:4]))
        return result

    def end(self) -> None:
        """The episodes in progress end here."""
        now = time.time_ns()
        for index in range(len(self._episodes)):
            self._end(index, now)
        self._episodes = []

    def _tell(self, began: int, ended: int, rewards: Any, terminated: Any, truncated: Any) -> None:
        rewards, terminated, truncated = (np.asarray(_here(each)) for each in (rewards, terminated, truncated))
        rewards = rewards.astype(np.float64)
        if self._board is not None:
            self._board.set(STEP_REWARD, float(rewards.mean()), phase="train")
        if self._traces is None:
            return
        if not self._episodes:  # after a reset, or where a run goes on inside its episodes
            self._episodes = [self._begin(index, began) for index in range(self.num_envs)]
        self._returns += rewards
        self._lengths += 1
        for index, episode in enumerate(self._episodes):
            if episode is not None:
                episode.step(began, ended, {"step": int(self._lengths[index]), "reward": float(rewards[index])})
        for index in np.flatnonzero(np.asarray(terminated) | np.asarray(truncated)).tolist():
            self._end(index, ended)
            self._episodes[index] = self._begin(index, ended)

    def _begin(self, index: int, now: int) -> Any:
        assert self._traces is not None
        return self._traces.begin_episode(now, {"env_idx": index})

    def _end(self, index: int, now: int) -> None:
        if (episode := self._episodes[index]) is not None:
            episode.end(now, {"reward": float(self._returns[index]), "length": int(self._lengths[index])})
        self._returns[index] = 0
        self._lengths[index] = 0


def _here(array: Any) -> Any:
    return array.cpu() if hasattr(array, "cpu") else array
