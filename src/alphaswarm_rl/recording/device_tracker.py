"""Episode statistics of a training whose environment is on a device."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor

from alphaswarm_rl.core.contracts import AnyVectorEnv, State
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.run_listener import Episode
from alphaswarm_rl.core.types import Batch, JsonObject
from alphaswarm_rl.envs.device_episodes import DeviceEpisodes


class DeviceTracker(DeviceEpisodes):
    """The twin of `EpisodeTracker`: it counts transitions as they come, and episodes once per rollout.

    Args:
        env: The environment to watch.
    """

    def __init__(self, env: AnyVectorEnv) -> None:
        super().__init__(env)
        self.transitions = self.finished = 0
        self.mean_reward: float | None = None
        self._episodes: list[Episode] = []
        self._counted_at = time.time_ns()

    def step(self, actions: Batch, **storage: Tensor) -> tuple[Batch, Batch, Batch, Batch, JsonObject]:
        """One step of all environments."""
        result = super().step(actions, **storage)
        self.transitions += self.num_envs
        return result

    def mark(self) -> None:
        """Counts everything so far for good.

        That is, the episodes that finished since the last call; the host waits for the device here alone.
        """
        sums, now = self.sums(), time.time_ns()
        if not np.isfinite([sums.total_reward, float(self.running_returns().sum())]).all():
            raise EnvError(
                "the environment's reward",
                f"it gave NaN or infinity before transition {self.transitions}",
                "Mend the environment, or its data.",
            )
        if sums.count:
            self.mean_reward = sums.total_reward / sums.count
            length = round(sums.total_length / sums.count)
            # As one: on a device many thousand end in a rollout.
            self._episodes.append(
                Episode(
                    self.finished,
                    0,
                    self.transitions,
                    self.mean_reward,
                    length,
                    began_ns=self._counted_at,
                    ended_ns=now,
                    count=sums.count,
                )
            )
            self.finished += sums.count
        self._counted_at = now

    def take(self) -> list[Episode]:
        """The episodes that finished since the last call, those of a rollout as one."""
        self.mark()
        episodes, self._episodes = self._episodes, []
        return episodes

    def get_state(self) -> State:
        """Counters and running sums."""
        arrays = {
            "returns": self.running_returns().cpu().numpy().copy(),
            "lengths": self.running_lengths().cpu().numpy().copy(),
            "mean_reward": np.array([] if self.mean_reward is None else [self.mean_reward]),
        }
        return State(arrays, {"transitions": self.transitions, "finished": self.finished})

    def set_state(self, state: State, *, episodes_go_on: bool) -> None:
        """Continues the counting; running sums only where the environment itself continues its episodes."""
        self.transitions = state.data["transitions"]
        self.finished = state.data["finished"]
        self.mean_reward = next(iter(state.arrays["mean_reward"].tolist()), None)
        if episodes_go_on:
            self.running_returns().copy_(torch.from_numpy(np.array(state.arrays["returns"])))
            self.running_lengths().copy_(torch.from_numpy(np.array(state.arrays["lengths"])))
