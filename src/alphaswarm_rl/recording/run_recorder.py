"""Recording of one run: its environments are wrapped, and every step that they make becomes rows of the six tables.

A run has phases (`train`, then any number of evaluations), and each has a `PhaseRecorder` with a numbering of its
episodes. A step of n environments is one entry of each column of a block; a block is S such steps, arrays (n, S, ...).
Full blocks go to the one writer thread of the run, which makes rows of them and hands these to the trajectory store:

    env.step -> RecordedEnv -> PhaseRecorder: block (n, S, ...) -> Writer -> rows of six tables -> store: segments

Training steps are held back until the learner has learnt from them (`release`); those that it drops, because a halt cut
its rollout short, are forgotten (`abandon`). At a checkpoint everything released is on disk, so that a run which is
killed and resumed drops exactly the rows after its checkpoint (`drop_after`) and makes them again.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core.claims import StaleClaim
from alphaswarm_rl.core.contracts import AnyVectorEnv, OpenStore, StoreRequest
from alphaswarm_rl.core.types import AnySpace, Batch, JsonObject
from alphaswarm_rl.envs.base import WatchedEnv
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.market.trades import TradedNames, TradeTables
from alphaswarm_rl.recording.episodes import EpisodeTracker
from alphaswarm_rl.recording.numbering import ALL, Numbering, Sampling
from alphaswarm_rl.recording.phase_recorder import PhasePlan, PhaseRecorder, Writer, block_size
from alphaswarm_rl.recording.rows import RowKey, TradesPlan
from alphaswarm_rl.recording.table_refs import refs_writer, refuse_removed
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.trajectory_stores.components import IcebergTrajectoryStore, InMemoryTrajectoryStore

if TYPE_CHECKING:
    from alphaswarm_rl.recording.device_tracker import DeviceTracker

_log = logging.getLogger(__name__)

#: What the run's row says its numbers are about.
_NAMES = tuple(field.name for field in fields(TradedNames))
#: Memory that the log of one asset's trades in one step takes, and what is made of it.
_LOGGED_BYTES = 256


@runtime_checkable
class LogsTrades(Protocol):
    """An environment on the decision step: it can say what its steps trade."""

    @property
    def traded_names(self) -> TradedNames:
        """What its numbers are about."""

    def log_trades(self) -> TradeTables:
        """Logs trades from now on."""


class RunRecorder:
    """Records one run; without a store it records nothing.

    Args:
        store: Where rows go.
        run: The run.
        settings: How much is recorded.
        ledger: Where the run's row is.
    """

    def __init__(self, store: OpenStore | None, run: RunRow, settings: Settings, ledger: Ledger) -> None:
        self.store = store
        self._run = run
        self._settings = settings
        self._ledger = ledger
        self._writer = None if store is None else Writer(f"recorder of run {run.id}")
        self._training: PhaseRecorder | None = None
        self._phases: list[PhaseRecorder] = []
        self._finished = False
        # A run that goes on is recorded as it began, so that a phase has positions of all its steps or of none.
        self._positions = run.recording.get("positions", "none") if run.resumed else settings.record.positions
        self._names: JsonObject = {name: run.recording[name] for name in _NAMES if name in run.recording}
        self._train_mode = _train_mode(settings, run.device)
        self._sampling = ALL if self._train_mode == "off" else Sampling.of(self._train_mode, settings.record.max_rows)

    @classmethod
    def open(cls, spec: RLExperimentSpec, settings: Settings, ledger: Ledger, run: RunRow) -> Self:
        """The recorder that spec and settings ask for."""
        recorder = cls(_open_store(spec, settings, ledger, run), run, settings, ledger)
        ledger.update_run(run.id, recording=recorder.report())
        return recorder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            if error is not None and not self._finished and not isinstance(error, StaleClaim):
                self._rescue(error)
        finally:
            if self._writer is not None:
                self._writer.stop()
            if self.store is not None:
                self.store.close()

    def record_training(self, tracker: EpisodeTracker | DeviceTracker, observation: Batch = None) -> AnyVectorEnv:
        """The training environment, recorded.

        Args:
            tracker: The environment; its counters say which episodes and steps come next.
            observation: What it shows now, where a run continues inside its episodes.
        """
        if self.store is None or self._train_mode == "off":
            return tracker
        assert isinstance(tracker, EpisodeTracker)  # else nothing is recorded
        vector_steps = tracker.transitions // tracker.num_envs
        numbering = Numbering(
            tracker.numbers, tracker.lengths, stride=1, sampling=self._sampling, vector_steps=vector_steps
        )
        trades = self._trades_of(tracker, judged=False)
        key = self._plan_of("train", tracker, trades)
        plan = PhasePlan(*key, first_step=vector_steps, holds=True, trades=trades)
        self._training = self._open_phase(numbering, plan)
        self._training.resume(observation)
        return RecordedEnv(tracker, self._training)

    def record_evaluation(
        self, env: AnyVectorEnv, phase: str, *, episodes: int, timesteps: int, first_episode: int = 0
    ) -> AnyVectorEnv:
        """An environment of an evaluation, recorded: its first `episodes` episodes.

        Args:
            env: The environment.
            phase: The phase of the rows.
            episodes: How many are played; what environments do beyond them is not part of the evaluation.
            timesteps: Transitions that the policy has learnt from.
            first_episode: The number of the first; the episodes of later validations follow those of earlier ones.
        """
        if self.store is None:
            return env
        n = env.num_envs
        begun = first_episode + np.arange(n)
        numbering = Numbering(begun, np.zeros(n, np.int64), stride=n, sampling=ALL, vector_steps=0)
        trades = self._trades_of(env, judged=True)
        limit = first_episode + episodes
        plan = PhasePlan(*self._plan_of(phase, env, trades), timesteps=timesteps, episode_limit=limit, trades=trades)
        return RecordedEnv(env, self._open_phase(numbering, plan))

    def decided(self, values: Batch, log_probs: Batch) -> None:
        """Takes in the agent's value estimates and log-probabilities of the last training step."""
        if self._training is not None:
            self._training.decided(values, log_probs)

    def release(self) -> None:
        """The agent has learnt from all steps so far: they count."""
        if self._training is not None:
            self._training.release()

    def abandon(self) -> None:
        """The agent dropped the steps since the last release."""
        if self._training is not None:
            self._training.abandon()

    def checkpoint(self) -> None:
        """Brings everything recorded so far to disk, apart from what comes later."""
        if self._writer is not None and self.store is not None:
            self.release()
            self._flush()
            self._writer.submit(self.store.close_segments)
            self._writer.submit(self.store.deliver)
            self._writer.wait()

    def refuse_split(self, timesteps: int) -> None:
        """Refuses to go back to a checkpoint where a file has steps from both before and after it."""
        _refuse_split(self.store, timesteps)

    def drop_after(self, timesteps: int) -> None:
        """Deletes what an interrupted run recorded after its checkpoint, and evaluations that it did not finish."""
        if self.store is not None:
            evaluated = {(row.phase, row.timesteps) for row in self._ledger.evaluations(self._run.id)}
            self.store.drop_after(timesteps, evaluated)

    def finish(self, *, compact: bool) -> None:
        """Brings all rows where they belong, and the report into the run's row.

        Args:
            compact: Whether small files are merged: not where the run may be resumed, which drops whole files.
        """
        if self._writer is not None and self.store is not None:
            self.release()
            self._flush()
            self._writer.wait()
            self.store.finish(compact=compact)
        self._finished = True
        report = self.report()
        notices = self._ledger.run(self._run.id).notices or []
        if report.get("undelivered"):
            notices = [
                *notices,
                f"{report['undelivered']} segments of steps are not in their tables: {report['problem']} "
                f"They are kept; deliver them with: rl lake commit {self._run.id}",
            ]
        self._ledger.update_run(self._run.id, recording=report, notices=notices)

    def report(self) -> JsonObject:
        """What is recorded and how, for the run's row."""
        if self.store is None:
            return {"store": None}
        sampled = self._sampling.first < self._run.total_timesteps
        return {
            **self.store.report(),
            "train": self._train_mode,
            # One in how many, and from which transition on; a shorter training is recorded in full.
            "sampled_from": self._sampling.first if sampled else None,
            "rate": 0.0 if self._train_mode == "off" else 1 / self._sampling.every if sampled else 1.0,
            "observations": self._settings.record.observations,
            "positions": self._positions,
            **self._names,
            "waited_s": round(self._writer.waited, 3) if self._writer is not None else 0.0,
        }

    def _rescue(self, error: BaseException) -> None:
        """Keeps the last steps of a run that fails, as far as they can be kept."""
        if self._writer is None or self.store is None:
            return
        try:
            self.finish(compact=False)
        except Exception as another:  # noqa: BLE001  (the first failure is the one that is raised)
            if another is not error:
                _log.warning("run %s: its last steps are not recorded: %s", self._run.id, another)

    def _flush(self) -> None:
        for phase in self._phases:
            phase.flush()

    def _trades_of(self, env: AnyVectorEnv, *, judged: bool) -> TradesPlan | None:
        """How the trades of an environment are recorded; None for those that are not on the decision step."""
        inner = env.unwrapped
        if not isinstance(inner, LogsTrades):
            return None
        self._keep_names(inner.traded_names)
        if not judged and self._positions != "all":
            return None
        return TradesPlan(inner.log_trades(), positions=self._positions != "none")

    def _keep_names(self, names: TradedNames) -> None:
        """Brings into the run's row what the numbers of its steps are about."""
        found = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(names).items()}
        if found != self._names:
            self._names = found
            self._ledger.update_run(self._run.id, recording=self.report())

    def _plan_of(self, phase: str, env: AnyVectorEnv, trades: TradesPlan | None) -> tuple[RowKey, int, int, bool]:
        """The key, the environments, the steps of a block, and whether observations are written."""
        record = self._settings.record
        block_steps = block_size(
            env.num_envs,
            _observation_bytes(env.single_observation_space),
            flush_rows=self._settings.trajectory.flush_rows,
            memory_mb=record.memory_mb,
            trade_bytes=0 if trades is None else _LOGGED_BYTES * len(trades.tables.names.assets),
        )
        key = RowKey(self._run.id, self._run.spec_hash, phase)
        return key, env.num_envs, block_steps, record.observations

    def _open_phase(self, numbering: Numbering, plan: PhasePlan) -> PhaseRecorder:
        assert self._writer is not None
        assert self.store is not None
        recorder = PhaseRecorder(self._writer, self.store, numbering, plan)
        self._flush()  # the evaluation before this one is over
        self._phases = [phase for phase in self._phases if phase is self._training]
        self._phases.append(recorder)
        return recorder


