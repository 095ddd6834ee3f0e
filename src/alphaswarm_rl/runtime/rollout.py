"""Rolling out a policy to judge it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import AnyVectorEnv, Learner
from alphaswarm_rl.core.halt import HaltToken
from alphaswarm_rl.recording.accounts import recorder_for
from alphaswarm_rl.recording.finite import refuse_not_finite

#: Metrics of trading that runs and evaluations have a column of their own for.
PORTFOLIO_COLUMNS = ("sharpe", "max_drawdown", "final_value", "total_return")


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found: one return and one length per episode, in the order of their keys.

    Attributes:
        returns: Sum of the rewards of each episode.
        lengths: Steps of each episode.
        in_sample: Whether it saw data of training or validation.
        dates: The first and the last bar that it traded, or the dates it was given; None where there are none.
        frames: Pictures of the first episode, where they were asked for.
        accounts: How the account did in each episode, where there is one.
        repeats: For each episode whether it is one that was played before: it began with the same observation and
            ended after as many steps with the same return. A rule that draws nothing plays a window again and again.
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    in_sample: bool | None
    dates: tuple[str | None, str | None] = (None, None)
    frames: tuple[np.ndarray[Any, Any], ...] = ()
    accounts: tuple[Mapping[str, float], ...] = ()
    repeats: tuple[bool, ...] = ()

    @property
    def distinct(self) -> tuple[float, ...]:
        """The returns of episodes that are none of those before: all that is evidence."""
        repeats = self.repeats or (False,) * len(self.returns)
        return tuple(value for value, again in zip(self.returns, repeats, strict=True) if not again)

    @property
    def metrics(self) -> dict[str, Any]:
        """The summary that rows, events and answers carry."""
        returns = np.array(self.returns)
        return {
            "episodes": len(self.returns),
            "distinct_episodes": len(self.distinct),
            "mean_reward": float(returns.mean()),
            "std_reward": float(returns.std()),
            "min_reward": float(returns.min()),
            "max_reward": float(returns.max()),
            "total_reward": float(returns.sum()),
            "mean_length": float(np.mean(self.lengths)),
            "in_sample": self.in_sample,
            "window_start": self.dates[0],
            "window_end": self.dates[1],
            **self._portfolio,
        }

    @property
    def _portfolio(self) -> dict[str, float]:
        """Means over the episodes."""
        names = self.accounts[0] if self.accounts else ()
        return {name: float(np.mean([account[name] for account in self.accounts])) for name in names}


def evaluate_learner(
    learner: Learner,
    env: AnyVectorEnv,
    *,
    episodes: int,
    deterministic: bool,
    in_sample: bool | None,
    seed: int,
    dates: tuple[str | None, str | None] = (None, None),
    halt: HaltToken | None = None,
    record_frames: bool = False,
) -> Evaluation | None:
    """Plays the first `episodes` episodes of an evaluation environment; None when it was halted.

    Environment i plays the episodes i, i + n, i + 2n ..., each a fixed number of them, so that short episodes are not
    over-represented and the result does not depend on n.
    """
    n = env.num_envs
    returns = np.zeros(episodes)
    unfinished = episodes
    lengths = np.zeros(episodes, dtype=np.int64)
    running, steps = np.zeros(n), np.zeros(n, dtype=np.int64)
    current = np.arange(n)  # the episode that each environment plays
    learner.seed_predictions(seed, env)
    observation, _ = env.reset(seed=seed)  # a seed restarts the numbering of episodes
    episode_start = np.ones(n, dtype=bool)
    beginnings: dict[int, bytes] = {}
    masks = getattr(env, "action_masks", None)
    memory: Any = None
    frames: list[np.ndarray[Any, Any]] = []
    recorder = recorder_for(env)
    accounts: dict[int, Mapping[str, float]] = {}
    played = 0
    while unfinished:
        if halt is not None and halt.should_halt():
            return None
        for index in np.flatnonzero(episode_start):
            beginnings[int(current[index])] = _bytes_of(observation, int(index))
        if record_frames and current[0] == 0:
            frames.append(np.asarray(env.render()[0]))  # type: ignore[index]
        actions, memory = learner.predict(
            observation, memory, episode_start, deterministic=deterministic, masks=None if masks is None else masks()
        )
        observation, rewards, terminated, truncated, infos = env.step(actions)
        refuse_not_finite(observation, rewards, step=played)
        if recorder is not None:
            recorder.record(infos)
        played += 1
        running += rewards
        steps += 1
        episode_start = terminated | truncated
        for index in np.flatnonzero(episode_start):
            episode = int(current[index])
            account = None if recorder is None else recorder.end_episode(int(index))
            if episode < episodes:
                returns[episode], lengths[episode] = running[index], steps[index]
                unfinished -= 1
                if account is not None:
                    accounts[episode] = account
            current[index] += n
        running[episode_start] = 0
        steps[episode_start] = 0
    return Evaluation(
        tuple(returns.tolist()),
        tuple(lengths.tolist()),
        in_sample,
        dates,
        tuple(frames),
        tuple(accounts[episode] for episode in sorted(accounts)),
        tuple(_repeats([(beginnings[e], float(returns[e]), int(lengths[e])) for e in range(episodes)])),
    )


def _repeats(played: Sequence[tuple[bytes, float, int]]) -> Iterator[bool]:
    seen: set[tuple[bytes, float, int]] = set()
    for one in played:
        yield one in seen
        seen.add(one)


def _bytes_of(observation: Any, index: int) -> bytes:
    """What one environment shows, to be compared."""
    if isinstance(observation, Mapping):
        return b"".join(_bytes_of(observation[name], index) for name in sorted(observation))
    if isinstance(observation, tuple):
        return b"".join(_bytes_of(part, index) for part in observation)
    one = observation[index]
    array = one.detach().cpu().numpy() if hasattr(one, "detach") else np.asarray(one)
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()
