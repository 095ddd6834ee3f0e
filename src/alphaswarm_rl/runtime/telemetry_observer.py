"""What telemetry hears of a run. Its trouble is never the run's: it is told once, and the run goes on."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean
from uuid import UUID

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.inference.checkpoints import Checkpoint
from alphaswarm_rl.inference.scopes import env_id_of
from alphaswarm_rl.lake.tables import KINDS, identifier
from alphaswarm_rl.ledger import RunRow
from alphaswarm_rl.recording.episodes import Episode
from alphaswarm_rl.runtime import events
from alphaswarm_rl.runtime.events import Event
from alphaswarm_rl.runtime.observers import RunObserver, Watched
from alphaswarm_rl.runtime.traced_env import TracedEnv
from alphaswarm_rl.telemetry.metrics import (
    EPISODE_LENGTH,
    EPISODE_REWARD,
    EVALUATION_REWARD,
    FPS,
    HALTED,
    ROWS_COMMITTED,
)
from alphaswarm_rl.telemetry.session import Telemetry

#: Events as log records: that a run started is worth telling somebody who sees many.
_LEVELS = {"start": logging.INFO, **events.LEVELS}


class TelemetryObserver(RunObserver):
    """Tells telemetry of a run.

    Args:
        watched: The run.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        run, spec = watched.run, watched.spec
        self._target = run.target
        agent = "none" if spec.agent is None else spec.agent.name
        self._telemetry = Telemetry(
            watched.settings,
            # A run that is resumed goes on in its trace.
            trace_id=UUID(run.id).int,
            attributes={"run_id": run.id, "algorithm": agent, "env": env_id_of(spec)},
            quiet=(events.__name__,),
        )
        self._env: TracedEnv | None = None
        if self._telemetry.board is not None:
            self._telemetry.board.set(HALTED, 0, phase=self._target)
        if self._telemetry.traces is not None:
            self.trace_id = self._telemetry.traces.trace_id
            try:
                watched.ledger.update_run(run.id, trace_id=self.trace_id)
            except BaseException:
                self.close()
                raise

    def built(self, env: AnyVectorEnv, agent: str) -> None:
        """What of the variables could not be used is told in the run's row."""
        if self._telemetry.notices:
            ledger, run_id = self._watched.ledger, self._watched.run.id
            known = ledger.run(run_id).notices or []
            ledger.update_run(run_id, notices=[*known, *(new for new in self._telemetry.notices if new not in known)])

    def watch(self, env: AnyVectorEnv) -> AnyVectorEnv:
        """The environment as it is, unless every step counts."""
        settings = self._watched.settings
        reward = self._telemetry.board is not None and settings.metrics.granularity == "step"
        spans = self._telemetry.traces is not None and settings.traces.trace_steps
        if not (reward or spans):
            return env
        self._env = TracedEnv(env, self._telemetry, reward=reward, spans=spans, kept=self._kept)
        return self._env

    def event(self, event: Event) -> None:
        """Every event is a log record; some carry what is measured."""
        self._kept(lambda: self._log(event))
        self._kept(lambda: self._measure(event))

    def episodes(self, episodes: Sequence[Episode]) -> None:
        """Their means are measured, and each is a span."""
        self._kept(lambda: self._tell_of(episodes))

    def saved(self, checkpoint: Checkpoint) -> None:
        """What was recorded so far may be in its tables now."""
        self._kept(self._count_rows)

    def ended(self, run: RunRow) -> None:
        """The last figures, and the end of the run's span."""
        self._kept(self._count_rows)
        self._kept(lambda: self._end(run))

    def close(self) -> None:
        """Sends what is left; waits for it a short while at most."""
        self._kept(self._telemetry.close)

    def _log(self, event: Event) -> None:
        logs, level = self._telemetry.logs, _LEVELS.get(event.stage, logging.DEBUG)
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

    def _tell_of(self, episodes: Sequence[Episode]) -> None:
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
        board = self._telemetry.board
        if board is None:
            return
        settings = self._watched.settings.trajectory
        kinds = {identifier(kind, settings): kind for kind in KINDS}
        counts: Counter[str] = Counter()
        for ref in self._watched.ledger.refs(self._watched.run.id):
            counts[f"{ref.iceberg_namespace}.{ref.iceberg_table}"] += ref.row_count
        for table, kind in kinds.items():
            board.set(ROWS_COMMITTED, counts[table], phase=self._target, kind=kind)

    def _end(self, run: RunRow) -> None:
        if self._env is not None:
            self._env.end()
        if self._telemetry.traces is not None:
            self._telemetry.traces.end_run({"status": run.status, "timesteps": run.timesteps}, run.error)

    def _kept(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  (whatever it is, the run is worth more)
            self._telemetry.trouble.tell(f"{type(error).__name__}: {error}")
