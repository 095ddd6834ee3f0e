"""Playing episodes to evaluate a policy.

Environment i of n plays the episodes i, i + n, i + 2n ..., each a fixed number of them, so that short episodes are not
over-represented and the result does not depend on n.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.contracts import AnyVectorEnv, HaltToken, Learner
from alphaswarm_rl.core.run_listener import Checkpoint, Evaluation
from alphaswarm_rl.core.types import Array, Batch, EvaluationPhase, JsonMapping
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.envs.trading_plan import TradingPlan
from alphaswarm_rl.recording.episodes import refuse_not_finite
from alphaswarm_rl.recording.steps import as_numpy
from alphaswarm_rl.spec.sections import TrainingSpec
from alphaswarm_rl.statistics.performance import account_measures, episode_measures, mean_measures

#: What account statistics need of every step, by its name in `infos`.
_ACCOUNT_INFOS = ("portfolio_value", "turnover", "cost")


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """How a policy is evaluated.

    Attributes:
        phase: What the evaluation is part of.
        window: The dates that are played.
        episodes: How many episodes.
        deterministic: Whether the policy acts without drawing.
        render: Whether pictures are taken of the first episode.
        timesteps: Transitions that the policy has learnt from.
        checkpoint: The policy's checkpoint; None where it has none, or none yet.
        training: How the policy was trained; None: as the spec says.
        first_episode: The number of the first recorded episode.
    """

    phase: EvaluationPhase
    window: Window
    episodes: int
    deterministic: bool
    render: bool = False
    timesteps: int = 0
    checkpoint: Checkpoint | None = None
    training: TrainingSpec | None = None
    first_episode: int = 0


def evaluate_learner(
    learner: Learner,
    env: AnyVectorEnv,
    plan: EvaluationPlan,
    *,
    seed: int,
    in_sample: bool | None = None,
    dates: tuple[str | None, str | None] = (None, None),
    halt: HaltToken | None = None,
) -> Evaluation | None:
    """Plays the first `plan.episodes` episodes of an evaluation environment; None when it was halted.

    Args:
        learner: The policy.
        env: The environment, built for the plan's window.
        plan: How many episodes are played, and how.
        seed: What episodes and predictions are drawn from.
        in_sample: Whether training or validation saw these dates; the result says it.
        dates: The first and the last bar that is played; the result says them.
        halt: Asked before every step.
    """
    learner.seed_predictions(seed, env)
    observation, _ = env.reset(seed=seed)  # a seed restarts the numbering of episodes
    played = _PlayedEpisodes(plan.episodes, env)
    starts = np.ones(env.num_envs, dtype=bool)
    masks = getattr(env, "action_masks", None)
    memory: object = None
    frames: list[Array] = []
    step = 0
    while played.unfinished:
        if halt is not None and halt.should_halt():
            return None
        played.begin(starts, observation)
        if plan.render and played.current[0] == 0:
            frames.append(np.asarray(env.render()[0]))  # type: ignore[index]
        actions, memory = learner.predict(
            observation, memory, starts, deterministic=plan.deterministic, masks=None if masks is None else masks()
        )
        observation, rewards, terminated, truncated, infos = env.step(actions)
        refuse_not_finite(observation, rewards, step=step)
        step += 1
        starts = terminated | truncated
        played.add(rewards, starts, infos)
    return Evaluation(
        returns=tuple(played.returns.tolist()),
        lengths=tuple(played.lengths.tolist()),
        in_sample=in_sample,
        measures=episode_measures(played.returns, played.lengths),
        account=mean_measures([played.accounts[episode] for episode in sorted(played.accounts)]),
        dates=dates,
        frames=tuple(frames),
        repeats=tuple(played.repeats()),
    )


class _PlayedEpisodes:
    """Returns, lengths and account statistics of the first episodes, each by its key.

    Args:
        episodes: How many count; environments play on beyond them until all of these are over.
        env: The environments.
    """

    def __init__(self, episodes: int, env: AnyVectorEnv) -> None:
        n = env.num_envs
        self.unfinished = episodes
        self.returns = np.zeros(episodes)
        self.lengths = np.zeros(episodes, dtype=np.int64)
        self.accounts: dict[int, Mapping[str, float]] = {}
        #: The episode that each environment plays.
        self.current = np.arange(n)
        self._running = np.zeros(n)
        self._steps = np.zeros(n, dtype=np.int64)
        self._first_observations: dict[int, bytes] = {}
        plan = getattr(env.unwrapped, "plan", None)
        self._account_history = _AccountHistory(plan, n) if isinstance(plan, TradingPlan) else None

    def begin(self, starts: Array, observation: Batch) -> None:
        """Notes what is shown at the start of an episode."""
        for index in np.flatnonzero(starts):
            self._first_observations[int(self.current[index])] = _digest(observation, int(index))

    def add(self, rewards: Array, ended: Array, infos: JsonMapping) -> None:
        """Takes in one step of all environments."""
        if self._account_history is not None:
            self._account_history.add(infos)
        self._running += rewards
        self._steps += 1
        for index in np.flatnonzero(ended):
            episode = int(self.current[index])
            account = None if self._account_history is None else self._account_history.end_episode(int(index))
            if episode < len(self.returns):
                self.returns[episode], self.lengths[episode] = self._running[index], self._steps[index]
                self.unfinished -= 1
                if account is not None:
                    self.accounts[episode] = account
            self.current[index] += len(self.current)
        self._running[ended] = 0
        self._steps[ended] = 0

    def repeats(self) -> Iterator[bool]:
        """For each episode whether it repeats an earlier one."""
        seen: set[tuple[bytes, float, int]] = set()
        for episode, total in enumerate(self.returns.tolist()):
            key = (self._first_observations[episode], total, int(self.lengths[episode]))
            yield key in seen
            seen.add(key)


class _AccountHistory:
    """The steps of trading accounts, from which the performance of each episode is computed.

    Args:
        plan: What the environment is made of: its initial cash and the periods in a year.
        num_envs: How many are stepped together.
    """

    def __init__(self, plan: TradingPlan, num_envs: int) -> None:
        self._initial_cash = plan.initial_cash
        self._periods_per_year = plan.panel.periods_per_year
        self._steps: list[Array] = []
        self._first_step = np.zeros(num_envs, dtype=np.int64)

    def add(self, infos: JsonMapping) -> None:
        """Takes in one step of all environments."""
        self._steps.append(np.stack([infos[name] for name in _ACCOUNT_INFOS]))

    def end_episode(self, index: int) -> dict[str, float]:
        """The performance of one account in the episode that ends here; its next step begins another."""
        episode = self._steps[self._first_step[index] :]
        self._first_step[index] = len(self._steps)
        values, turnover, cost = np.stack([step[:, index] for step in episode], axis=1)
        curve = np.concatenate([[self._initial_cash], values])
        return account_measures(curve, turnover, cost, self._periods_per_year)


def _digest(observation: Batch, index: int) -> bytes:
    """What one environment shows, to be compared."""
    if isinstance(observation, Mapping):
        return b"".join(_digest(observation[name], index) for name in sorted(observation))
    if isinstance(observation, tuple):
        return b"".join(_digest(part, index) for part in observation)
    content = np.ascontiguousarray(as_numpy(observation[index])).tobytes()
    return hashlib.blake2b(content, digest_size=16).digest()
