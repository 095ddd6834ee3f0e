"""The training loop's other half: what happens at a boundary, and at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphaswarm_rl.core.contracts import AnyVectorEnv, Learner, State
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.tracing import span
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.building import Builder, is_stateful, load_preprocessing, preprocessing_state
from alphaswarm_rl.inference.checkpoints import Checkpoint, CheckpointStore, LoadedCheckpoint
from alphaswarm_rl.ledger import EvaluationPhase, Ledger
from alphaswarm_rl.recording.episodes import Episode, EpisodeTracker
from alphaswarm_rl.recording.recording import Recording
from alphaswarm_rl.runtime.events import EventBus
from alphaswarm_rl.runtime.halting import HaltWatcher
from alphaswarm_rl.runtime.observers import Judged, RunObserver
from alphaswarm_rl.runtime.progress import ProgressBar
from alphaswarm_rl.runtime.rollout import PORTFOLIO_COLUMNS, Evaluation, evaluate_learner
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    from alphaswarm_rl.recording.device_tracker import DeviceTracker

#: What counts as a rollout for agents that update step by step.
_OFF_POLICY_LOG_UNIT = 1000


class TrainingSession:
    """One training run in progress; the hooks a learner calls.

    Args:
        builder: Builds environments of the run.
        learner: The agent.
        env: The training environment, watched.
        run_id: The run's row.
        ledger: Where rows go.
        bus: Where events go.
        store: Where checkpoints go.
        watcher: The halt flag.
        settings: How often to save, how much to keep.
        progress: The bar, if anybody looks.
        recording: Where steps go.
        observers: Who else is told.
    """

    def __init__(
        self,
        *,
        builder: Builder,
        learner: Learner,
        env: EpisodeTracker | DeviceTracker,
        run_id: str,
        ledger: Ledger,
        bus: EventBus,
        store: CheckpointStore,
        watcher: HaltWatcher,
        settings: Settings,
        progress: ProgressBar | None,
        recording: Recording,
        observers: RunObserver,
    ) -> None:
        self.builder = builder
        self.spec = builder.spec
        self.learner = learner
        self.env = env
        self.run_id = run_id
        self.ledger = ledger
        self.bus = bus
        self.store = store
        self.watcher = watcher
        self.settings = settings
        self.progress = progress
        self.recording = recording
        self.observers = observers
        self.decided = recording.decided
        self.checkpoint: Checkpoint | None = None
        self.best: Checkpoint | None = None
        self.best_reward: float | None = None
        training = self.spec.training
        self._log_every = training.log_interval * (learner.rollout_transitions or _OFF_POLICY_LOG_UNIT)
        self._save_every = settings.store.checkpoint_freq
        self._evaluate_every = (
            (training.eval_freq or max(1, training.total_timesteps // 10)) if training.eval_during_training else None
        )
        self._validation_env: AnyVectorEnv | None = None
        self._validated_at: int | None = None
        self._metrics: dict[str, float] = {}
        self._episodes_from = 0
        self._start_counting()

    def _start_counting(self) -> None:
        done = self.learner.timesteps
        self._next_log = _next_multiple(done, self._log_every)
        self._next_save = _next_multiple(done, self._save_every)
        self._next_evaluation = None if self._evaluate_every is None else _next_multiple(done, self._evaluate_every)
        self._logged_at, self._logged_steps = time.perf_counter(), done
        self._episodes_from = done

    def should_halt(self) -> bool:
        """Asked by the learner on every vector step."""
        if self.progress is not None:
            self.progress.update(self.env.transitions, self.env.mean_reward)
        return self.watcher.should_halt()

    def boundary(self, metrics: Mapping[str, float]) -> None:
        """The learner's state is whole: log, save and evaluate what is due."""
        self.recording.release()
        self._metrics.update(metrics)
        done = self.learner.timesteps
        self.observers.boundary(done, metrics)
        if done >= self._next_log:
            self.log()
            self._next_log = _next_multiple(done, self._log_every)
        if self._next_evaluation is not None and done >= self._next_evaluation and not self.watcher.reason:
            self.validate()
            self._next_evaluation = _next_multiple(done, self._evaluate_every or 1)
        if done >= self._next_save:
            self.save()
            self.announce(self.checkpoint)
            self._next_save = _next_multiple(done, self._save_every)
        self.env.mark()

    def log(self) -> None:
        """One train.step event, and the rows that were waiting for it."""
        done, now = self.learner.timesteps, time.perf_counter()
        rate = (done - self._logged_steps) / max(now - self._logged_at, 1e-9)
        self._logged_at, self._logged_steps = now, done
        self.flush_episodes()
        self.ledger.update_run(self.run_id, timesteps=done, halt_checks=self.watcher.checks)
        self.bus.emit(
            "train.step",
            timesteps=done,
            episodes=self.env.finished,
            mean_reward=self.env.mean_reward,
            steps_per_second=round(rate, 1),
            # JSON has no NaN, and SB3's explained variance can be one.
            metrics={name: value if math.isfinite(value) else None for name, value in sorted(self._metrics.items())},
        )
        self._metrics.clear()

    def flush_episodes(self) -> None:
        """Writes finished episodes in one batch; too many of them as one row."""
        episodes = self.env.take()
        # A rate is one of a thousand transitions or more: a few episodes that end together are not many.
        span_of_batch = max(self.env.transitions - self._episodes_from, 1000)
        self._episodes_from = self.env.transitions
        if not episodes:
            return
        self.observers.episodes(episodes)
        if len(episodes) * 1000 > self.settings.ledger.episode_rate * span_of_batch:
            rows = [_aggregate(episodes)]
        else:
            rows = [_row(episode) for episode in episodes]
        self.ledger.add_episodes(self.run_id, rows)

    def states(self) -> dict[str, State]:
        """Everything a checkpoint holds."""
        states = {"learner": self.learner.get_state(), "tracker": self.env.get_state()}
        statistics = preprocessing_state(self.env.env)
        if statistics is not None:
            states["preprocessing"] = statistics
        if self.builder.data is not None:
            states["data"] = self.builder.data.fitted
        if is_stateful(self.env.env):
            states["env"] = self.env.env.get_state()  # type: ignore[attr-defined]
        elif hasattr(self.env.env, "episode_state"):
            states["episodes"] = self.env.env.episode_state()
        return states

    def restore(self, loaded: LoadedCheckpoint) -> str:
        """Continues from a checkpoint; says whether that is exact."""
        states = loaded.states
        self.learner.set_state(states["learner"])
        load_preprocessing(self.env.env, states.get("preprocessing"))
        exact = self.learner.resume == "exact" and "env" in states
        if exact:
            self.env.env.set_state(states["env"])  # type: ignore[attr-defined]
        elif "episodes" in states:
            self.env.env.set_episode_state(states["episodes"])  # type: ignore[attr-defined]
        self.env.set_state(states["tracker"], episodes_go_on=exact)
        # An approximate learner drops the rollout it was in; the count goes on from its last whole one.
        self.env.transitions = self.learner.timesteps
        self.checkpoint = loaded.checkpoint
        self._start_counting()
        return "exact" if exact else "approximate"

    def save(self) -> Checkpoint:
        """Writes a checkpoint, stores it in the row, and deletes those that nobody needs any more.

        A step that has its checkpoint already keeps it: nothing about a step changes after its boundary.
        """
        if self.checkpoint is not None and self.checkpoint.timesteps == self.learner.timesteps:
            return self.checkpoint
        with span("checkpoint"):
            # First the steps: a checkpoint whose steps are not on disk could not be resumed from.
            self.recording.checkpoint()
            self.checkpoint = self.store.save(
                self.run_id, self.learner.timesteps, self.states(), spec=self.spec.as_data(), seed=self.builder.seed
            )
        self.flush_episodes()
        self.ledger.update_run(
            self.run_id,
            timesteps=self.learner.timesteps,
            checkpoint=str(self.checkpoint.path),
            checkpoint_sha256=self.checkpoint.sha256,
            halt_checks=self.watcher.checks,
        )
        self.observers.saved(self.checkpoint)
        gone = self.store.prune(self.run_id, keep_last=self.settings.store.keep_last, held=self._held())
        if gone:
            self.observers.pruned(gone)
        return self.checkpoint

    def _held(self) -> list[Path]:
        folder = self.store.root / self.run_id
        standing = [Path(run.checkpoint or "") for run in self.ledger.standing_on(str(folder))]
        held = [*standing, *self.observers.held(folder)]
        return held if self.best is None else [*held, self.best.path]

    def announce(self, checkpoint: Checkpoint | None, **more: Any) -> None:
        """One train.checkpoint event."""
        assert checkpoint is not None
        self.bus.emit(
            "train.checkpoint",
            timesteps=checkpoint.timesteps,
            path=str(checkpoint.path),
            sha256=checkpoint.sha256,
            **more,
        )

    def validate(self) -> None:
        """Evaluates on the validation window, on environments of its own; a new best model is saved as such."""
        spec = self.spec
        window = spec.training.validation_window
        if self._validation_env is None:
            self._validation_env = self.builder.build_env(
                "validation",
                num_envs=min(spec.evaluation.episodes, spec.training.n_envs),
                phase="evaluate",
                window=window,
            )
        evaluation = self._evaluate(self._validation_env, "validation", window)
        if evaluation is None:
            return
        self._validated_at = self.learner.timesteps
        reward = evaluation.metrics["mean_reward"]
        if self.best_reward is None or reward > self.best_reward:
            self.best_reward = reward
            self.best = self.save()
            self.ledger.update_run(self.run_id, best_checkpoint=str(self.best.path), best_reward=reward)
            self.announce(self.best, best=True)

    def catch_up(self) -> None:
        """Makes up for a validation that a halt cut short or skipped."""
        if self._evaluate_every is None:
            return
        due = self.learner.timesteps // self._evaluate_every * self._evaluate_every
        made = (row.timesteps for row in self.ledger.evaluations(self.run_id) if row.phase == "validation")
        if due and max(made, default=0) < due and self.learner.timesteps < self.spec.training.total_timesteps:
            self.validate()

    def validate_the_last(self) -> None:
        """Lets the last model compete for the best one too, where the intervals missed it."""
        if self._evaluate_every is not None and self._validated_at != self.learner.timesteps:
            self.validate()

    def evaluate(self) -> Evaluation | None:
        """The final evaluation on the evaluation window, which chooses nothing; None where the spec wants none."""
        spec = self.spec
        if spec.evaluation.episodes == 0:
            return None
        window = spec.evaluation.window
        env = self.builder.build_env(
            "evaluate",
            num_envs=min(spec.evaluation.episodes, spec.training.n_envs),
            phase="evaluate",
            window=window,
            render=spec.evaluation.render,
        )
        try:
            return self._evaluate(env, "evaluate", window, render=spec.evaluation.render)
        finally:
            env.close()

    def _evaluate(
        self, env: AnyVectorEnv, phase: EvaluationPhase, window: Window, *, render: bool = False
    ) -> Evaluation | None:
        load_preprocessing(env, preprocessing_state(self.env.env))
        episodes = self.spec.evaluation.episodes
        earlier = sum(row.phase == phase for row in self.ledger.evaluations(self.run_id))
        recorded = self.recording.judge(
            env, phase, episodes=episodes, timesteps=self.learner.timesteps, first_episode=earlier * episodes
        )
        started = datetime.now(UTC)
        with span("evaluate", phase=phase):
            evaluation = evaluate_learner(
                self.learner,
                recorded,
                episodes=episodes,
                deterministic=self.spec.evaluation.deterministic,
                in_sample=self.builder.in_sample(window),
                seed=derived_seed(self.builder.seed, phase),
                dates=self.builder.dates_played(env, window),
                halt=self.watcher,
                record_frames=render,
            )
        if evaluation is None:
            return None
        # The last checkpoint is of an earlier policy where this one has none yet.
        saved = self.checkpoint if self.checkpoint and self.checkpoint.timesteps == self.learner.timesteps else None
        judged = Judged(
            evaluation,
            phase,
            self.learner.timesteps,
            self.builder.seed,
            self.spec.evaluation.deterministic,
            saved,
            started,
        )
        record_evaluation(self.ledger, self.bus, self.observers, self.run_id, judged)
        return evaluation

    def close(self) -> None:
        """Closes the environments that the session opened."""
        if self._validation_env is not None:
            self._validation_env.close()


