"""Episode statistics: our own, because Gymnasium's vector wrapper miscounts in SAME_STEP mode."""

from __future__ import annotations

import math
import time

import numpy as np

from alphaswarm_rl.core.contracts import AnyVectorEnv, State
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.run_listener import Episode
from alphaswarm_rl.core.types import Array, Batch, JsonObject
from alphaswarm_rl.envs.base import WatchedEnv


class EpisodeTracker(WatchedEnv):
    """Passes everything through and keeps count of episodes and transitions.

    Args:
        env: The environment to watch.
    """

    def __init__(self, env: AnyVectorEnv) -> None:
        super().__init__(env)
        self.transitions = self.finished = 0
        self._returns = np.zeros(self.num_envs)
        #: The current episode of each environment, and how many steps of it were made.
        self.numbers = np.zeros(self.num_envs, dtype=np.int64)
        self.lengths = np.zeros(self.num_envs, dtype=np.int64)
        self._episodes: list[Episode] = []
        self._recent: list[float] = []
        self._began = [time.time_ns()] * self.num_envs
        self.mark()

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Batch, JsonObject]:
        """Starts every environment; unfinished episodes are forgotten."""
        self._returns[:] = 0
        self.numbers[self.lengths > 0] += 1
        self.lengths[:] = 0
        self._began = [time.time_ns()] * self.num_envs
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Batch) -> tuple[Batch, Batch, Batch, Batch, JsonObject]:
        """One step of all environments."""
        result = self.env.step(actions)
        observation, rewards, terminated, truncated, infos = result
        refuse_not_finite(observation, rewards, step=self.transitions // self.num_envs)
        self._returns += rewards
        self.lengths += 1
        self.transitions += self.num_envs
        ended = terminated | truncated
        if ended.any():
            values = infos.get("portfolio_value")
            now = time.time_ns()
            for index in np.flatnonzero(ended):
                reward, length = float(self._returns[index]), int(self.lengths[index])
                value = None if values is None else float(values[index])
                times = self._began[index], now
                self._episodes.append(
                    Episode(self.finished, int(index), self.transitions, reward, length, value, *times)
                )
                self._began[index] = now
                self._recent.append(reward)
                self.finished += 1
            del self._recent[:-100]
            self._returns[ended] = 0
            self.numbers[ended] += 1
            self.lengths[ended] = 0
        return result

    def take(self) -> list[Episode]:
        """The episodes that finished since the last call."""
        episodes, self._episodes = self._episodes, []
        return episodes

    @property
    def mean_reward(self) -> float | None:
        """Mean return of the last 100 episodes; None before the first has finished."""
        return float(np.mean(self._recent)) if self._recent else None

    def mark(self) -> None:
        """Sets the mark here: `return_to_mark` forgets only what comes after it."""
        self._marked = self.get_state(), len(self._episodes)

    def return_to_mark(self) -> None:
        """Forgets what came since the mark; the environments themselves stay where they are."""
        state, episodes = self._marked
        self.set_state(state, episodes_go_on=True)
        del self._episodes[episodes:]

    def get_state(self) -> State:
        """Counters and running sums."""
        return State(
            {
                "returns": self._returns.copy(),
                "numbers": self.numbers.copy(),
                "lengths": self.lengths.copy(),
                "recent": np.array(self._recent),
            },
            {"transitions": self.transitions, "finished": self.finished},
        )

    def set_state(self, state: State, *, episodes_go_on: bool) -> None:
        """Continues the counting; running sums only where the environment itself continues its episodes."""
        self.transitions = state.data["transitions"]
        self.finished = state.data["finished"]
        self._recent = state.arrays["recent"].tolist()
        # Checkpoints of version 0.1 have no numbers: theirs begin anew.
        self.numbers[:] = state.arrays.get("numbers", 0)
        if episodes_go_on:
            self._returns[:] = state.arrays["returns"]
            self.lengths[:] = state.arrays["lengths"]
        else:
            self.numbers[state.arrays["lengths"] > 0] += 1
        self.mark()


def refuse_not_finite(observation: Batch, rewards: Array, *, step: int) -> None:
    """Refuses observations and rewards that hold NaN or infinity: a policy that learns from them learns nothing.

    Args:
        observation: A batch of observations; a mapping for a Dict space.
        rewards: A batch of rewards.
        step: The vector step that gave them, for the message.
    """
    if not _is_finite(rewards):
        _refuse("reward", int(np.flatnonzero(~np.isfinite(rewards))[0]), step)
    parts = observation.values() if isinstance(observation, dict) else (observation,)
    for part in parts:
        if part.dtype.kind == "f" and not _is_finite(part):
            bad = ~np.isfinite(part).reshape(len(part), -1).all(axis=1)
            _refuse("observation", int(np.flatnonzero(bad)[0]), step)


def _is_finite(array: Array) -> bool:
    # A sum is four times as fast as a look at each value, and finite for all but huge ones; those are looked at.
    return math.isfinite(array.sum(dtype=np.float64)) or bool(np.isfinite(array).all())


def _refuse(what: str, index: int, step: int) -> None:
    raise EnvError(
        f"the environment's {what}",
        f"environment {index} gave NaN or infinity at vector step {step}",
        "Mend the environment, or its data.",
    )
