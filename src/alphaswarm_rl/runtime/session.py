"""A training under way: what happens whenever the learner's state is whole, and at the end.

The learner owns the loop and calls a `TrainingSession` as its hooks. Between two calls of `boundary` lies a rollout and
its update (for off-policy agents, some steps); at a boundary the session logs, validates and saves what is due.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from alphaswarm_rl.core.claims import StaleClaim
from alphaswarm_rl.core.contracts import AnyVectorEnv, Learner, State
from alphaswarm_rl.core.run_listener import Checkpoint, Episode, Evaluation
from alphaswarm_rl.core.tracing import span
from alphaswarm_rl.core.types import EvaluationPhase, JsonObject
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.builder import Builder, is_stateful, load_preprocessing, preprocessing_state
from alphaswarm_rl.inference.checkpoints import CheckpointStore, LoadedCheckpoint
from alphaswarm_rl.inference.policy_plan import PolicyPlan
from alphaswarm_rl.recording.episodes import EpisodeTracker
from alphaswarm_rl.recording.run_recorder import RunRecorder, records_training
from alphaswarm_rl.runtime.evaluate import evaluate_policy, evaluation_env, report_evaluation
from alphaswarm_rl.runtime.judging import CheckpointJudge, evaluation_interval
from alphaswarm_rl.runtime.pace import Pace
from alphaswarm_rl.runtime.progress import progress_of
from alphaswarm_rl.runtime.rollout import EvaluationPlan
from alphaswarm_rl.runtime.run import Run, RunSetup

if TYPE_CHECKING:
    from alphaswarm_rl.recording.device_tracker import DeviceTracker

#: Transitions that count as a rollout for agents that update step by step.
_OFF_POLICY_LOG_UNIT = 1000
#: A training that says nothing for so long says where it is at its next boundary.
_SECONDS_OF_SILENCE = 1.0


@dataclass(frozen=True)
class PhaseEnvs:
    """The environments of a training, one for each of its phases.

    All are built before it begins, so that an evaluation that cannot be had is refused at once.

    Attributes:
        train: The training environment, which counts its episodes.
        validation: That of evaluations which choose the best model; None where none is sought.
        evaluation: That of the final evaluation; None where the spec has none.
    """

    train: EpisodeTracker | DeviceTracker
    validation: AnyVectorEnv | None
    evaluation: AnyVectorEnv | None

    @classmethod
    def build(cls, builder: Builder, run: Run | RunSetup, opened: ExitStack) -> PhaseEnvs:
        """Builds the environments of a training, or of one that is only planned; `opened` closes them."""
        training, evaluation = builder.spec.training, builder.spec.evaluation
        recorded = records_training(run.spec, run.settings, builder.device)
        on_device = builder.trains_on_device(recorded=recorded)
        env = builder.build_env(
            "env", num_envs=training.n_envs, phase="train", window=training.window, on_device=on_device
        )
        tracker = _tracker(env, on_device=on_device)
        opened.callback(tracker.close)
        final = validation = None
        if evaluation.episodes:
            final = evaluation_env(
                builder, "evaluate", evaluation.window, episodes=evaluation.episodes, render=evaluation.render
            )
            opened.callback(final.close)
        if training.eval_during_training:
            validation = evaluation_env(builder, "validation", training.validation_window, episodes=evaluation.episodes)
            opened.callback(validation.close)
        return cls(tracker, validation, final)


def _tracker(env: AnyVectorEnv, *, on_device: bool) -> EpisodeTracker | DeviceTracker:
    if not on_device:
        return EpisodeTracker(env)
    from alphaswarm_rl.recording.device_tracker import DeviceTracker

    return DeviceTracker(env)


class TrainingSession:
    """One training run in progress; the hooks a learner calls.

    Args:
        run: The run.
        builder: Builds what the run needs.
        learner: The agent.
        envs: The environments of all phases.
        recorder: Where steps go.

    Attributes:
        checkpoint: The last checkpoint.
        line: The checkpoints that the run stands on and the ledger names, kept or not, the oldest first.
        best: The checkpoint of the best model so far, by its validation.
        best_reward: Its mean reward in that validation.
        judge: Judges checkpoints on the validation window; None: they are not judged.
    """

    def __init__(self, run: Run, builder: Builder, learner: Learner, envs: PhaseEnvs, recorder: RunRecorder) -> None:
        self.run = run
        self.builder = builder
        self.learner = learner
        self.envs = envs
        self.env = envs.train
        self.recorder = recorder
        self.store = CheckpointStore(run.settings.models_path)
        self.progress = progress_of(run.id, run.spec.training.total_timesteps, bar=run.setup.progress)
        self.decided = recorder.decided
        self.checkpoint: Checkpoint | None = None
        self.line: list[Checkpoint] = []
        self.best: Checkpoint | None = None
        self.best_reward: float | None = None
        self.judge: CheckpointJudge | None = None
        training = run.spec.training
        self._log_every = training.log_interval * (learner.rollout_transitions or _OFF_POLICY_LOG_UNIT)
        self._save_every = run.settings.store.checkpoint_freq
        self._validate_every = evaluation_interval(training)
        self._validated_at: int | None = None
        self._metrics: dict[str, float] = {}
        self._start_counting()

    def _start_counting(self) -> None:
        done = self.learner.timesteps
        self._next_log = _next_multiple(done, self._log_every)
        self._next_save = _next_multiple(done, self._save_every)
        self._next_validation = None if self._validate_every is None else _next_multiple(done, self._validate_every)
        #: Since the last log interval, and since the last train.step event of any reason.
        self._interval_pace = self._event_pace = Pace(done)
        self._flushed_at = done

    def should_halt(self) -> bool:
        """Whether the learner must stop; it asks on every vector step."""
        if self.progress.is_due():
            self.progress.show(self.env.transitions, self.env.mean_reward)
        return self.run.watcher.should_halt()

    def boundary(self, metrics: Mapping[str, float]) -> None:
        """The learner's state is whole: logs, validates and saves what is due."""
        self.recorder.release()
        self._metrics.update(metrics)
        done = self.learner.timesteps
        if done >= self._next_log:
            self.log("interval")
        elif done >= self.run.spec.training.total_timesteps:
            # Before its checkpoint: whoever resumes from that has this point already.
            self.log("end")
        if self._next_validation is not None and done >= self._next_validation and not self.run.watcher.reason:
            self.validate()
            self._next_validation = _next_multiple(done, self._validate_every or 1)
        if done >= self._next_save:
            self.report_checkpoint(self.save())
            self._next_save = _next_multiple(done, self._save_every)
        self.env.mark()
        if done != self._event_pace.first and self._event_pace.seconds >= _SECONDS_OF_SILENCE:
            self._say_alive()

    def log(self, reason: Literal["interval", "end"]) -> None:
        """Emits the train.step event of a log interval, or of the end; stores the episodes that finished before it."""
        self.flush_episodes()
        self._emit_step(reason, self._interval_pace)
        self._metrics.clear()
        self._interval_pace = self._event_pace
        self._next_log = _next_multiple(self.learner.timesteps, self._log_every)

    def _say_alive(self) -> None:
        """Emits a train.step event by the clock; no training waits or fails for it: the ledger must take it at once."""
        if self.run.ledger.takes_writes():
            self._emit_step("time", self._event_pace)

    def log_halt(self) -> None:
        """Emits a train.step event where a halted training stopped, unless the last one is of there."""
        if self.run.watcher.reason and self.learner.timesteps != self._event_pace.first:
            self._emit_step("halt", self._event_pace)

    def _emit_step(self, reason: Literal["interval", "end", "time", "halt"], pace: Pace) -> None:
        """Emits a train.step event, and nothing else: what else is kept must not depend on the clock."""
        done = self.learner.timesteps
        self.run.update(timesteps=done, halt_checks=self.run.watcher.checks)
        self.run.emit(
            "train.step",
            reason=reason,
            timesteps=done,
            episodes=self.env.finished,
            mean_reward=self.env.mean_reward,
            steps_per_second=round(pace.rate(done), 1),
            # JSON has no NaN, and SB3's explained variance can be one.
            metrics={name: value if math.isfinite(value) else None for name, value in sorted(self._metrics.items())},
        )
        self._event_pace = Pace(done)

    def flush_episodes(self) -> None:
        """Stores finished episodes in one batch; too many of them as one row."""
        episodes = self.env.take()
        # A rate is one of a thousand transitions or more: a few episodes that end together are not many.
        transitions = max(self.env.transitions - self._flushed_at, 1000)
        self._flushed_at = self.env.transitions
        if not episodes:
            return
        for listener in self.run.listeners:
            listener.on_episodes(episodes)
        if len(episodes) * 1000 > self.run.settings.ledger.episode_rate * transitions:
            rows = [_mean_row(episodes)]
        else:
            rows = [_row(episode) for episode in episodes]
        self.run.ledger.add_episodes(self.run.id, rows)

    def states(self) -> dict[str, State]:
        """Everything a checkpoint holds."""
        env = self.env.env
        states = {"learner": self.learner.get_state(), "tracker": self.env.get_state()}
        statistics = preprocessing_state(env)
        if statistics is not None:
            states["preprocessing"] = statistics
        if self.builder.data is not None:
            states["data"] = self.builder.data.fitted
        if is_stateful(env):
            states["env"] = env.get_state()  # type: ignore[attr-defined]
        elif hasattr(env, "episode_state"):
            states["episodes"] = env.episode_state()
        return states

    def restore(self, loaded: LoadedCheckpoint) -> str:
        """Continues from a checkpoint; returns whether that is `exact` or `approximate`."""
        states, env = loaded.states, self.env.env
        self.learner.set_state(states["learner"])
        load_preprocessing(env, states.get("preprocessing"))
        exact = self.learner.resume == "exact" and "env" in states
        if exact:
            env.set_state(states["env"])  # type: ignore[attr-defined]
        elif "episodes" in states:
            env.set_episode_state(states["episodes"])  # type: ignore[attr-defined]
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
        run = self.run
        with span("checkpoint"):
            # First the steps: a checkpoint whose steps are not on disk could not be resumed from.
            self.recorder.checkpoint()
            checkpoint = self.checkpoint = self.store.save(
                run.id,
                self.learner.timesteps,
                self.states(),
                spec=run.spec.as_data(),
                seed=self.builder.seed,
                policy=self.policy_plan.to_json(),
                claim=run.row.claim.number,
            )
        try:
            self.flush_episodes()
            run.update(
                timesteps=self.learner.timesteps,
                checkpoint=str(checkpoint.path),
                checkpoint_sha256=checkpoint.sha256,
                recording=self.recorder.report(),
                halt_checks=run.watcher.checks,
            )
        except StaleClaim:  # and nothing else: where the ledger is not ours, nobody else has what is saved here
            self.store.discard(checkpoint.path)
            raise
        self.line.append(checkpoint)
        for listener in run.listeners:
            listener.on_checkpoint(checkpoint)
        self.judge_checkpoint(checkpoint)
        self.prune()
        return checkpoint

    def judge_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Judges the policy as it is saved in a checkpoint, where checkpoints are judged and this one was not yet."""
        if self.judge is not None:
            self.judge.judge(self.learner, self.env.env, checkpoint)

    def prune(self) -> None:
        """Deletes checkpoints that nobody needs: all but the newest that the ledger names, and those that are held.

        What a process left that lost the run before the ledger named it goes too, and takes nobody's place.
        """
        run = self.run
        newest = [checkpoint.path for checkpoint in self.line[-run.settings.store.keep_last :]]
        unneeded = self.store.unneeded(run.row.claim, [*newest, *self.held_checkpoints()])
        if not unneeded:
            return
        run.ledger.refuse_stale()
        # Models before files: whoever is killed in between leaves files, which the next one to prune deletes.
        for listener in run.listeners:
            listener.on_pruned(unneeded)
        self.store.prune(unneeded, refuse_stale=run.ledger.refuse_stale)

    @cached_property
    def policy_plan(self) -> PolicyPlan:
        """What answering with the agent needs, beside what it learns: the same in every checkpoint of the run."""
        remembers = bool(getattr(self.learner, "remembers", False))
        return self.builder.policy_plan(self.env.env, self.run.spec.training.window, remembers=remembers)

    def held_checkpoints(self) -> list[Path]:
        """Checkpoints that somebody needs: other runs, models, and this run as its best."""
        folder = self.store.root / self.run.id
        held = [Path(row.checkpoint or "") for row in self.run.ledger.standing_on(str(folder))]
        held += [path for listener in self.run.listeners for path in listener.held_checkpoints(folder)]
        return held if self.best is None else [*held, self.best.path]

    def report_checkpoint(self, checkpoint: Checkpoint, **details: object) -> None:
        """Emits one train.checkpoint event."""
        self.run.emit(
            "train.checkpoint",
            timesteps=checkpoint.timesteps,
            path=str(checkpoint.path),
            sha256=checkpoint.sha256,
            **details,
        )

    def validate(self) -> None:
        """Evaluates the policy on the validation window; a new best model is saved as such."""
        assert self.envs.validation is not None
        evaluation = self._evaluate(self.envs.validation, "validation", self.run.spec.training.validation_window)
        if evaluation is None:
            return
        self._validated_at = self.learner.timesteps
        reward = evaluation.metrics["mean_reward"]
        if self.best_reward is None or reward > self.best_reward:
            self.best_reward = reward
            self.best = self.save()
            self.run.update(best_checkpoint=str(self.best.path), best_reward=reward)
            self.report_checkpoint(self.best, best=True)

    def catch_up(self) -> None:
        """Makes up for a validation that a halt cut short or skipped."""
        if self._validate_every is None:
            return
        due = self.learner.timesteps // self._validate_every * self._validate_every
        made = (row.timesteps for row in self.run.ledger.evaluations(self.run.id) if row.phase == "validation")
        # What was due before a run that trains another further began was that run's.
        began = self.run.row.arguments.get("continues", {}).get("step", 0)
        if max(made, default=began) < due and self.learner.timesteps < self.run.spec.training.total_timesteps:
            self.validate()

    def validate_last(self) -> None:
        """Lets the last model compete for the best one too, where the intervals missed it."""
        if self._validate_every is not None and self._validated_at != self.learner.timesteps:
            self.validate()

    def evaluate(self) -> Evaluation | None:
        """The final evaluation on the evaluation window, which chooses nothing; None where the spec has none."""
        if self.envs.evaluation is None:
            return None
        return self._evaluate(self.envs.evaluation, "evaluate", self.run.spec.evaluation.window)

    def _evaluate(self, env: AnyVectorEnv, phase: EvaluationPhase, window: Window) -> Evaluation | None:
        load_preprocessing(env, preprocessing_state(self.env.env))
        spec, done = self.run.spec.evaluation, self.learner.timesteps
        earlier = sum(row.phase == phase for row in self.run.ledger.evaluations(self.run.id))
        plan = EvaluationPlan(
            phase=phase,
            window=window,
            episodes=spec.episodes,
            deterministic=spec.deterministic,
            render=spec.render and phase == "evaluate",
            timesteps=done,
            # The last checkpoint is of an earlier policy where this one has none yet.
            checkpoint=self.checkpoint if self.checkpoint and self.checkpoint.timesteps == done else None,
            first_episode=earlier * spec.episodes,
        )
        evaluated = evaluate_policy(self.run, self.builder, self.learner, env, self.recorder, plan)
        if evaluated is None:
            return None
        report_evaluation(self.run, evaluated)
        return evaluated.evaluation


def _next_multiple(done: int, every: int) -> int:
    return (done // every + 1) * every


def _row(episode: Episode) -> JsonObject:
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


def _mean_row(episodes: Sequence[Episode]) -> JsonObject:
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