class RecordedEnv(WatchedEnv):
    """Passes everything through, and records every step.

    Args:
        env: Any batched environment with SAME_STEP autoreset.
        recorder: Where steps go.
    """

    def __init__(self, env: AnyVectorEnv, recorder: PhaseRecorder) -> None:
        super().__init__(env)
        self.recorder = recorder

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Batch, JsonObject]:
        """Starts every environment; the episodes in progress end here."""
        observation, infos = self.env.reset(seed=seed, options=options)
        self.recorder.reset(observation)
        return observation, infos

    def step(self, actions: Batch) -> tuple[Batch, Batch, Batch, Batch, JsonObject]:
        """One step of all environments."""
        result = self.env.step(actions)
        self.recorder.step(actions, *result)
        return result


def records_training(spec: RLExperimentSpec, settings: Settings, device: str) -> bool:
    """Whether training steps of such a run are recorded."""
    return spec.trajectory_store.enabled and _train_mode(settings, device) != "off"


def _train_mode(settings: Settings, device: str) -> str:
    """`all`, `sample:N` or `off`: which training episodes are recorded."""
    # On a GPU the loop would wait for every step to come to the host.
    return settings.record.train or ("off" if device.startswith("cuda") else "all")


def refuse_split(spec: RLExperimentSpec, settings: Settings, ledger: Ledger, run: RunRow, timesteps: int) -> None:
    """Refuses the same before anybody claims the run: it stays as it is.

    Args:
        spec: The run's spec.
        settings: Where its steps are.
        ledger: Where its row is.
        run: The run.
        timesteps: Transitions at the checkpoint.
    """
    store = _open_store(spec, settings, ledger, run)
    if store is not None:
        with closing(store):
            _refuse_split(store, timesteps)


def _refuse_split(store: OpenStore | None, timesteps: int) -> None:
    # Imported here: stores are imported when one is opened.
    from alphaswarm_rl.trajectory_stores.segmented import SegmentedStore

    if isinstance(store, SegmentedStore):
        store.refuse_split(timesteps)


def _open_store(spec: RLExperimentSpec, settings: Settings, ledger: Ledger, run: RunRow) -> OpenStore | None:
    requested = spec.trajectory_store
    if not requested.enabled:
        return None
    request = StoreRequest(
        run.id, settings, refs_writer(ledger), ledger.pinned_data, run.claim.number, refuse_removed(ledger)
    )
    if not settings.trajectory.persist:
        return InMemoryTrajectoryStore().build(request)
    if requested.spec is not None:
        store: OpenStore = requested.spec.build().build(request)
        return store
    return IcebergTrajectoryStore().build(request)


def _observation_bytes(space: AnySpace) -> int:
    if isinstance(space, spaces.Dict):
        return sum(map(_observation_bytes, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return sum(map(_observation_bytes, space.spaces))
    return int(np.prod(space.shape or (1,))) * np.dtype(space.dtype or np.float64).itemsize
