"""Playing episodes to evaluate a policy.

Environment i of n plays the episodes i, i + n, i + 2n ..., each a fixed number of them, so that short episodes are not
over-represented and the result does not depend on n.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.account_evidence import AccountEvidence
from alphaswarm_rl.core.contracts import AnyVectorEnv, HaltToken, Learner
from alphaswarm_rl.core.run_listener import Checkpoint, Evaluation
from alphaswarm_rl.core.types import Array, Batch, EvaluationPhase, JsonMapping
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.envs.trading_plan import TradingPlan
from alphaswarm_rl.recording.episodes import refuse_not_finite
from alphaswarm_rl.recording.steps import as_numpy
from alphaswarm_rl.runtime.account_history import AccountHistory, PlayedAccount, account_evidence
from alphaswarm_rl.runtime.action_variety import ActionVariety, updates_of
from alphaswarm_rl.spec.sections import TrainingSpec
from alphaswarm_rl.statistics.performance import episode_measures, mean_measures, undefined_reasons


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
    played, variety = _PlayedEpisodes(plan.episodes, env), ActionVariety(env.single_action_space)
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
        legal = None if masks is None else masks()
        variety.ask(learner, observation, memory, starts, legal)
        actions, memory = learner.predict(observation, memory, starts, deterministic=plan.deterministic, masks=legal)
        observation, rewards, terminated, truncated, infos = env.step(actions)
        refuse_not_finite(observation, rewards, step=step)
        step += 1
        starts = terminated | truncated
        played.add(rewards, starts, infos)
    repeats = tuple(played.repeats())
    accounts = [played.accounts[episode].measures for episode in sorted(played.accounts)]
    return Evaluation(
        returns=tuple(played.returns.tolist()),
        lengths=tuple(played.lengths.tolist()),
        in_sample=in_sample,
        measures=episode_measures(played.returns, played.lengths),
        account=mean_measures(accounts),
        undefined=undefined_reasons(accounts, played.lengths.tolist()) if accounts else {},
        curves=played.evidence(repeats),
        updates=updates_of(learner),
        actions_vary=variety.found,
        dates=dates,
        frames=tuple(frames),
        repeats=repeats,
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
        self.accounts: dict[int, PlayedAccount] = {}
        #: The episode that each environment plays.
        self.current = np.arange(n)
        self._running = np.zeros(n)
        self._steps = np.zeros(n, dtype=np.int64)
        self._first_observations: dict[int, bytes] = {}
        plan = getattr(env.unwrapped, "plan", None)
        self._plan = plan if isinstance(plan, TradingPlan) else None
        self._account_history = None if self._plan is None else AccountHistory(self._plan, env)

    def begin(self, starts: Array, observation: Batch) -> None:
        """Notes what is shown at the start of an episode."""
        for index in np.flatnonzero(starts):
            self._first_observations[int(self.current[index])] = _digest(observation, int(index))

    def add(self, rewards: Array, ended: Array, infos: JsonMapping) -> None:
        """Takes in one step of all environments."""
        if self._account_history is not None:
            self._account_history.add(infos, ended)
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

    def evidence(self, repeats: Sequence[bool]) -> AccountEvidence | None:
        """What accounts leave for gates, but for episodes that repeat an earlier one; None where there are none."""
        if self._plan is None:
            return None
        return account_evidence(
            self._plan, [self.accounts[episode] for episode, repeated in enumerate(repeats) if not repeated]
        )

    def repeats(self) -> Iterator[bool]:
        """For each episode whether it repeats an earlier one."""
        seen: set[tuple[bytes, float, int]] = set()
        for episode, total in enumerate(self.returns.tolist()):
            key = (self._first_observations[episode], total, int(self.lengths[episode]))
            yield key in seen
            seen.add(key)


def _digest(observation: Batch, index: int) -> bytes:
    """What one environment shows, to be compared."""
    if isinstance(observation, Mapping):
        return b"".join(_digest(observation[name], index) for name in sorted(observation))
    if isinstance(observation, tuple):
        return b"".join(_digest(part, index) for part in observation)
    content = np.ascontiguousarray(as_numpy(observation[index])).tobytes()
    return hashlib.blake2b(content, digest_size=16).digest()
