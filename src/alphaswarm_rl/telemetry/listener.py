"""The telemetry listener: events of a run become log records, figures become metrics, episodes and steps become spans.

Trouble of telemetry is never the run's: there is one warning, and the run goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from uuid import UUID

import numpy as np

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.run_listener import Checkpoint, Episode, Event, RunFacts, RunHandle, RunListener
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.telemetry.metrics import (
    EPISODE_LENGTH,
    EPISODE_REWARD,
    EVALUATION_REWARD,
    FPS,
    HALTED,
    ROWS_COMMITTED,
    STEP_REWARD,
    Board,
)
from alphaswarm_rl.telemetry.session import Telemetry
from alphaswarm_rl.telemetry.spans import OpenEpisode, Traces

#: Runs something; an error in it is telemetry's trouble and not the run's.
Attempt = Callable[[Callable[[], None]], None]


class TelemetryListener(RunListener):
    """Reports one run to telemetry.

    Args:
        run: The run.
        settings: What is exported, and where it goes.
        attributes: What everything that is exported carries beside the run's id: `algorithm`, `env`.
        levels: The log level of each stage of events; others are for debugging.
        quiet: Names of loggers whose records are not exported, because they come as events.
    """

    def __init__(
        self,
        run: RunHandle,
        settings: Settings,
        *,
        attributes: Mapping[str, str],
        levels: Mapping[str, int],
        quiet: Sequence[str],
    ) -> None:
        facts = run.facts()
        self._run = run
        self._settings = settings
        self._levels = levels
        self._target = facts.target
        self._telemetry = Telemetry(
            settings,
            # A run that is resumed goes on in its trace.
            trace_id=UUID(facts.id).int,
            attributes={"run_id": facts.id, **attributes},
            quiet=quiet,
        )
        self._steps: StepTelemetry | None = None
        if self._telemetry.board is not None:
            self._telemetry.board.set(HALTED, 0, phase=self._target)
        if self._telemetry.traces is not None:
            self.trace_id = self._telemetry.traces.trace_id
            try:
                run.update(trace_id=self.trace_id)
            except BaseException:
                self.close()
                raise

    def on_built(self, env: AnyVectorEnv) -> None:
        """Notes in the run's row which variables could not be used; hears every step where they are exported."""
        if self._telemetry.notices:
            self._run.add_notices(self._telemetry.notices)
        board = self._telemetry.board if self._settings.metrics.granularity == "step" else None
        traces = self._telemetry.traces if self._settings.traces.trace_steps else None
        if board is not None or traces is not None:
            self.step_listener = self._steps = StepTelemetry(env.num_envs, board, traces, self._attempt)

    def on_event(self, event: Event) -> None:
        """Every event is a log record; some carry figures."""
        self._attempt(lambda: self._log(event))
        self._attempt(lambda: self._measure(event))

    def on_episodes(self, episodes: Sequence[Episode]) -> None:
        """Their means are measured, and each is a span."""
        self._attempt(lambda: self._measure_episodes(episodes))

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        """What was recorded so far may be in its tables now."""
        self._attempt(self._count_rows)

    def on_end(self, run: RunFacts) -> None:
        """The last figures, and the end of the run's span."""
        self._attempt(self._count_rows)
        self._attempt(lambda: self._end(run))

    def close(self) -> None:
        """Sends what is left; waits for it a short while at most."""
        self._attempt(self._telemetry.close)

    def _log(self, event: Event) -> None:
        logs, level = self._telemetry.logs, self._levels.get(event.stage, logging.DEBUG)
        if logs is not None and level >= logs.level:
            body = f"run {event.run_id[:8]}: {event.stage}"
            facts = {**self._telemetry.attributes, "phase": self._target, "seq": event.seq, **event.payload}
            logs.emit(body, level, facts, name=event.stage, ns=int(event.ts.timestamp() * 1e9))

    def _measure(self, event: Event) -> None:
        board = self._telemetry.board
        if board is None:
            return
        payload = event.payload
        if event.stage == "train.step":
            board.set(FPS, payload["steps_per_second"], phase="train")
            board.learnt(payload["metrics"])
        elif event.stage == "eval.step":
            board.set(EVALUATION_REWARD, payload["mean_reward"], phase=payload["phase"])
        elif event.stage == "halted":
            board.set(HALTED, 1, phase=self._target)

    def _measure_episodes(self, episodes: Sequence[Episode]) -> None:
        board, traces = self._telemetry.board, self._telemetry.traces
        if board is not None:
            board.set(EPISODE_REWARD, fmean(episode.reward for episode in episodes), phase="train")
            board.set(EPISODE_LENGTH, fmean(episode.length for episode in episodes), phase="train")
        if traces is None or traces.settings.trace_steps or not traces.settings.trace_episodes:
            return
        for episode in episodes:
            facts = {
                "episode": episode.number,
                "env_idx": episode.env_idx,
                "reward": episode.reward,
                "length": episode.length,
            }
            traces.episode(episode.began_ns, episode.ended_ns, facts)

    def _count_rows(self) -> None:
        if self._telemetry.board is not None:
            for kind, count in self._run.recorded_rows().items():
                self._telemetry.board.set(ROWS_COMMITTED, count, phase=self._target, kind=kind)

    def _end(self, run: RunFacts) -> None:
        if self._steps is not None:
            self._steps.end_episodes()
        if self._telemetry.traces is not None:
            self._telemetry.traces.end_run({"status": run.status, "timesteps": run.timesteps}, run.error)

    def _attempt(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  (whatever it is, the run is worth more)
            self._telemetry.trouble.warn(f"{type(error).__name__}: {error}")


class StepTelemetry:
    """Hears every step of the training environments (see `core.run_listener.StepListener`).

    Each environment of the batch has an episode of its own, so that one step of the batch is one span for each.

    Args:
        num_envs: How many environments are stepped together.
        board: Where the reward of each step is measured; None: nowhere.
        traces: Where steps are spans; None: nowhere.
        attempt: Runs what may fail without failing the run.
    """

    def __init__(self, num_envs: int, board: Board | None, traces: Traces | None, attempt: Attempt) -> None:
        self._attempt = attempt
        self._board = board
        self._traces = traces
        self._episodes: list[OpenEpisode | None] = []
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, dtype=np.int64)

    def reset(self) -> None:
        """The episodes in progress end here."""
        self._attempt(self.end_episodes)

    def step(self, began_ns: int, ended_ns: int, rewards: Array, ended: Array) -> None:
        """All environments made one step."""
        self._attempt(lambda: self._step(began_ns, ended_ns, rewards.astype(np.float64), ended))

    def end_episodes(self) -> None:
        """Ends the spans of all episodes in progress."""
        now = time.time_ns()
        for index in range(len(self._episodes)):
            self._end_episode(index, now)
        self._episodes = []

    def _step(self, began_ns: int, ended_ns: int, rewards: Array, ended: Array) -> None:
        if self._board is not None:
            self._board.set(STEP_REWARD, float(rewards.mean()), phase="train")
        if self._traces is None:
            return
        if not self._episodes:  # after a reset, or where a resumed run goes on inside its episodes
            self._episodes = [self._begin_episode(index, began_ns) for index in range(len(self._returns))]
        self._returns += rewards
        self._lengths += 1
        for index, episode in enumerate(self._episodes):
            if episode is not None:
                episode.step(began_ns, ended_ns, {"step": int(self._lengths[index]), "reward": float(rewards[index])})
        for index in np.flatnonzero(ended).tolist():
            self._end_episode(index, ended_ns)
            self._episodes[index] = self._begin_episode(index, ended_ns)

    def _begin_episode(self, index: int, now: int) -> OpenEpisode | None:
        assert self._traces is not None
        return self._traces.begin_episode(now, {"env_idx": index})

    def _end_episode(self, index: int, now: int) -> None:
        if (episode := self._episodes[index]) is not None:
            episode.end(now, {"reward": float(self._returns[index]), "length": int(self._lengths[index])})
        self._returns[index] = 0
        self._lengths[index] = 0
