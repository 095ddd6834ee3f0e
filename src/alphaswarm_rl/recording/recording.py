"""What a run records: its trajectory store, the thread that fills it, and its phases."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from gymnasium import Space, spaces

from alphaswarm_rl.core.contracts import AnyVectorEnv, OpenStore, StoreRequest
from alphaswarm_rl.envs.passing import WatchedEnv
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.recording.accounting import account_to
from alphaswarm_rl.recording.episodes import EpisodeTracker
from alphaswarm_rl.recording.numbering import ALL, Numbering, Sampling
from alphaswarm_rl.recording.recorded_rows import RowKey
from alphaswarm_rl.recording.recorder import PhaseRecorder, Writer, block_size
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.trajectory_stores.iceberg import IcebergTrajectoryStore
from alphaswarm_rl.trajectory_stores.memory import InMemoryTrajectoryStore

if TYPE_CHECKING:
    from alphaswarm_rl.recording.device_tracker import DeviceTracker

_log = logging.getLogger(__name__)


class Recording:
    """The recording of one run; without a store it records nothing.

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
        self._train = _wanted(settings, run.device)

    @classmethod
    def open(cls, spec: RLExperimentSpec, settings: Settings, ledger: Ledger, run: RunRow) -> Self:
        """The recording that spec and settings ask for."""
        recording = cls(_open_store(spec, settings, ledger, run), run, settings, ledger)
        ledger.update_run(run.id, recording=recording.report())
        return recording

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            if error is not None and not self._finished:
                self._rescue(error)
        finally:
            if self._writer is not None:
                self._writer.stop()
            if self.store is not None:
                self.store.close()

    def train(self, tracker: EpisodeTracker | DeviceTracker, observation: Any = None) -> AnyVectorEnv:
        """The training environment, recorded.

        Args:
            tracker: The environment; its counters say which episodes and steps come next.
            observation: What it shows now, where a run goes on inside its episodes.
        """
        record = self._settings.record
        if self.store is None or self._train == "off":
            return tracker
        assert isinstance(tracker, EpisodeTracker)  # else nothing is recorded
        vector_steps = tracker.transitions // tracker.num_envs
        numbering = Numbering(
            tracker.numbers,
            tracker.lengths,
            stride=1,
            sampling=Sampling.of(self._train, record.max_rows),
            vector_steps=vector_steps,
        )
        self._training = self._phase("train", tracker, numbering, first=vector_steps, holds=True)
        self._training.go_on(observation)
        return RecordedEnv(tracker, self._training)

    def judge(
        self, env: AnyVectorEnv, phase: str, *, episodes: int, timesteps: int, first_episode: int = 0
    ) -> AnyVectorEnv:
        """An environment of a judgement, recorded: its first `episodes` episodes.

        Args:
            env: The environment.
            phase: What the rows are of.
            episodes: How many are played; what environments do beyond them is not part of the judgement.
            timesteps: What the agent had been trained for.
            first_episode: The number of the first; the episodes of later validations follow those of earlier ones.
        """
        if self.store is None:
            return env
        n = env.num_envs
        begun = first_episode + np.arange(n)
        numbering = Numbering(begun, np.zeros(n, np.int64), stride=n, sampling=ALL, vector_steps=0)
        recorder = self._phase(phase, env, numbering, timesteps=timesteps, episodes=first_episode + episodes)
        return RecordedEnv(env, recorder)

    def decided(self, values: Any, log_probs: Any) -> None:
        """What the agent thought of the last training step."""
        if self._training is not None:
            self._training.decided(values, log_probs)

    def release(self) -> None:
        """The agent has learnt from all steps so far: they count."""
        if self._training is not None:
            self._training.release()

    def abandon(self) -> None:
        """The agent forgot the steps since the last release."""
        if self._training is not None:
            self._training.abandon()

    def checkpoint(self) -> None:
        """Everything recorded so far is on disk, and can be told from what comes later."""
        if self._writer is not None and self.store is not None:
            self.release()
            self._flush()
            self._writer.submit(self.store.close_segments)
            self._writer.submit(self.store.deliver)
            self._writer.wait()
            # What the row says must be true of a run that is killed next.
            self._ledger.update_run(self._run.id, recording=self.report())

    def drop_after(self, timesteps: int) -> None:
        """Forgets what an interrupted run recorded after its checkpoint, and judgements that it did not finish."""
        if self.store is not None:
            judged = {(row.phase, row.timesteps) for row in self._ledger.evaluations(self._run.id)}
            self.store.drop_after(timesteps, judged)

    def finish(self, *, compact: bool) -> dict[str, Any]:
        """Brings all rows where they belong; gives the report that the run's row keeps.

        Args:
            compact: Whether small files are merged: not where the run may be resumed, which drops whole files.
        """
        if self._writer is not None and self.store is not None:
            self.release()
            self._flush()
            self._writer.wait()
            self.store.finish(compact=compact)
        self._finished = True
        return self._told()

    def report(self) -> dict[str, Any]:
        """What is recorded and how, for the run's row."""
        record, store = self._settings.record, self.store
        if store is None:
            return {"store": None}
        sampling = ALL if self._train == "off" else Sampling.of(self._train, record.max_rows)
        sampled = sampling.first < self._run.total_timesteps
        return {
            **store.report(),
            "train": self._train,
            # One in how many, and from which transition on; a training that is shorter is there in full.
            "sampled_from": sampling.first if sampled else None,
            "rate": 0.0 if self._train == "off" else 1 / sampling.every if sampled else 1.0,
            "observations": record.observations,
            "waited_s": round(self._writer.waited, 3) if self._writer is not None else 0.0,
        }

    def _told(self) -> dict[str, Any]:
        report = self.report()
        notices = []
        if report.get("undelivered"):
            notices.append(
                f"{report['undelivered']} segments of steps are not in their tables: {report['problem']} "
                f"They are kept; deliver them with: rl lake commit {self._run.id}"
            )
        known = self._ledger.run(self._run.id).notices or []
        self._ledger.update_run(self._run.id, recording=report, notices=[*known, *notices])
        return report

    def _rescue(self, error: BaseException) -> None:
        """A run that fails keeps its last steps too, as far as they can be kept."""
        if self._writer is None or self.store is None:
            return
        try:
            self.release()
            self._flush()
            self._writer.wait()
            self.store.finish(compact=False)
            self._told()
        except Exception as another:  # noqa: BLE001  (the first failure is the one to be told)
            if another is not error:
                _log.warning("run %s: its last steps are not recorded: %s", self._run.id, another)

    def _flush(self) -> None:
        for phase in self._phases:
            phase.flush()

    def _phase(self, phase: str, env: AnyVectorEnv, numbering: Numbering, **more: Any) -> PhaseRecorder:
        assert self._writer is not None
        assert self.store is not None
        settings = self._settings
        recorder = PhaseRecorder(
            self._writer,
            self.store,
            RowKey(self._run.id, self._run.spec_hash, phase),
            numbering,
            num_envs=env.num_envs,
            block=block_size(
                env.num_envs,
                _bytes(env.single_observation_space),
                flush_rows=settings.trajectory.flush_rows,
                memory_mb=settings.record.memory_mb,
            ),
            observations=settings.record.observations,
            **more,
        )
        self._flush()  # the judgement before this one is over
        self._phases = [its for its in self._phases if its is self._training]
        self._phases.append(recorder)
        return recorder