def record_evaluation(ledger: Ledger, bus: EventBus, observers: RunObserver, run_id: str, judged: Judged) -> None:
    """Writes an evaluation's row and its event."""
    evaluation, metrics = judged.evaluation, judged.evaluation.metrics
    ledger.add_evaluation(
        run_id,
        phase=judged.phase,
        timesteps=judged.timesteps,
        seed=judged.seed,
        episodes=metrics["episodes"],
        deterministic=judged.deterministic,
        in_sample=evaluation.in_sample,
        checkpoint_sha256=None if judged.checkpoint is None else judged.checkpoint.sha256,
        mean_reward=metrics["mean_reward"],
        std_reward=metrics["std_reward"],
        mean_length=metrics["mean_length"],
        **{name: metrics.get(name) for name in PORTFOLIO_COLUMNS},
        metrics={**metrics, "returns": list(evaluation.returns), "lengths": list(evaluation.lengths)},
        started_at=judged.started,
        ended_at=datetime.now(UTC),
    )
    bus.emit("eval.step", phase=judged.phase, timesteps=judged.timesteps, **metrics)
    observers.judged(judged)


def _next_multiple(done: int, every: int) -> int:
    return (done // every + 1) * every


def _row(episode: Episode) -> dict[str, Any]:
    return {
        "phase": "train",
        "episode": episode.number,
        "last_episode": episode.number + episode.count - 1,
        "env_idx": episode.env_idx if episode.count == 1 else None,
        "count": episode.count,
        "timesteps": episode.timesteps,
        "mean_reward": episode.reward,
        "portfolio_value": episode.portfolio_value,
        "length": float(episode.length),
    }


def _aggregate(episodes: list[Episode]) -> dict[str, Any]:
    count = len(episodes)
    values = [episode.portfolio_value for episode in episodes if episode.portfolio_value is not None]
    return {
        "phase": "train",
        "episode": episodes[0].number,
        "last_episode": episodes[-1].number,
        "env_idx": None,
        "count": count,
        "timesteps": episodes[-1].timesteps,
        "mean_reward": sum(episode.reward for episode in episodes) / count,
        "portfolio_value": sum(values) / len(values) if values else None,
        "length": sum(episode.length for episode in episodes) / count,
    }