class RecordedEnv(WatchedEnv):
    """Passes everything through, and tells the recorder of every step.

    Args:
        env: Any batched environment with SAME_STEP autoreset.
        recorder: Who is told.
    """

    def __init__(self, env: AnyVectorEnv, recorder: PhaseRecorder) -> None:
        super().__init__(env)
        self.recorder = recorder

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts every environment; the episodes in progress end here."""
        observation, infos = self.env.reset(seed=seed, options=options)
        self.recorder.begin(observation)
        return observation, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of all environments."""
        result = self.env.step(actions)
        self.recorder.step(actions, *result)
        return result


def records_training(spec: RLExperimentSpec, settings: Settings, device: str) -> bool:
    """Whether training steps of such a run are recorded."""
    return spec.trajectory_store.enabled and _wanted(settings, device) != "off"


def _wanted(settings: Settings, device: str) -> str:
    # On a GPU the loop would wait for every step to come over to this side.
    return settings.record.train or ("off" if device.startswith("cuda") else "all")


def _open_store(spec: RLExperimentSpec, settings: Settings, ledger: Ledger, run: RunRow) -> OpenStore | None:
    wanted = spec.trajectory_store
    if not wanted.enabled:
        return None
    request = StoreRequest(run.id, settings, account_to(ledger), ledger.pinned_data)
    if not settings.trajectory.persist:
        return InMemoryTrajectoryStore().build(request)
    if wanted.spec is not None:
        store: OpenStore = wanted.spec.build().build(request)
        return store
    return IcebergTrajectoryStore().build(request)


def _bytes(space: Space[Any]) -> int:
    if isinstance(space, spaces.Dict):
        return sum(map(_bytes, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return sum(map(_bytes, space.spaces))
    return int(np.prod(space.shape or (1,))) * np.dtype(space.dtype or np.float64).itemsize
